"""Figures of speed, cost and memory; README.md tells how to run them and what was measured."""
