"""Claims for devices (Dynamic Resource Allocation): what selectors say, and which devices a node gives."""
