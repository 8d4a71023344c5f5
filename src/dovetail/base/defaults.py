"""Defaults that a command's --help shows: here, so that it need not load what uses them."""

from __future__ import annotations

# A spot node keeps so many types, where there are as many that cost at most so many percent more.
SPOT_DIVERSITY = 15
SPOT_TOLERANCE = 20

LEASE = "karpenter-leader-election"  # the name of the leader's lease
