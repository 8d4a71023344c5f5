"""Why a plan is what it is: the words of events, and what stands between a pod and a place.

`event` has the words that users of the field know; `criteria`, `pools` and `nodes` take each rule apart and
find the nearest miss; `change` says what would help, `pod` tells a pod's whole story.
"""
