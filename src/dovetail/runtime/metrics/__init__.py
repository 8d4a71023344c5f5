"""Receivers of metrics: `prometheus` for the endpoint, `memory` for simulations and tests."""
