"""config check of workload manifests: what nobody would read is found, with its line and where it belongs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from console.cli.manifests import check, is_manifest
from tests.console.conftest import Run

COORDINATOR = """\
apiVersion: mindxdl.gitee.com/v1
kind: AscendJob
metadata:
  name: router
  namespace: serve
  labels:
    app: mindie-ms-coordinator
    jobID: demo
    fault-scheduling: force
    pod-rescheduling: "on"
    fault-retry-times: "10"
spec:
  replicaSpecs:
    Master:
      replicas: 1
"""

SERVER = """\
apiVersion: mindxdl.gitee.com/v1
kind: AscendJob
metadata:
  name: server
  labels:
    app: mindie-ms-server
    fault-scheduling: force
    fault-retry-times: "10"
spec:
  replicaSpecs:
    Master:
      template:
        metadata:
          labels: {app: mindie-ms-server}
        spec:
          terminationGracePeriodSeconds: 30
          containers:
          - name: ascend
            resources:
              requests: {huawei.com/Ascend910: "8"}
"""

STORM = """\
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: StormService
metadata: {name: chat}
spec:
  template:
    metadata: {labels: {app: chat}}
    spec:
      roles:
      - name: prefill
        podGroupSize: 2
        template:
          metadata:
            labels:
              fault-scheduling: force
              fault-retry-times: "10"
      - name: decode
        podGroupSize: 1
        template:
          metadata:
            labels:
              fault-scheduling: grace
              pod-rescheduling: "on"
"""

INFER = """\
apiVersion: mindcluster.huawei.com/v1
kind: InferServiceSet
metadata: {name: set}
spec:
  template:
    roles:
    - name: prefill
      metadata: {labels: {infer.huawei.com/gang-schedule: "true"}}
      spec:
        template:
          metadata: {labels: {fault-scheduling: external-force}}
"""

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, fault-scheduling: grace}}
    spec:
      containers: [{name: main, resources: {limits: {huawei.com/Ascend910: 1}}}]
"""

GOOD = {"coordinator": COORDINATOR, "server": SERVER, "storm": STORM, "infer": INFER, "deployment": DEPLOYMENT}


def edited(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_manifest_has_no_problems(name: str) -> None:
    assert check(GOOD[name]) == []


def test_all_of_them_in_one_file() -> None:
    assert check("---\n".join(GOOD.values())) == []


BARE_POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {fault-scheduling: force}}\n"
FORCE_LINE = "    fault-scheduling: force\n"
MIN_READY = "npuwarden.io/min-ready-instances"


def added(label: str) -> str:
    return edited(SERVER, FORCE_LINE, FORCE_LINE + label)


def annotated(annotation: str) -> str:
    return edited(SERVER, "  labels:\n    app", f"  annotations: {{{annotation}}}\n  labels:\n    app")


BAD: list[tuple[str, str, list[tuple[int, str]]]] = [
    (
        "labels indented by one blank less",
        edited(
            COORDINATOR,
            FORCE_LINE + '    pod-rescheduling: "on"\n',
            '   fault-scheduling: force\n   pod-rescheduling: "on"\n',
        ),
        [
            (9, "`fault-scheduling` is indented by 3 blanks, its neighbours by 4: it belongs under `labels:` (line 6)"),
            (10, "`pod-rescheduling` is indented by 3 blanks"),
        ],
    ),
    (
        "a label indented by more",
        edited(COORDINATOR, FORCE_LINE, "      fault-scheduling: force\n"),
        [(9, "it belongs under `labels:` (line 6), indented by 4")],
    ),
    (
        "indented so that it stands in metadata",
        edited(SERVER, FORCE_LINE, ""),
        [(3, "no `fault-scheduling`: no fault restarts it")],
    ),
    (
        "in metadata",
        edited(SERVER, FORCE_LINE, "").replace("  name: server\n", "  name: server\n  fault-scheduling: force\n"),
        [(5, "nobody reads `fault-scheduling` in metadata: it belongs in metadata.labels (line 6)")],
    ),
    (
        "in spec",
        edited(SERVER, FORCE_LINE, "").replace("spec:\n  rep", "spec:\n  fault-scheduling: force\n  rep"),
        [(9, "nobody reads `fault-scheduling` in spec")],
    ),
    (
        "labels beside the pod template",
        edited(SERVER, "    Master:\n", "    Master:\n      labels: {fault-scheduling: force}\n"),
        [(12, "in spec.replicaSpecs.Master.labels: it belongs in metadata.labels (line 5)")],
    ),
    (
        "metadata of no object",
        edited(SERVER, "    Master:\n", "    Master:\n      metadata: {labels: {fault-scheduling: force}}\n"),
        [(12, "nobody reads `fault-scheduling` in spec.replicaSpecs.Master.metadata.labels")],
    ),
    (
        "an annotation",
        edited(SERVER, FORCE_LINE, "").replace("  labels:\n", "  annotations: {fault-scheduling: force}\n  labels:\n"),
        [(5, "(an annotation): it belongs in metadata.labels (line 6)")],
    ),
    (
        "an annotation among the labels",
        edited(SERVER, FORCE_LINE, FORCE_LINE + '    npuwarden.io/min-ready-instances: "1"\n'),
        [(8, "it belongs in metadata.annotations")],
    ),
    (
        "an annotation of the pods that counts on the owner",
        edited(SERVER, "        metadata:\n", f"        metadata:\n          annotations: {{{MIN_READY}: '1'}}\n"),
        [(14, "it belongs in metadata.annotations")],
    ),
    ("upper case", edited(SERVER, "fault-scheduling", "Fault-Scheduling"), [(7, "the key is `fault-scheduling`")]),
    ("camel case", edited(SERVER, "fault-scheduling", "faultScheduling"), [(7, "the key is `fault-scheduling`")]),
    ("underscores", edited(SERVER, "fault-retry-times", "fault_retry_times"), [(8, "the key is `fault-retry-times`")]),
    ("a prefix", edited(SERVER, "fault-scheduling", "huawei.com/fault-scheduling"), [(7, "the key is")]),
    ("a slip", edited(SERVER, "fault-scheduling", "fault-schedulling"), [(7, "the key is `fault-scheduling`")]),
    ("the wrong case of a value", edited(SERVER, "g: force", "g: Force"), [(7, "counts as off; did you mean force?")]),
    ("an unknown value", edited(SERVER, "g: force", "g: always"), [(7, "'always' is none of force, grace, off")]),
    ("a value for another kind", edited(SERVER, "g: force", "g: external-force"), [(7, "the infer-operator only")]),
    ("retries without quotes", edited(SERVER, '"10"', "10"), [(8, 'write fault-retry-times: "10"')]),
    ("retries that are no number", edited(SERVER, '"10"', "many"), [(8, "'many' is not a number")]),
    ("negative retries", edited(SERVER, '"10"', '"-1"'), [(8, "'-1' is not a number")]),
    ("on without quotes", edited(COORDINATOR, '"on"', "on"), [(10, "is the boolean true to YAML")]),
    ("off without quotes", edited(COORDINATOR, '"on"', "off"), [(10, "is the boolean false to YAML")]),
    ("on in the wrong case", edited(COORDINATOR, '"on"', '"On"'), [(10, "'On' has no effect")]),
    ("true for on", edited(COORDINATOR, '"on"', '"true"'), [(10, "'true' has no effect")]),
    ("any other label that is no text", edited(SERVER, "app: mindie-ms-server\n", "app: 910\n"), [(6, "is a number")]),
    ("a label without a value", edited(SERVER, "    app: mindie-ms-server\n", "    app:\n"), [(6, "no text")]),
    (
        "retries in the template alone",
        edited(SERVER, '    fault-retry-times: "10"\n', "").replace(
            "{app: mindie-ms-server}", "{fault-retry-times: x}"
        ),
        [(13, "'x' is not a number"), (13, "the operator reads it on the AscendJob alone")],
    ),
    (
        "pod level on a job that serves as a whole",
        edited(SERVER, FORCE_LINE, FORCE_LINE + '    pod-rescheduling: "on"\n'),
        [(8, "has no effect on this AscendJob")],
    ),
    ("pod level in a PodSet", edited(STORM, "podGroupSize: 1", "podGroupSize: 4"), [(22, "podGroupSize 4")]),
    (
        "pod level above the roles",
        edited(STORM, "{labels: {app: chat}}", '{labels: {app: chat, pod-rescheduling: "on"}}'),
        [(6, "it is read on the pods alone")],
    ),
    (
        "pod level on a Deployment",
        edited(DEPLOYMENT, "fault-scheduling: grace", 'fault-scheduling: grace, pod-rescheduling: "on"'),
        [(7, "has no effect on a Deployment")],
    ),
    ("a role without the label", edited(STORM, "              fault-scheduling: grace\n", ""), [(16, "role decode")]),
    (
        "the template says otherwise",
        edited(SERVER, "{app: mindie-ms-server}", "{fault-scheduling: grace}"),
        [(14, "'grace' contradicts 'force' (line 7)")],
    ),
    (
        "the service says otherwise than its roles",
        edited(STORM, "{name: chat}", "{name: chat, labels: {fault-scheduling: force}}"),
        [(21, "'grace' contradicts 'force' (line 3)")],
    ),
    ("twice", edited(SERVER, FORCE_LINE, FORCE_LINE * 2), [(8, "stands twice")]),
    (
        "grace that the warden cuts",
        edited(SERVER, "g: force", "g: grace").replace("Seconds: 30", "Seconds: 4000"),
        [(16, "2..900")],
    ),
    ("grace 0", edited(SERVER, "g: force", "g: grace").replace("Seconds: 30", "Seconds: 0"), [(16, "2..900")]),
    ("grace that is no number", edited(SERVER, "Seconds: 30", "Seconds: 30s"), [(16, "not a number of seconds")]),
    ("an unknown strategy", added("    subHealthyStrategy: GraceExit\n"), [(8, "graceExit?")]),
    (
        "min-ready that is no number",
        annotated(f"{MIN_READY}: one"),
        [(5, "'one' is not a number of instances")],
    ),
    (
        "a window that is none",
        annotated("huawei.com/schedule.filter.faultCode: '80E01801:1d'"),
        [(5, "80E01801:1d is not followed")],
    ),
    (
        "a window for no level",
        annotated("huawei.com/schedule.filter.faultLevel: 'RestartReq:30'"),
        [(5, "RestartReq is no fault level; did you mean RestartRequest?")],
    ),
    ("a bare pod", BARE_POD, [(3, "bare pod")]),
    (
        "a kind that is not restarted",
        edited(DEPLOYMENT, "kind: Deployment", "kind: DaemonSet"),
        [(7, "pods of a DaemonSet are not restarted")],
    ),
    ("a tab", edited(SERVER, "    app: mindie", "\tapp: mindie"), [(6, "not YAML")]),
    ("no object", "a: b\n", [(1, "not a Kubernetes object")]),
    ("text", "just text\n", [(1, "not a Kubernetes object")]),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_problem_is_told_with_its_line(text: str, expected: list[tuple[int, str]]) -> None:
    found = check(text)
    assert [problem.line for problem in found] == [line for line, _ in expected], found
    for problem, (_, words) in zip(found, expected, strict=True):
        assert words in problem.text


def test_a_broken_document_hides_no_other() -> None:
    broken = edited(SERVER, "kind: AscendJob", "kind: [AscendJob")
    wrong = edited(STORM, "g: grace", "g: Grace")
    found = check(f"{broken}---\n{wrong}---\n{edited(SERVER, 'g: force', 'g: on')}")
    lines = len(broken.splitlines())
    assert [(problem.line, problem.document) for problem in found][1:] == [
        (lines + 22, "StormService chat"),
        (lines + 1 + len(wrong.splitlines()) + 8, "AscendJob server"),
    ]
    assert "not YAML" in found[0].text


def test_what_follows_a_repaired_line_is_checked_too() -> None:
    text = edited(COORDINATOR, FORCE_LINE, "   fault-scheduling: Force\n")
    assert [problem.line for problem in check(text)] == [9, 9]
    assert "did you mean force?" in check(text)[-1].text


def test_the_items_of_a_list_are_objects() -> None:
    inner = "\n".join(f"  {line}" for line in edited(SERVER, "g: force", "g: no-idea").splitlines())
    text = f"apiVersion: v1\nkind: List\nitems:\n-{inner[1:]}\n"
    assert [(problem.line, problem.document) for problem in check(text)] == [(10, "AscendJob server")]


def test_a_template_that_two_roles_share_counts_for_both() -> None:
    shared = """\
apiVersion: orchestration.aibrix.ai/v1alpha1
kind: StormService
metadata: {name: chat}
spec:
  template:
    spec:
      roles:
      - {name: prefill, template: &t {metadata: {labels: {fault-scheduling: force}}}}
      - {name: decode, template: *t}
"""
    assert check(shared) == []


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_data_that_only_looks_like_a_label_is_left_alone(kind: str) -> None:
    assert check(f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: x}}\ndata: {{fault-scheduling: Force}}\n") == []


def test_aliases_that_multiply_take_no_time() -> None:
    lines = ["a: &a0 {b: c}"] + [f"k{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    text = "apiVersion: v1\nkind: Deployment\n" + "\n".join(lines) + "\n"
    assert check(text) == []


@pytest.mark.parametrize(
    "text", ["[" * 5000, "a: &a [*a]\n", "!!python/object:os.system x\n", "\x00", "--- a\n--- b\n"]
)
def test_hostile_text_is_told_and_does_no_harm(text: str) -> None:
    assert check(text)


ANYTHING = st.one_of(st.text(max_size=300), st.sampled_from(sorted(GOOD.values())))


@given(text=ANYTHING, cut=st.integers(0, 900), put=st.text(alphabet=' \n-:{}[]"&*#|>on', max_size=4))
@example(text="a: b", cut=0, put="&")
def test_any_text_is_read_or_refused_within_its_lines(text: str, cut: int, put: str) -> None:
    changed = text[:cut] + put + text[cut:]
    last = max(1, len(changed.splitlines()) + 1)
    assert all(1 <= problem.line <= last and problem.text for problem in check(changed))


LABEL_LINES = [
    number for number, line in enumerate(COORDINATOR.splitlines()) if line.startswith("    ") and number < 11
]


@given(line=st.sampled_from(LABEL_LINES[1:]), indent=st.integers(0, 9).filter(lambda n: n != 4))
def test_a_label_with_any_wrong_indentation_is_found_on_its_line(line: int, indent: int) -> None:
    lines = COORDINATOR.splitlines()
    lines[line] = " " * indent + lines[line].strip()
    found = check("\n".join(lines))
    key = lines[line].strip().partition(":")[0]
    steers = key in ("fault-scheduling", "pod-rescheduling", "fault-retry-times")
    if steers or indent not in (0, 2):  # there it is valid YAML, and no key of ours
        assert line + 1 in [problem.line for problem in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SERVER, True),
        ('{"apiVersion": "v1", "kind": "Pod"}', True),
        ("[isolate]\nhold_down_s = 3\n", False),
        ("{}", False),
    ],
)
def test_manifests_are_told_from_other_files(text: str, expected: bool) -> None:
    assert is_manifest(text) == expected


def test_config_check_of_a_good_manifest(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(SERVER)
    result = run("config", "check", str(file))
    assert (result.exit_code, result.output) == (0, f"{file}: usable as a workload manifest\n")


KUSTOMIZATION = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [crd.yaml]\n"
LIST = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (KUSTOMIZATION, "no workload in it, nothing to check"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", "no workload in it, nothing to check"),
        ("# nothing yet\n", "no workload in it, nothing to check"),
        (f"{KUSTOMIZATION}---\n{SERVER}", "usable as a workload manifest"),
        (LIST, "usable as a workload manifest"),
    ],
    ids=["kustomization", "configmap", "empty", "one beside a workload", "list"],
)
def test_config_check_says_when_a_manifest_holds_no_workload(text: str, said: str, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    file.write_text(text)
    result = run("config", "check", str(file))
    assert (result.exit_code, result.output) == (0, f"{file}: {said}\n")


def test_config_check_of_a_bad_manifest(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "server"
    file.write_text(edited(SERVER, "g: force", "g: Force"))
    result = run("config", "check", str(file))
    assert result.exit_code == 1
    assert result.output.startswith(f"{file}:7: AscendJob server: `fault-scheduling`: 'Force' is none of")
    assert len(result.output.splitlines()) == 1
    found = json.loads(run("config", "check", str(file), "--json").output)
    assert (found["ok"], found["kind"], found["findings"][0]["line"]) == (False, "manifest", 7)
