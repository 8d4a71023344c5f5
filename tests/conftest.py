"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings

from dovetail.base.collector import collect_seldom
from dovetail.cloud.aws.instancetype.market import Market, Wanted
from dovetail.cloud.catalog import store
from dovetail.model.offering import InstanceType

# All modules of tests are loaded first: to look through all that again and again took a fifth of the time.
collect_seldom()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Pictures of the pages for docs/images are taken only when they are asked for."""
    parser.addoption("--screenshots", action="store_true", help="write the pictures of docs/images anew")
    parser.addoption("--types-anew", action="store_true", help="every simulated account makes its types anew")


_TYPES_KEPT = 8


@pytest.fixture(scope="session", autouse=True)
def types_made_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Simulated accounts that sell the same to the same class share the types: nobody changes them.

    To make a region's types anew is a third of what most tests of a whole cluster take.
    """
    if request.config.getoption("--types-anew"):
        yield
        return
    known: list[tuple[object, tuple[InstanceType, ...]]] = []
    make = Market._make

    def made(market: Market, wanted: Wanted) -> tuple[InstanceType, ...]:
        region, spec = market._aws.region, wanted.node_class and wanted.node_class.spec
        asked = (region, store.given_spot(region), market._options, spec, replace(wanted, node_class=None))
        key = (*asked, market.sold)
        place = next((place for place, (other, _) in enumerate(known) if other == key), None)
        found = known.pop(place) if place is not None else (key, make(market, wanted))
        known.append(found)
        del known[:-_TYPES_KEPT]
        return found[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Market, "_make", made)
        yield


# Suites that several modules of tests share show what they compared as well.
pytest.register_assert_rewrite("api_server", "tests.conformance.api_server")

# A busy machine must not fail a test: no time limit per example, and the same examples every time, so that a
# failure is a change of ours. Fresh examples: `pytest --hypothesis-profile=explore`.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile("steady")
