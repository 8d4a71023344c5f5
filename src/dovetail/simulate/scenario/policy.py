"""Which autoscaler a scenario is played with."""

from __future__ import annotations

from typing import Literal

Policy = Literal["dovetail", "karpenter", "cluster-autoscaler"]
