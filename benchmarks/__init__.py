"""Figures of speed, cost and memory; README.md says how to run them and what was measured."""
