"""Mutants that no test can notice, each with the reason. One that is noticed or gone leaves the list."""

from __future__ import annotations

_D = "dovetail.disrupt."
_EVICT = "dovetail.controllers.node.evict:"
_CHOICE = "dovetail.cloud.choice:"
_ELECTION = "dovetail.runtime.process.election:"

EQUIVALENT: dict[str, str] = {
    # It only finds out whether the text can be read: of how many nodes, and at which instant, is the same.
    _D + "budgets:fault:more:0": "a budget that can be read of one node can be read of two",
    _D + "budgets:fault:less:0": "a budget that can be read of one node can be read of none",
    _D + "budgets:fault:more:1": "a schedule that can be read at 0 ns can be read at 1 ns",
    _D + "budgets:is_active:part:4": "NEVER is later than any instant, so it is after `now` as well",
    # A tenth of a second reaches ten seconds by seven doublings; the bound keeps the number small.
    _EVICT + "EvictionQueue._refused:more:1": "more than seven doublings make no difference",
    _EVICT + "EvictionQueue._refused:less:1": "more than seven doublings make no difference",
    _EVICT + "EvictionQueue._refused:scale:0": "more than seven doublings make no difference",
    # Shortcuts: what they skip comes to the same.
    _CHOICE + "_compatible:part:0": "a type's name is one of its requirements, compared after it",
    _CHOICE + "_compatible:always:1": "the verdict about equal requirements is the same each time",
    _ELECTION + "Election.__init__:text:0": "another stream of random numbers",
    _ELECTION + "Election._renew:more:0": "a nanosecond",
    _ELECTION + "Election._renew:more:1": "a nanosecond",
    _ELECTION + "Election._pause:more:1": "a nanosecond",
}
