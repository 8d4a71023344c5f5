"""Status of node classes.

readiness   resolves the selectors of EC2 classes, judges their status (pure)
collect     takes instance profiles away that nobody uses
hash        stamps EC2 classes and their claims
"""
