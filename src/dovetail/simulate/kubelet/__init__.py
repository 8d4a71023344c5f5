"""The kubelets of all nodes: `machine` is what boots, `node` its Node object, `pods` what runs on it."""
