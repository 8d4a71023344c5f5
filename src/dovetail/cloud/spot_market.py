"""How spot prices and spot pools move in simulated markets: drawn by seed, the same whenever it is asked for.

A plan's likely price is the mean over some of these markets, so this stands apart from the fake AWS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dovetail.base.clock import HOUR
from dovetail.base.streams import stream
from dovetail.cloud.choice import Pool

# Spot prices and the depth of spot pools are drawn afresh so often, and lie on a line in between.
STEP = 6 * HOUR
_PRICE_SWING = 0.12  # of the middle price, at most
_DEPTH_SWING = 0.6
# vCPUs that a spot pool holds in the middle: evenly spread over the magnitudes between these.
_SHALLOWEST, _DEEPEST = math.log(2_000), math.log(200_000)


def spot_depth(seed: int, pool: Pool, vcpus: int, now: int) -> int:
    """How many instances of so many vCPUs a spot pool holds at the moment, all users' included."""
    middle = _drawn(seed, _key(pool), "spot depth")
    return _depth(middle, _wave(seed, pool, "spot depth", now), vcpus)


def spot_swing(seed: int, pool: Pool, now: int) -> float:
    """What a spot price is at the moment, as a share of its middle."""
    return 1 + _PRICE_SWING * _wave(seed, pool, "spot price", now)


def spot_markets(pools: Mapping[Pool, int], pairs: int) -> npt.NDArray[np.float64]:
    """Price, as a share of its middle, and depth of spot pools in markets of their own, at a moment.

    P pools with the vCPUs of an instance, M pairs of markets: (P, 2 M, 2). All that is drawn of a pool comes
    from one stream: to seed one takes longer than to draw. The second market of a pair is the mirror of the
    first, so that the mean of a price is its middle.
    """
    streams = [stream(0, _key(pool), "spot markets").random for pool in pools]
    drawn = np.array([[draw() for _ in range(3 * pairs)] for draw in streams]).reshape(len(pools), pairs, 3)
    vcpus = np.array(list(pools.values()))[:, None]
    price, middle, wave = 2 * drawn[:, :, 0] - 1, drawn[:, :, 1], 2 * drawn[:, :, 2] - 1
    found = np.empty((len(pools), pairs, 2, 2))
    for mirror, (p, m, w) in enumerate(((price, middle, wave), (-price, 1 - middle, -wave))):
        found[:, :, mirror, 0] = 1 + _PRICE_SWING * p
        exponents = (_SHALLOWEST + (_DEEPEST - _SHALLOWEST) * m).ravel().tolist()
        usual = np.array(list(map(math.exp, exponents))).reshape(m.shape)  # as of a single pool, to the bit
        found[:, :, mirror, 1] = np.maximum(np.trunc(usual * (1 + _DEPTH_SWING * w) / vcpus), 0)
    return found.reshape(len(pools), 2 * pairs, 2)


def _depth(middle: float, wave: float, vcpus: int) -> int:
    """`middle` from 0 to 1, `wave` from -1 to 1."""
    usual = math.exp(_SHALLOWEST + (_DEEPEST - _SHALLOWEST) * middle)
    return max(0, int(usual * (1 + _DEPTH_SWING * wave) / vcpus))


def _wave(seed: int, pool: Pool, purpose: str, now: int) -> float:
    """From -1 to 1: a line between draws, the same whenever it is asked for."""
    step, into = divmod(now, STEP)
    before, after = (-1 + 2 * _drawn(seed, f"{_key(pool)}/{number}", purpose) for number in (step, step + 1))
    return before + (after - before) * into / STEP


@lru_cache(maxsize=32_768)  # all pools of a region, which every launch asks about
def _drawn(seed: int, entity: str, purpose: str) -> float:
    """From 0 to 1."""
    return stream(seed, entity, purpose).random()


def _key(pool: Pool) -> str:
    return f"{pool[1]}/{pool[2]}"
