"""The reconciler: decides from reports and cluster, taints, restarts exactly what must restart, proves it is back."""
