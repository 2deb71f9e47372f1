"""A real Kubernetes control plane for the integration tests: etcd, API server, controllers, scheduler, and kwok."""
