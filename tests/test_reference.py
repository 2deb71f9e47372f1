"""Pages made from the code, alerts, dashboard and runbook: each says what is so."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from agent.metrics import Metrics as Agent
from console.main import main
from reconciler.metrics import Metrics as Reconciler
from scripts.reference import JSON_OF, _commands, alert_rules, dashboard, exposed_name, pages
from shared.model import FaultLevel

ROOT = Path(__file__).parents[1]
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
SECTIONS = dict(re.findall(r"^## (\S+)\n(.*?)(?=^##? |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL))
PROMTOOL = shutil.which("promtool")
COMMANDS = dict(_commands(main, "npu-warden"))


def metric_names() -> set[str]:
    """Every series that /metrics of either daemon can show."""
    names = set()
    for table in (Agent(), Reconciler()):
        for family in table.registry.collect():
            ending = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(family.type, ("",))
            names |= {family.name + one for one in ending}
    return names


def queries() -> dict[str, str]:
    found = {rule["alert"]: str(rule["expr"]) for rule in alert_rules()}
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            found[f"{panel['title']} {target['refId']}"] = target["expr"].replace("$__rate_interval", "5m")
    return found


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_the_page_is_what_the_code_says(path: Path) -> None:
    assert path.read_text() == pages()[path], f"docs/{path.name} is out of date: run `make reference`"


@pytest.mark.parametrize("table", [Agent(), Reconciler()], ids=["agent", "reconciler"])
def test_every_metric_has_its_row(table: Any) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    families = {f.name + ("_total" if f.type == "counter" else "") for f in table.registry.collect()}
    assert families <= rows
    assert "| nobody |" not in page, "an alert or a panel for each metric"


@pytest.mark.parametrize(("where", "query"), queries().items(), ids=lambda text: text[:40])
def test_a_query_asks_for_metrics_and_labels_that_exist(where: str, query: str) -> None:
    used = set(re.findall(r"npuwarden_\w+", query))
    assert used, where
    assert used <= metric_names()
    tables = [one for table in (Agent(), Reconciler()) for one in vars(table).values()]
    labels = {exposed_name(one): set(one._labelnames) for one in tables if isinstance(one, MetricWrapperBase)}
    for name, selector in re.findall(r"(npuwarden_\w+)\{([^}]*)\}", query):
        family = next(n for n in labels if name in (n, f"{n}_bucket", f"{n}_count", f"{n}_sum"))
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector)) <= labels[family]


@pytest.mark.skipif(PROMTOOL is None, reason="promtool (Debian: prometheus) is not installed")
def test_promtool_takes_the_alerts_and_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"q{number}", "expr": query} for number, query in enumerate(queries().values())]
    groups = [{"name": "alerts", "rules": alert_rules()}, {"name": "queries", "rules": rules}]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    done = subprocess.run(
        [str(PROMTOOL), "check", "rules", "rules.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_says_what_how_bad_and_where_to_read_on() -> None:
    for rule in alert_rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule
        assert rule["annotations"].keys() == {"summary", "description", "runbook"}
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"


def test_the_runbook_has_a_section_for_every_level_and_every_alert() -> None:
    levels = {level.value for level in FaultLevel} | {"NodeDead"}
    assert SECTIONS.keys() == levels | {rule["alert"] for rule in alert_rules()}
    assert [name for name, text in SECTIONS.items() if "npu-warden " not in text] == [], (
        "each has a command to begin with"
    )


def runbook_commands() -> list[str]:
    blocks = re.findall(r"^```\n(.*?)^```", RUNBOOK, re.MULTILINE | re.DOTALL)
    return sorted({line for block in blocks for line in block.splitlines()})


@pytest.mark.parametrize("line", runbook_commands())
def test_a_command_of_the_runbook_is_one(line: str) -> None:
    words = shlex.split(line)
    assert words[0] == "npu-warden"
    command: click.Command = main
    context = click.Context(main, info_name="npu-warden")
    rest = words[1:]
    while isinstance(command, click.Group) and not (command.invoke_without_command and rest[:1] in ([], ["--json"])):
        command = command.get_command(context, rest.pop(0)) or pytest.fail(f"no such command: {line}")
    # Parsed as the shell would hand it over, files and all but not run.
    made = command.make_context(line, [_existing(word) for word in rest])
    assert made.params is not None


def _existing(word: str) -> str:
    """A file that is there in place of one that a person would have."""
    return str(ROOT / "pyproject.toml") if word.endswith((".toml", ".json")) else word


def test_every_command_with_json_says_what_it_prints() -> None:
    with_json = {
        name.partition(" ")[2]
        for name, command in COMMANDS.items()
        if any("--json" in param.opts for param in command.params) and not name.startswith("npu-warden lab ")
    }
    assert with_json - JSON_OF.keys() == set(), "add it to JSON_OF in scripts/reference.py and run `make reference`"
    assert JSON_OF.keys() <= with_json


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_as_the_page_says(shell: str) -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    assert f"_NPU_WARDEN_COMPLETE={shell}_source npu-warden" in page
    words = {"COMP_WORDS": "npu-warden re", "COMP_CWORD": "re" if shell == "fish" else "1"}
    env = {**os.environ, **words, "_NPU_WARDEN_COMPLETE": f"{shell}_complete"}
    program = "import sys; sys.argv = ['npu-warden']; from console.main import main; main(prog_name='npu-warden')"
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert "recoveries" in done.stdout
    assert "release" in done.stdout


def test_the_dashboard_has_no_two_panels_in_one_place() -> None:
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in dashboard()["panels"]]
    assert len(set(places)) == len(places)
    assert json.dumps(dashboard()).count("${datasource}") == len(places)
