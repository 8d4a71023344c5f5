"""Defaults that a command's --help shows: here, so that it need not load what uses them."""

from __future__ import annotations

# A spot node keeps so many types, where there are as many that cost at most so many percent more.
SPOT_DIVERSITY = 15
SPOT_TOLERANCE = 20
# Types that a spot launch names, with all offerings up to their price and within that tolerance. Of 60 types
# a fleet is likely to pay 1.19 of the cheapest (c, m, r in us-east-1, the mean of 40 markets), of 15 it is
# 1.11, for pools 18 % shallower; of 10 and 5 it is 1.09 and 1.06, for pools 27 and 49 % shallower.
SPOT_LAUNCH_TYPES = 15

LEASE = "karpenter-leader-election"  # the name of the leader's lease
