"""Status of node classes.

readiness   resolves the selectors of EC2 classes
plain       classes that select nothing
hash        stamps EC2 classes and their claims
"""
