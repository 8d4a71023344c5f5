"""What all tests share."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from dovetail.base.collector import collect_seldom

# All modules of tests are loaded first: to look through all that again and again took a fifth of the time.
collect_seldom()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Pictures of the pages for docs/images are taken only when they are asked for."""
    parser.addoption("--screenshots", action="store_true", help="write the pictures of docs/images anew")


# Suites that several modules of tests share show what they compared as well.
pytest.register_assert_rewrite("api_server", "tests.conformance.api_server")

# A busy machine must not fail a test: no time limit per example, and the same examples every time, so that a
# failure is a change of ours. Fresh examples: `pytest --hypothesis-profile=explore`.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", deadline=None, max_examples=2_000)
settings.load_profile("steady")
