"""The rules by subject: each a function from an inventory to remarks, without side effects."""
