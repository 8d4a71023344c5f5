"""The end of a Node: `terminate` acts, `drain` decides, `evict` retries, `volumes` knows what is attached."""
