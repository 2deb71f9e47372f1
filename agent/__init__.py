"""The DaemonSet agent: probes the NPUs of one node, decides what is broken, tells the reconciler."""
