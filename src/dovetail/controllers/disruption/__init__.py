"""Taking nodes away: `disrupt` runs the `methods`; `podevents` and `consolidatable` know what is quiet."""
