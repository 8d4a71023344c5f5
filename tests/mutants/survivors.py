"""Mutants that no test can notice, each with the reason. One that is noticed or gone leaves the list."""

from __future__ import annotations

_D = "dovetail.disrupt."
_MOVES = "dovetail.disrupt.consolidation."
_EVICT = "dovetail.controllers.node.evict:"
_KEPT = "dovetail.kube.memory.disruption:"
_WATCH = "dovetail.simulate.violations."
_NODE = "dovetail.controllers.node."
_CHOICE = "dovetail.cloud.choice:"
_ELECTION = "dovetail.runtime.process.election:"

EQUIVALENT: dict[str, str] = {
    _D + "drift:_offered:text:0": "no type has such a name",
    _D + "drift:_offered:text:1": "no zone has such a name",
    _D + "drift:_offered:text:2": "no capacity type has such a name",
    _D + "emptiness:_enabled:part:0": "a node without a pool is passed over before",
    _D + "rollout:rollout:more:0": "no two nodes have one name",
    _D + "static:_left:part:0": "what has no end has no age at which it ends",
    _D + "pods:evictable:part:3": "what tolerates nothing does not tolerate the disruption",
    _D + "pods:do_not_disrupt:never:0": "it is no mistake, and has no end",
    _D + "pods:do_not_disrupt:text:1": "it is no mistake, and has no end",
    _D + "pods:Budgets.__init__:scale:0": "how much is remembered changes no answer",
    _D + "pods:Budgets.__init__:scale:1": "how much is remembered changes no answer",
    _D + "pods:eviction_cost:text:0": "what cannot be read counts like what is not there",
    # It only finds out whether the text can be read: of how many nodes, and at which instant, is the same.
    _D + "budgets:fault:more:0": "a budget that can be read of one node can be read of two",
    _D + "budgets:fault:less:0": "a budget that can be read of one node can be read of none",
    _D + "budgets:fault:more:1": "a schedule that can be read at 0 ns can be read at 1 ns",
    _D + "budgets:is_active:part:4": "NEVER is later than any instant, so it is after `now` as well",
    _EVICT + "EvictionQueue._notice:part:1": "no object of another kind has a pod's uid",
    _EVICT + "-:scale:6": "how much is remembered is no decision",
    _EVICT + "-:scale:7": "how much is remembered is no decision",
    _EVICT + "EvictionQueue.__init__:text:0": "the queue's name in metrics",
    _EVICT + "EvictionQueue.__init__:always:0": "what is no longer wanted is in no queue",
    _EVICT + "EvictionQueue.__init__:never:0": "the object of an error's event",
    _KEPT + "DisruptionController.notice:text:2": "every kind that is looked at has a namespace",
    _KEPT + "DisruptionController._write:always:0": "a patch that changes nothing is not stored",
    _KEPT + "DisruptionController._write:drop:2": "to count once more finds the same",
    _KEPT + "_facts:compare:0": "facts are compared with each other only",
    _KEPT + "_facts:compare:1": "facts are compared with each other only",
    _NODE + "drain:decide:more:0": "without pods it is no group's turn",
    _NODE + "drain:_group:more:0": "the order of the four groups stays",
    _NODE + "drain:_forced:more:0": "without a deadline nothing is forced",
    _NODE + "drain:_forced:never:0": "without a deadline nothing is forced",
    _NODE + "terminate:NodeTermination._notice:always:0": "what is no pod is passed over behind it",
    _NODE + "terminate:NodeTermination.reconcile:part:3": "to delete it again has no effect",
    _NODE + "terminate:NodeTermination.reconcile:part:4": "only nodes without claims are guarded",
    _NODE + "terminate:NodeTermination._act:more:0": "without a deadline nothing is forced",
    _NODE + "terminate:NodeTermination.__init__:text:0": "the queue's name in metrics",
    _NODE + "terminate:NodeTermination.__init__:more:0": "how many at a time is no decision",
    _NODE + "terminate:NodeTermination.__init__:less:0": "how many at a time is no decision",
    _NODE + "terminate:NodeTermination.__init__:scale:0": "how many at a time is no decision",
    _NODE + "terminate:NodeTermination._warn_of_deadline:always:0": "a deadline is of a claim",
    _WATCH + "machines:finalized:never:0": "the rule is asked about nodes only",
    _WATCH + "machines:finalized:always:1": "a node that is known has a view",
    _WATCH + "machines:terminated:part:0": "without a claim there is no node of it",
    _WATCH + "machines:_became:always:0": "the rule is asked about claims only",
    _WATCH + "machines:_stated:always:0": "it is asked about claims that state a reason",
    _WATCH + "machines:registered:never:0": "the rule is asked about nodes only",
    # A tenth of a second reaches ten seconds by seven doublings; the bound keeps the number small.
    _EVICT + "EvictionQueue._refused:more:1": "more than seven doublings make no difference",
    _EVICT + "EvictionQueue._refused:less:1": "more than seven doublings make no difference",
    _EVICT + "EvictionQueue._refused:scale:0": "more than seven doublings make no difference",
    # Shortcuts: what they skip comes to the same.
    _MOVES + "churn:Ledger.left:always:0": "of workloads that did not move nothing is asked",
    _MOVES + "deletes:deletable:jump:0": "without work left, the nodes behind it are passed over as well",
    _MOVES + "deletes:Room.move:part:1": "what finds no room once finds none later",
    _MOVES + "deletes:Room.homeless:never:0": "what finds no room once finds none later",
    _MOVES + "deletes:Room.homeless:more:0": "any number below 0 is no node",
    _MOVES + "deletes:Room._host:never:0": "without any that fits, the first is looked at and does not fit",
    _MOVES + "deletes:Room._host:never:1": "what is not remembered is looked for again",
    _MOVES + "deletes:Room._host:drop:0": "what is not remembered is looked for again",
    _MOVES + "deletes:Room._host:more:1": "any number below 0 is no node",
    _MOVES + "deletes:Room._host:always:2": "its own node is taken out whether it fits or not",
    _MOVES + "deletes:Room._host:more:2": "any number below 0 is no node",
    _MOVES + "saving:pool_minimum:text:0": "what cannot be read counts like what is not there",
    _MOVES + "saving:pool_minimum:always:0": "what cannot be read counts like what is not there",
    _MOVES + "saving:_percent:scale:0": "any number below 0 is refused",
    _MOVES + "saving:_percent:scale:1": "any number below 0 is refused",
    _MOVES + "price:_pinned:never:3": "what may be spot alone is spot alone afterwards, too",
    _MOVES + "price:_Market.worst:always:0": "what is not remembered is worked out again",
    _MOVES + "price:_Market.worst:drop:0": "what is not remembered is worked out again",
    _MOVES + "price:_narrowed:more:0": "what is over the most is left out in any case",
    _MOVES + "price:_fifteen:more:0": "fifteen are more than none and more than one",
    _MOVES + "price:_with:order:0": "the values of a requirement are a set",
    _MOVES + "search:_Search._promising:more:1": "no two nodes have one name",
    _MOVES + "search:_Search._alone:more:1": "no two nodes have one name",
    _MOVES + "search:_Search._hope:compare:0": "a saving that is the very share, to the last bit of a float",
    _MOVES + "search:_Search._tried:more:0": "a set has one node at least",
    _MOVES + "search:_Search._tried:part:2": "the same set is known as refused when it is tried again",
    # A text of exactly so many characters.
    _MOVES + "churn:Ledger.text:compare:0": "100,000 characters may as well be too many",
    # Types have it that nodes without a pool or a price exist; those are passed over before.
    _MOVES + "movers:_mover:always:1": "a node without a pool is passed over before",
    _CHOICE + "_compatible:part:0": "a type's name is one of its requirements, compared after it",
    _CHOICE + "_compatible:always:1": "the verdict about equal requirements is the same each time",
    _ELECTION + "Election.__init__:text:0": "another stream of random numbers",
    _ELECTION + "Election._renew:more:0": "a nanosecond",
    _ELECTION + "Election._renew:more:1": "a nanosecond",
    _ELECTION + "Election._pause:more:1": "a nanosecond",
}
