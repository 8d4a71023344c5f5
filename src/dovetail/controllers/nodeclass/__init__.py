"""Status of node classes.

readiness   resolves the selectors of EC2 classes, judges their status (pure)
collect     deletes instance profiles that are not used
hash        stamps EC2 classes and their claims
"""
