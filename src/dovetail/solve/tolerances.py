"""When near is near enough, and what is few or many: the same everywhere in a solve."""

ROUNDING = 1e-9  # share by which bounds in floating point are raised, or lowered, for its rounding
PROGRAM = 1e-7  # share by which the bound of an integer program is lowered for the tolerances of the library
LINEAR = 1e-6  # the same with rules between pods, of many rows; and what a linear program may be off
LESS = 1 - 2 * PROGRAM  # share of a price: integer programs look for no plans that save less

GAP = 0.001  # between cost and bound: what could be saved is not worth another search
CLOSE = 1 - GAP  # share of the cost that a bound need not exceed
GOOD = 1 + GAP  # times a price that cannot be beaten: there is nothing to find there
PAYS = 1e-4  # share of a node's price, or of a cost: what gains less is not worth a pattern, or a round
OPTIMAL = 1 - PAYS  # share of the price in fractions: no pattern that is missing could save more

MOSTLY = 0.8  # share from which on something counts as a whole
ALIKE = 1.01  # times an amount, or a cost: as good as equal

TRIES = 8  # times that something is tried anew, or in another way, though it brought nothing
SEVERAL = 24  # alternatives that are told apart in one program; of more, the rest is taken together
FEW = 64  # classes, items or pods: so few are looked at in every way, however little time there is
MANY = 300  # items, or nodes: of more, steps that look at all of them are done once, or not at all
LARGE = 80_000  # items times offerings: to look at so many again and again takes too long
PASSES = 3  # times that something is done anew since what came of it changes what it was done for
# Partial patterns, pairs or ways that a search follows: at first, and at most.
NARROW, WIDE = 2_000, 20_000
