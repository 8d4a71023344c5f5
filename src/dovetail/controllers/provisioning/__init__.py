"""Buying nodes: `trigger` opens and closes a batch, `provision` plans for whom `pods` lets in."""
