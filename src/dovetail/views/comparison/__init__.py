"""A page that shows several plays of the same evening on one time axis."""
