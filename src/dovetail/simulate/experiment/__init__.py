"""Many runs of scenarios: what varies, what is measured, how runs are spread over processes.

variant   one way to play a scenario: its folder, a policy, settings, manifests
measures  a run's figures, one number each, and the lines of its charts
runs      variants times seeds in a pool of processes
paired    differences of two variants over the same seeds, with confidence intervals
space     the settings that a sweep tries
dataset   its runs as rows of Parquet files, and the best of them
steps     from a pending pod to its node, step by step
"""
