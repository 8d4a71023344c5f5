"""Benchmarks on a real Kubernetes control plane on loopback, as tests/cluster/controlplane builds it."""
