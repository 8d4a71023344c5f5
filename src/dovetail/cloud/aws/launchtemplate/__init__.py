"""Launch templates: `template` writes them (pure), `store` makes them in the account and takes them away."""
