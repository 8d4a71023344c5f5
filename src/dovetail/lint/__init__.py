"""What is wrong, or will go wrong, with manifests: every finding in one run, with place, reason and remedy.

    survey     files -> Inventory: objects of every generation, charts' values, Terraform, what was refused
    inventory  what rules look at: pools with their types, classes, pod templates, snapshots of clusters
    finding    Severity, Rule, Finding
    rules/     the rules, pure functions over an inventory, by subject
    table      all rules by their codes, and which of them are asked
    comments   `# noqa: NP001`
    check      Inventory -> findings

Rules ask what the product asks: types come from the catalogue; requirements, budgets, schedules and taints
are read by the modules that decide with them.
"""
