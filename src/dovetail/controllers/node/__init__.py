"""The end of a Node: `terminate` acts, `drain` decides, `evict` retries."""
