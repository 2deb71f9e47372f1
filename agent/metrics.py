"""The agent's metrics, in a registry of its own: nothing of the process or of other libraries slips in."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from shared.version import VERSION

LATENCY_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Names are `npuwarden_agent_*`; seconds and bytes are base units."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.build_info = self._gauge("build_info", "Always 1; the label says which version runs.", "version")
        self.build_info.labels(VERSION).set(1)
        self.blind_sources = self._gauge("blind_sources", "Chips, or the node, that a probe cannot see.", "probe")
        self.probe_seconds = self._histogram("probe_seconds", "How long one look of a probe took.", "probe")
        self.probe_errors = self._counter("probe_errors", "Looks that failed or ran out of time.", "probe")
        self.children_started = self._counter("children_started", "Driver children started.", "child")
        self.children_abandoned = self._gauge("children_abandoned", "Killed driver children whose call still hangs.")
        self.driver_events = self._counter("driver_events", "Fault events received from the driver.", "assertion")
        self.driver_events_dropped = self._counter("driver_events_dropped", "Driver events that name no known chip.")
        self.subscribed = self._gauge("subscribed", "1 while the driver's event subscription stands.")
        self.reports = self._counter("reports", "Attempts to send a report to Redis.", "result")
        self.report_bytes = self._gauge("report_bytes", "Size of the newest report.")
        self.report_seconds = self._histogram("report_seconds", "From a driver event's arrival to its report in Redis.")
        self.outbox_notes = self._gauge("outbox_notes", "Change notes that wait for Redis.")
        self.state_errors = self._counter("state_errors", "Failed writes of the state file.")
        self.commands = self._counter("commands", "Commands of the reconciler, by what came of them.", "kind", "result")
        self.open_faults = self._gauge("open_faults", "Open faults by level and origin.", "level", "origin")
        self.chips = self._gauge("chips", "Chips by health.", "health")
        self.config_bad_entries = self._gauge(
            "config_bad_entries", "Entries of a fault-code file that are not used; /v1/config names them.", "file"
        )
        self.loops_late = self._gauge("loops_late", "Loops that have not come round in time.")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"npuwarden_agent_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"npuwarden_agent_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        full = f"npuwarden_agent_{name}"
        return Histogram(full, text, labels, buckets=LATENCY_BUCKETS_S, registry=self.registry)
