"""What the reconciler counts: `npuwarden_reconciler_*`, in a registry of its own, seconds and bytes as base units."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from shared.version import VERSION

PREFIX = "npuwarden_reconciler_"


class Metrics:
    """One instance per process (or per test)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(PREFIX + name, text, labels, registry=self.registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(PREFIX + name, text, labels, registry=self.registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(PREFIX + name, text, labels, registry=self.registry, buckets=buckets)

        self.build_info = gauge("build_info", "always 1; the label says which version runs", "version")
        self.build_info.labels(VERSION).set(1)

        self.leader = gauge("leader", "1 while this replica leads")
        self.plans = counter("plans", "plans made")
        self.failed_plans = counter("failed_plans", "rounds in which a bug prevented a plan")
        self.plan_seconds = histogram("plan_seconds", "time to make one plan", (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10))
        self.holds = gauge("holds", "subjects the newest plan refuses to touch, by reason", "reason")
        self.actions = counter("actions", "actions carried out, by kind and outcome", "kind", "outcome")
        self.lost_decisions = counter("lost_decision_lines", "lines of the decision log that could not be written")
        self.paused = gauge("paused", "1 while a person has paused the warden")
        self.queue = gauge("queue", "actions that wait or run")
        self.backing_off = gauge("backing_off", "objects whose last action failed and is tried again later")
        self.events = counter("events", "writes of Kubernetes Events, by what came of them", "outcome")
        self.report_to_taint_seconds = histogram(
            "report_to_taint_seconds",
            "from the report that showed a fault to the taint read back",
            (0.01, 0.026, 0.05, 0.1, 0.165, 0.3, 1, 3, 10, 60),
        )
        self.recovery_phase_seconds = histogram(
            "recovery_phase_seconds",
            "time of each phase of a finished recovery, from the phase before it until this one's time was written",
            (0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800),
            "phase",
            "origin",
        )
        self.recovery_seconds = histogram(
            "recovery_seconds",
            "from the fault to the end of a recovery, by the phase it ended in",
            (1, 3, 10, 30, 60, 120, 300, 600, 1800, 7200),
            "outcome",
            "level",
            "origin",
        )
        self.recoveries = gauge("recoveries", "recoveries in the cluster, by phase and origin", "phase", "origin")
        self.isolated_nodes = gauge(
            "isolated_nodes", "nodes that carry the warden's taint, by its value and its origin", "value", "origin"
        )
        self.incidents = gauge("incidents", "open incidents (npu-warden incidents), by kind", "kind")
        self.withdrawn_npus = gauge(
            "withdrawn_npus", "NPUs that device plugins keep from the scheduler, by what each node has offered before"
        )
        self.open_faults = gauge("open_faults", "open faults of all nodes, by level and origin", "level", "origin")
        self.blind_sources = gauge("blind_sources", "chips and nodes that a probe cannot see, by probe", "probe")
        self.breaker_open = gauge("breaker_open", "1 while the breaker keeps further nodes from being isolated")
        self.breaker_nodes = gauge("breaker_nodes", "nodes newly isolated within the breaker's window")
        self.breaker_limit = gauge("breaker_limit_nodes", "nodes at which the breaker opens")
        self.budget_used = gauge("restart_budget_used", "units that still served and are being restarted")
        self.budget_slots = gauge("restart_budget_slots", "units that may restart so at once; 0 until one has asked")
        self.false_isolations = counter(
            "false_isolations", "isolations that ended within 10 min without a repair, by who ended them", "by"
        )
        self.report_lag_seconds = histogram(
            "report_lag_seconds",
            "from the making of a report on its node to its arrival here, clocks compared",
            (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
        )
        self.clock_ahead_seconds = gauge(
            "clock_ahead_seconds", "this replica's wall clock minus the API server's; beyond 2 s that one's is used"
        )
        self.loops_late = gauge("loops_late", "loops that have not come round in time")
        self.reports = counter("reports", "reports accepted")
        self.rejected = counter("rejected_reports", "messages not used, by reason", "reason")
        self.oldest_report_seconds = gauge(
            "oldest_report_age_seconds", "age of the oldest report of a known node, drills apart"
        )
        self.silent_nodes = gauge("nodes_without_report", "known nodes that have never reported to this leader")
        self.redis_up = gauge("redis_up", "1 while reports can be read")
        self.watch_age_seconds = gauge("watch_age_seconds", "time since the last sign of life of a watch", "kind")
        self.watch_events = counter("watch_events", "changes received from a watch", "kind")
        self.relists = counter("relists", "full lists read", "kind")
        self.bad_objects = counter("bad_objects", "objects of the API server that could not be read", "kind")
        self.commands = counter("commands", "commands for agents, by kind and result", "kind", "result")
        self.rank_table_pushes = counter("ranktable_pushes", "global rank tables given to subscribers")
        self.rank_table_subscribers = gauge("ranktable_subscribers", "MS Controllers that are subscribed")
        self.rank_tables_unheard = gauge("ranktable_unheard", "global rank tables served that nobody has subscribed to")
        self.webhook_attempts = counter("webhook_attempts", "requests to webhooks, by what came of them", "result")
        self.webhook_notices = counter("webhook_notices", "notices for webhooks, by what became of them", "outcome")
        self.kept_logs = counter("kept_logs", "logs of containers read before a delete, by result", "result")
        self.evidence_seconds = histogram(
            "evidence_seconds", "time a delete waited for logs to be kept", (0.01, 0.03, 0.1, 0.3, 0.6, 1, 2)
        )
        self.page_viewers = gauge("page_viewers", "pages that are open on this replica")
        self.page_dropped = counter("page_viewers_dropped", "pages that were refused or dropped, by why", "why")
        self.page_frame_seconds = histogram(
            "page_frame_seconds", "time to make what the pages are shown", (0.001, 0.005, 0.02, 0.1, 0.5, 2, 10)
        )
        self.policy_refused = gauge("policy_refused", "1 while the newest policy.toml cannot be used")
        self.policy_reloads = counter("policy_reloads", "policy files read, by outcome", "outcome")
