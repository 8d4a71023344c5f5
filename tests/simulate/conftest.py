"""What tests of a whole cluster share."""

from __future__ import annotations

import operated
import pytest


@pytest.fixture(params=list(operated.CLOUDS))
def every_cloud(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Plays the test on each provider that there is; answers which."""
    name: str = request.param
    monkeypatch.setattr(operated, "CLOUD", name)
    return name
