"""Devices by claims, beside the scheduler: `claims` makes and ends claims, `drivers` publish devices."""
