"""The HTML report of `dovetail plan`: the plan, what it costs, and a picture of how the solver found it."""
