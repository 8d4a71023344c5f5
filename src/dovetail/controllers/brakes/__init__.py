"""Brakes: what keeps a mistake, ours or a user's, from becoming a disaster."""
