"""Why a plan is what it is, and what stands between a pod and a place.

`criteria`, `pools` and `nodes` take each rule apart and find the nearest miss; `change` makes a problem
with something changed, to try what would help; `pod` and `node` give whole accounts; `rules` and `cost`
lift one rule at a time and compare; `short_memory` finds pods that ask for none. The one sentence that an
event gives as the reason is the solver's own.
"""
