"""Mutants that no test can notice, each with the reason. One that is noticed or gone leaves the list."""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
