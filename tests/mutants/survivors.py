"""Mutants that no test can notice, each with the reason. One that is noticed or gone leaves the list."""

from __future__ import annotations

_D = "dovetail.disrupt."

EQUIVALENT: dict[str, str] = {
    # It only finds out whether the text can be read: of how many nodes, and at which instant, is the same.
    _D + "budgets:fault:more:0": "a budget that can be read of one node can be read of two",
    _D + "budgets:fault:less:0": "a budget that can be read of one node can be read of none",
    _D + "budgets:fault:more:1": "a schedule that can be read at 0 ns can be read at 1 ns",
    _D + "budgets:is_active:part:4": "NEVER is later than any instant, so it is after `now` as well",
}
