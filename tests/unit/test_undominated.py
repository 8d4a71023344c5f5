"""Which offerings are worth a look: compared with every pair of them, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.solve.colgen.pricing_instance import undominated


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("most", [3, 1_000], ids=["many alike", "few alike"])
def test_an_offering_goes_only_if_an_earlier_one_holds_as_much(seed: int, most: int) -> None:
    """Earlier is cheaper, or as cheap and larger in sum, or first of equals; protected ones always stay."""
    draw = np.random.default_rng(seed)
    many = 600
    capacity, price = draw.integers(0, most, (many, 3)), draw.integers(1, 50, many)
    protected = draw.random(many) < 0.1
    feasible = draw.random((2, many)) < 0.7
    useful = np.flatnonzero(feasible.any(axis=0))
    order = useful[np.lexsort((-capacity[useful].sum(axis=1), price[useful]))].tolist()
    stay = []
    for place, one in enumerate(order):
        rivals = [
            other
            for other in order[:place]
            if not protected[other] and (feasible[:, other] == feasible[:, one]).all()
        ]
        if protected[one] or not any((capacity[other] >= capacity[one]).all() for other in rivals):
            stay.append(one)
    assert undominated(feasible, capacity, price, protected).tolist() == sorted(stay)
