"""Pods like those of a cluster for machine learning: most with a GPU, few sizes frequent, many sizes rare."""

from __future__ import annotations

from dovetail.base.streams import stream
from dovetail.model.resources import CPU, MEMORY
from dovetail.simulate.scenario.trace import GPU

Requests = tuple[tuple[str, int], ...]  # resource -> amount, by name
_GPUS = (0, 1, 2, 4, 8)
_SHARES = (24, 68, 3, 3, 2)  # of the sizes, in per cent
_STEEPNESS = 1.1  # the n-th size has n ** -1.1 times the pods of the first


def sizes(count: int) -> list[Requests]:
    """So many different sizes: 1 to 32 CPUs where there is no GPU, 1 to 11 for each; 1 to 6 GiB per CPU."""
    found: dict[Requests, None] = {}
    number = 0
    while len(found) < count:
        draw = stream(number, "size", "benchmark synthetic")
        gpus = draw.choices(_GPUS, _SHARES)[0]
        most = 11 * gpus or 32
        cpu = 100 * round(10 * most ** draw.random())
        memory = round(cpu * draw.uniform(1, 6) * 1.024) * 2**20
        amounts = ((CPU, cpu), (MEMORY, memory))
        found[(*amounts, (GPU, gpus)) if gpus else amounts] = None
        number += 1
    return list(found)


def requests(pods: int, shapes: int) -> list[Requests]:
    """What each pod asks for; every size comes at least once."""
    menu = sizes(shapes)
    weights = [(number + 1) ** -_STEEPNESS for number in range(shapes)]
    total, result = sum(weights), []
    for size, weight in zip(menu, weights, strict=True):
        result += [size] * max(1, round(pods * weight / total))
    return result[:pods] if len(result) >= pods else result + [menu[0]] * (pods - len(result))
