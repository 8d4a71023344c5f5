"""Status of node classes.

readiness   resolves the selectors of EC2 classes
judge       what their status and conditions say (pure)
collect     takes instance profiles away that nobody uses
plain       classes that select nothing
hash        stamps EC2 classes and their claims
"""
