"""Cluster Autoscaler as a rival: its decisions as pure functions, its loop, its node groups."""
