"""Questions of an operator, each answered by playing it.

`stage` writes a scenario with what is asked about into a folder of its own, so that the answer can be played
again; `headroom`, `outage` and `rollout` are one question each.
"""
