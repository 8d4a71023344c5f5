"""First half of a solve: existing nodes are filled, and pods get their domains on new ones."""
