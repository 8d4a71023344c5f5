"""Why a plan is what it is: the words of events, and what stands between a pod and a place.

`event` has the words that users of the field know; `criteria`, `pools` and `nodes` take each rule apart and
find the nearest miss; `change` makes a problem with something changed, to try what would help; `pod` and
`node` tell whole stories; `rules` and `cost` lift one rule at a time and compare.
"""
