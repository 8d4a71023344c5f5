"""Status of node classes: `readiness` resolves their selectors, `hash` stamps them and their claims."""
