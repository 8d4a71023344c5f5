"""Karpenter's own kinds, v1."""
