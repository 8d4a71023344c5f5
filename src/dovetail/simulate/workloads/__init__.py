"""The controllers of kube-controller-manager that make, scale and remove pods, for simulated clusters.

Each module decides in a pure function over typed objects and acts in a small class. `runner.Workloads` feeds
them all from one queue, so that their order of work is the order of events.
"""
