"""The reconciler's adapters against real wires: the lab's API server, a real control plane, a real Redis."""
