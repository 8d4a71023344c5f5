"""When near is near enough, and what is few: the same everywhere in a solve."""

ROUNDING = 1e-9  # share by which bounds in floating point are raised, or lowered, for its rounding
PROGRAM = 1e-7  # share by which the bound of an integer program is lowered for the library's tolerances
LESS = 1 - 2e-7  # share of a price: integer programs look for no plans that save less

GAP = 0.001  # between cost and bound: what could be saved is not worth another search
CLOSE = 1 - GAP  # the same as a share of the cost
GOOD = 1.002  # times a price that cannot be beaten: local search has nothing to find there
OPTIMAL = 0.9999  # share of the price in fractions: no pattern that is missing could save more

FEW = 64  # kinds of pods, or items: of more there are too many patterns to try them all
NARROW, WIDE = 2_000, 20_000  # partial patterns that a search follows: at first, and where it found nothing
