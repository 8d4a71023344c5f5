"""What can be bought.

market         types, zones and prices, as AWS says; packaged ones until it has
reservations   offerings in capacity that the account has reserved
discovered     memory as machines turned out to have it
refresh        a region as AWS describes it now, for use without AWS
"""
