"""The composition root: `settings` by the names of their flags, `operator` with all controllers,
`planning` where plans are made, `metrics` what receives figures."""
