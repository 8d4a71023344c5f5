"""What the cloud announces about machines, and what becomes of them then."""
