"""What Dovetail would do beside another controller: nothing is written, everything is reported.

tally        figures of both sides, the metrics that they become, and the table to read
launches     plans for pods that wait, as if the other controller had not bought for them yet
disruptions  commands that would be begun now, one after another, until there are no more
rival        what the other controller does
"""
