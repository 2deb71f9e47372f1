"""Captured text of the vendor's tools to records, whatever the generation; what `npu-warden decode` prints. Pure.

One module for a family of formats; `agent.decode.tools` is the table of all of them. The npu-smi fallback and the link
probe read the live tools with the same parsers.
"""
