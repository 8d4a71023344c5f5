"""Buying nodes: `trigger` opens a batch, `batcher` closes it, `provision` plans for whom `pods` lets in."""
