"""Names that more than one part, users' manifests and other tools rely on. Changing one is a breaking change."""

from __future__ import annotations

API_GROUP = "npuwarden.io"
API_VERSION = "npuwarden.io/v1alpha1"
NAMESPACE = "npuwarden-system"
LEASE = "npuwarden-reconciler"
RECONCILER_SERVICE = "npuwarden-reconciler"
RECONCILER_PORT = 9466
CONTROL_CONFIGMAP = "npuwarden-control"
SEPARATED_CONFIGMAP = "npuwarden-separated"
EVIDENCE_CONFIGMAP = "npuwarden-evidence-"
"""And the name of the Recovery, in its namespace."""

TAINT_KEY = "npuwarden.io/fault"
ISOLATION_ANNOTATION = "npuwarden.io/isolation"
ISOLATE_ANNOTATION = "npuwarden.io/isolate"
RELEASE_ANNOTATION = "npuwarden.io/release"
OFFERED_ANNOTATION = "npuwarden.io/npus-offered"
DRILL_ANNOTATION = "npuwarden.io/drill"
DRILL_REPORT_ANNOTATION = "npuwarden.io/drill-report"
LOCAL_DRILL = "local-"
"""Drills begun on the node itself have such names; the reconciler stops none of them."""
AGENT_SOCKET = "agent.sock"
"""In the agent's state directory."""
MIN_READY_ANNOTATION = "npuwarden.io/min-ready-instances"
OPT_OUT_LABEL = "npuwarden.io/opt-out"
CONDITION = "npuwarden.io/NPUHealthy"

REDIS_PREFIX = "npuwarden:"
EVENTS_STREAM = "npuwarden:events"


def report_key(node: str) -> str:
    return f"{REDIS_PREFIX}report:{node}"


def commands_stream(node: str) -> str:
    return f"{REDIS_PREFIX}commands:{node}"


CODE_CARD_LOST = "40F84E00"
"""The vendor's code for a lost card (driver: heartbeat lost; MindCluster: card drop)."""
CODE_LINK_DOWN = "81078603"
CODE_BOOT_FINISHED = "8C2FA009"
CODE_MONITOR_BLIND = "NW-MONITOR-BLIND"
CODE_PROBE_FAILING = "NW-PROBE"
CODE_CHIP_CHANGED = "NW-CHIP-CHANGED"
CODE_CHIPS_MISSING = "NW-CHIPS-MISSING"
CODE_CODES_UNREAD = "NW-CODES-UNREAD"

CODE_AGENT_SILENT = "NW-AGENT-SILENT"
CODE_POD_FAILED = "NW-POD-FAILED"
CODE_REDIS_DOWN = "NW-REDIS-DOWN"
"""What is drilled though no sensor shows it: an agent that says nothing, a pod that ends, Redis that is away."""
DRILL_CONDITION = "npuwarden.io/Drill"
"""Condition of a pod that a drill has ended: kubelets keep the conditions that are not their own."""
ORIGIN_LABEL = "npuwarden.io/origin"
"""`drill` on the Events of drills; Events of real faults do not have it."""

RELEASE_AFTER = "release_after_s"
"""Evidence of a manual separation that ends by itself: seconds after the fault."""
