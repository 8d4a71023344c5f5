"""Brakes: what keeps a mistake, ours or anybody's, from becoming a disaster."""
