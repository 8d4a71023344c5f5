"""What a solver is asked. The values live in `model`, so that `cluster` can build them."""

from dovetail.model.problem import Budget, ExistingNode, Options, Pool, Problem

__all__ = ["Budget", "ExistingNode", "Options", "Pool", "Problem"]
