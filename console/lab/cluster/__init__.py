"""A Kubernetes cluster in one process: API server, scheduler, kubelets and stand-in operators, for demos and tests.

Where the warden looks it answers as a real API server does; tests/lab_cluster/test_conformance.py runs against both.
"""
