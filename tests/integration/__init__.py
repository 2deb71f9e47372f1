"""The whole path on a real control plane: driver, agent, Redis, reconciler, API server, scheduler, kubelet (kwok)."""
