"""What agent and reconciler have in common: model, wire form, fault catalogue, configuration, helpers."""
