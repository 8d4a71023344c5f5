"""Buying nodes: `trigger` opens and closes a batch, `provision` plans for the pods that `pods` lets in."""
