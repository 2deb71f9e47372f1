"""Stand-ins for controllers that cannot be had: ascend-operator, infer-operator, Volcano's PodGroup phases, AIBrix.

They make the objects the real ones make, with the names, labels, annotations and timing observed on those, and talk to
any API server.
"""
