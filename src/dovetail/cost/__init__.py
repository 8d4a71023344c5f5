"""What was paid, and for what: allocation of the bill as OpenCost does it, to the nano-dollar.

window      the texts of a window, as OpenCost reads them
filters     its filter language
allocation  one allocation, sets of them, how they merge, how they are written
aggregate   sharing, filtering and grouping of a set; accumulation of several
ledger      what ran when and at which price -> sets of a window
"""
