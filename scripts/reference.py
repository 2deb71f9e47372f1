"""Writes the pages that are made from the code: docs/cli.md, docs/metrics.md, the reconciler's part of docs/http.md.

`python -m scripts.reference` writes them; `pages()` is what they should say, and a test compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import yaml
from prometheus_client.metrics import MetricWrapperBase

from agent.metrics import Metrics as AgentMetrics
from console.cli.reconciler_api import DEFAULT_URL
from console.cli.watching import EVERY_S
from console.main import main as command_line
from reconciler.api import TITLE, routes
from reconciler.core.actions import Plan
from reconciler.core.kept_logs import KeptLogs
from reconciler.core.recovery import Recovery
from reconciler.core.state import State, World
from reconciler.inbox import BadMessage
from reconciler.metrics import Metrics as ReconcilerMetrics
from reconciler.page.stream import Stream
from shared.aio import Ticks
from shared.openapi import STREAM, TEXT, document

ROOT = Path(__file__).parents[1]
HTTP_BEGIN = "<!-- written by `make reference` from the OpenAPI document, up to the next mark -->\n"
HTTP_END = "<!-- written up to here -->\n"
WIDTH = 100

JSON_OF = {
    "scan": "a NodeReport ([wire.md](wire.md))",
    "status": "`fine`, the keys of `GET /v1/warden` without `leader`, `nodes` (verdict: count), `faults` (count), "
    "`recoveries` (the open ones), `incidents`, `holds`, `left_alone`",
    "nodes": "`items` of `GET /v1/nodes`, all pages",
    "faults": "`items` of `GET /v1/faults`, all pages; with `--repair` of `GET /v1/repairs`",
    "incidents": "`items` of `GET /v1/incidents`, all pages",
    "recoveries": "`items` of `GET /v1/recoveries`, all pages",
    "recoveries show": "`GET /v1/recoveries/{namespace}/{name}`",
    "why": "`GET /v1/why`, and `warden`",
    "coverage": "`items` of `GET /v1/coverage`, all pages",
    "isolate": "`node`, `isolate` (the reason), `before` (the reason that stood there, or null)",
    "release": "`node`, `release` (the reason), `before` (why it was isolated by hand, or null)",
    "pause": "`paused` (the reason), `until`, `before`",
    "resume": "`paused` (null), `before`",
    "drill list": "`items` of `GET /v1/drills`, all pages",
    "drill stop": "`node`, `drill` (its name, or null)",
    "redis-acl nodes": "`set`, `removed` (names), `unsaved` (why the server keeps them in memory only, or null)",
    "test": "a line for each file: `path`, `name`, `ok`, `failures`, or `path`, `error`",
    "config check": "`file`, `kind`, `ok`, `error`, and of a fault-code file or a manifest `findings`",
    "config show": "the settings, table by table",
}
"""What --json prints, by command; those of the lab print what they have done."""


@dataclass
class Nobody:
    """A replica that knows nothing: enough for its routes to be described."""

    metrics: ReconcilerMetrics = field(default_factory=ReconcilerMetrics)
    ticks: Ticks = field(default_factory=Ticks)
    holder: str = ""

    def newest(self) -> tuple[State, Plan] | None:
        return None

    def leader(self) -> str:
        return ""

    def policy_error(self) -> str | None:
        return None

    def policy_known(self) -> bool:
        return True

    def not_synced(self) -> list[str]:
        return []

    def bad_messages(self) -> list[BadMessage]:
        return []

    def watched(self) -> State:
        return World().snapshot()

    async def kept(self, recovery: Recovery) -> KeptLogs:
        return KeptLogs([], None)


def pages() -> dict[Path, str]:
    docs = ROOT / "docs"
    http = docs / "http.md"
    return {docs / "cli.md": cli(), docs / "metrics.md": metrics(), http: http_page(http.read_text(encoding="utf-8"))}


# ---- cli.md


def cli() -> str:
    parts = [_CLI_HEAD]
    for name, command in _commands(command_line, "npu-warden"):
        context = click.Context(command, info_name=name, max_content_width=WIDTH, terminal_width=WIDTH)
        parts.append(f"## {name}\n\n```\n{command.get_help(context).rstrip()}\n```\n")
        if (printed := JSON_OF.get(name.partition(" ")[2])) is not None:
            parts.append(f"`--json`: {printed}.\n")
    return "\n".join(parts)


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")


_CLI_HEAD = f"""# Command line

This page is written by `make reference` from the commands' own `--help`.

**Where the reconciler is.** `--url` or NPUWARDEN_URL says it: `http://HOST:PORT`, or `kubeconfig:[FILE]` to go through
the API server's proxy of the Service `npuwarden-reconciler`. Without either, a kubeconfig (KUBECONFIG,
`~/.kube/config`) is used where there is one, else {DEFAULT_URL}; a KUBECONFIG that names no file that is there is an
error. The proxy takes `get` on `services/proxy` and
`pods/proxy` in namespace `npuwarden-system`. isolate, release, pause and resume write to the API server with the
kubeconfig's rights.

**Exit codes.** 0 all is well · 1 a finding: something to look at · 2 a wrong command line, or a file, key or name that
cannot be used · 3 no answer from the reconciler or the API server. An error is one line on stderr;
above that of a wrong command line stands the usage.

**Tables** are as wide as the terminal, from 80 columns on; on a pipe a row is a line, without colour. **--json** prints
what the HTTP API answers ([http.md](http.md)); fields are added, never renamed or removed. **--watch** asks again every
{EVERY_S:g} s until Ctrl-C; on a pipe it prints only what has changed, with `--json` one document a line.

**Completion.** Put one of these into the shell's start file:

```
eval "$(_NPU_WARDEN_COMPLETE=bash_source npu-warden)"
eval "$(_NPU_WARDEN_COMPLETE=zsh_source npu-warden)"
_NPU_WARDEN_COMPLETE=fish_source npu-warden | source
```
"""


# ---- metrics.md


def metrics() -> str:
    watchers = _watchers()
    parts = [_METRICS_HEAD]
    for title, port, table in (("agent", 9465, AgentMetrics()), ("reconciler", 9466, ReconcilerMetrics())):
        parts.append(f"## The {title}, `:{port}/metrics`\n")
        parts.append("| metric | type | labels | unit | what it says | watched by |\n|---|---|---|---|---|---|")
        parts += sorted(
            _metric_row(one, watchers) for one in vars(table).values() if isinstance(one, MetricWrapperBase)
        )
        parts.append("")
    return "\n".join(parts)


def exposed_name(metric: MetricWrapperBase) -> str:
    """As it stands in /metrics, without a histogram's suffixes."""
    (family,) = metric.describe()
    return f"{family.name}_total" if family.type == "counter" else family.name


def _metric_row(metric: MetricWrapperBase, watchers: Callable[[str], str]) -> str:
    (family,) = metric.describe()
    name, says = exposed_name(metric), family.documentation.rstrip(".")
    labels = ", ".join(metric._labelnames)
    says = says[0].upper() + says[1:]
    return f"| `{name}` | {family.type} | {labels or '-'} | {_unit(name, says)} | {says} | {watchers(name)} |"


def _unit(name: str, says: str) -> str:
    if name.endswith("_seconds"):
        return "s"
    if name.endswith("_bytes"):
        return "bytes"
    return "0 or 1" if says.startswith(("1 while", "Always 1")) else "count"


def _watchers() -> Callable[[str], str]:
    """By metric: the alerts that use it, else the panels."""
    alerts = {rule["alert"]: str(rule["expr"]) for rule in alert_rules()}
    panels = {p["title"]: " ".join(t["expr"] for t in p["targets"]) for p in dashboard()["panels"]}

    def watchers(name: str) -> str:
        used = re.compile(rf"\b{name}(_bucket|_count|_sum)?\b")
        if found := [alert for alert, text in alerts.items() if used.search(text)]:
            return ", ".join(f"[{alert}](runbook.md#{alert.lower()})" for alert in found)
        return "; ".join(f"panel “{title}”" for title, text in panels.items() if used.search(text)) or "nobody"

    return watchers


def alert_rules() -> list[dict[str, Any]]:
    text = (ROOT / "deploy" / "monitoring" / "alerts.yaml").read_text(encoding="utf-8")
    return [rule for group in yaml.safe_load(text)["spec"]["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "deploy" / "monitoring" / "dashboard.json").read_text(encoding="utf-8"))
    return found


_METRICS_HEAD = """# Metrics

This page is written by `make reference` from the code, `deploy/monitoring/alerts.yaml` (a PrometheusRule) and
`deploy/monitoring/dashboard.json` (Grafana). The last column names the alerts that use a metric
([runbook.md](runbook.md)), or the panel that shows it. What only the leader knows only the leader says: on a replica
that waits those gauges are 0 or not there.

    kubectl apply -f deploy/monitoring/alerts.yaml
"""


# ---- http.md


def http_page(old: str) -> str:
    before, _, rest = old.partition(HTTP_BEGIN)
    after = rest.partition(HTTP_END)[2]
    return f"{before}{HTTP_BEGIN}{_http_routes()}{HTTP_END}{after}"


def _http_routes() -> str:
    nobody = Nobody()
    table = routes(nobody, Stream(nobody))
    spec = document(TITLE, table)
    lines = ["| route | answers | query | body |", "|---|---|---|---|"]
    for route in table:
        query = "<br>".join(_query(p) for p in spec["paths"][route.path]["get"]["parameters"] if p["in"] == "query")
        content = spec["paths"][route.path]["get"]["responses"]["200"]["content"]
        plain = next((kind for kind in (TEXT, STREAM) if kind in content), None)
        body = plain or _type(content["application/json"]["schema"])
        lines.append(f"| `{route.path}` | {route.summary} | {query or '-'} | {body} |")
    lines += ["| `/openapi.json` | This document (OpenAPI 3.1). | - | object |", "", "| body | fields |", "|---|---|"]
    for name, schema in sorted(spec["components"]["schemas"].items()):
        if "properties" in schema and not name.startswith("Page_"):
            fields = ", ".join(f"`{key}`" for key in schema["properties"])
            lines.append(f"| {name} | {fields} |")
    return "\n".join(lines) + "\n"


def _query(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    if schema["type"] == "integer":
        values = f"{schema['minimum']}..{schema['maximum']}"
    else:
        values = ", ".join(schema.get("enum", ())) or "text"
    return f"`{parameter['name']}`: {values}"


def _type(schema: dict[str, Any]) -> str:
    """`Page_OpenFault_` is msgspec's name for a page of OpenFault."""
    name = str(schema["$ref"]).rpartition("/")[2] if "$ref" in schema else str(schema.get("type", "any"))
    return f"page of {name[5:-1]}" if name.startswith("Page_") else name


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        click.echo(f"{path.relative_to(ROOT)}: {len(text.splitlines())} lines")
