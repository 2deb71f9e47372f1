"""The global rank table of a MindIE Motor service, for clusters without ClusterD: built, published, served by gRPC.

`schema`, `checks`, `instances` and `services` are pure and decide what a table says; `wire`, `hub`, `server` and
`endpoint` hand it to the MS Controller.
"""
