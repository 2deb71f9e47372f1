"""`npu-warden lab demo`: break a chip under a running instance and watch the warden mend it, step by step."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import click

from console.cli.errors import FINDING
from console.lab import workloads
from console.lab.children import RigError
from console.lab.cluster.podstatus import chips_of
from console.lab.episode import STEPS, Episode
from console.lab.rig import LabRig, lab_rig
from console.lab.signals import run_until_signal
from console.lab.telling import Story, spread
from console.lab.watching import EpisodeWatch, StepMissing, until, watching
from shared.model import fault_id
from shared.names import CONDITION

NODES, CHIPS = 4, 8
HOLD_DOWN_S = 5.0
CODE, SEVERITY = "80E18402", 3
WHAT = "HBM rows worn out"
JSON_STEPS = tuple(step for step in STEPS if step != "recreated")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON: the phases and who stayed untouched.")
@click.option("--keep-logs", type=click.Path(path_type=Path, file_okay=False), help="Write the daemons' logs here.")
@click.option("--timeout-s", type=click.FloatRange(min=0.1), default=30.0, show_default=True, help="For each step.")
def demo(as_json: bool, keep_logs: Path | None, timeout_s: float) -> None:
    """Break a chip in a simulated cluster and watch the warden mend it.

    Four nodes of eight chips are simulated, down to the driver library; agents, reconciler and Redis are the real ones.
    Takes about a minute and a half, ends by itself and leaves nothing behind. Exit code 0 when every step was seen,
    1 with the name of the step that was missing.
    """
    story = Story()
    error: str | None = "interrupted before the end"
    with tempfile.TemporaryDirectory(prefix="npu-warden-demo-") as directory:
        try:
            if run_until_signal(_play(story, Path(directory), keep_logs, timeout_s)):
                error = None
        except (StepMissing, RigError) as exc:
            error = str(exc)
    if error is not None:
        hint = f"the logs are in {keep_logs}" if keep_logs else "--keep-logs DIR keeps the logs of the daemons"
        click.echo(f"demo failed: {error} ({hint})", err=True)
    if as_json:
        phases = {f"{step}_s": round(story.at[step], 3) for step in JSON_STEPS if step in story.at}
        result = {"ok": error is None, "phases": phases, "untouched": story.untouched}
        click.echo(json.dumps(result if error is None else {**result, "error": error}))
    sys.exit(0 if error is None else FINDING)


async def _play(story: Story, directory: Path, logs: Path | None, timeout_s: float) -> bool:
    story.title(f"NPU Warden demo: {NODES} nodes of {CHIPS} chips")
    story.say("Simulated: the cluster and the NPU driver. Real: agents, Redis, reconciler.")
    started = time.monotonic()
    async with lab_rig(directory, nodes=NODES, chips=CHIPS, hold_down_s=HOLD_DOWN_S, logs=logs) as rig:
        story.say(f"Redis: {rig.broker.shown}")
        if any(host.library is None for host in rig.hosts.values()):
            story.say("No C compiler, so no driver library: npu-smi is polled every 5 s instead.")
        workloads.apply(rig.cluster)
        await everything_ready(rig, timeout_s)
        story.say(f"All Ready after {time.monotonic() - started:.1f} s:")
        story.table(spread(rig.cluster.store.objects("pods")))
        await break_and_heal(rig, story, timeout_s)
    story.say("Done: every step was seen, and nothing of the demo runs any more.")
    return True


async def everything_ready(rig: LabRig, timeout_s: float) -> None:
    """Every pod Ready, and every node healthy in the reconciler's eyes."""
    store = rig.cluster.store

    def waited_for() -> list[str]:
        pods = [pod for pod in store.objects("pods") if workloads.ready(pod)]
        missing = [f"{workloads.PODS - len(pods)} pods Ready"] if len(pods) < workloads.PODS else []
        for node in store.objects("nodes"):
            conditions = node["status"].get("conditions", [])
            if not any(c["type"] == CONDITION and c["status"] == "True" for c in conditions):
                missing.append(f"{node['metadata']['name']} {CONDITION}")
        return missing

    await until(store, lambda: not waited_for(), timeout_s, lambda: f"start: still missing: {', '.join(waited_for())}")


async def break_and_heal(rig: LabRig, story: Story, timeout_s: float) -> None:
    """The story itself. Raises StepMissing at the first step that was not seen."""
    store = rig.cluster.store
    pods = store.objects("pods")
    home = (workloads.MINDIE, workloads.PREFILL)
    uids = {pod["metadata"]["uid"]: f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods}
    mine = [pod for pod in pods if workloads.instance(pod) == "/".join(home)]
    victims = {pod["metadata"]["uid"]: uids[pod["metadata"]["uid"]] for pod in mine}
    neighbours = Counter(pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["uid"] not in victims)
    # Where others run as well, for they are to stay.
    hit = max(mine, key=lambda pod: neighbours[pod["spec"]["nodeName"]])
    node, chip = hit["spec"]["nodeName"], chips_of(hit)[-1]
    episode = Episode(node, home, victims, {uid: name for uid, name in uids.items() if uid not in victims})

    async with watching(episode, store, rig.redis, fault_id(CODE, chip)) as watch:
        story.at = episode.at
        watch.restart_clock()
        rig.hosts[node].occur(chip, CODE, severity=SEVERITY)
        story.title(f"\nChip {chip} of {node} breaks, used by {uids[hit['metadata']['uid']]}")
        story.step(0.0, "broken", f"the driver raises {CODE}: {WHAT}")
        await _mended(episode, watch, story, timeout_s)
        _untouched(episode, story, watch, neighbours[node])
        rig.hosts[node].heal(chip)
        story.step(watch.seconds(), "healed", f"chip recovers; its node is held {HOLD_DOWN_S:g} s more (default 300 s)")
        stays = f"the taint stays on {node} although its chip is healthy"
        at_s = await watch.until("released", HOLD_DOWN_S + timeout_s, stays)
        story.step(at_s, "released", f"{node} takes new work again")
        _untouched(episode, story, watch, None)


async def _mended(episode: Episode, watch: EpisodeWatch, story: Story, timeout_s: float) -> None:
    node, job = episode.node, "/".join(episode.home)
    old = " and ".join(name.partition("/")[2] for name in episode.victims.values())
    at_s = await watch.until("detected", timeout_s, f"the agent of {node} has not reported {CODE} to Redis")
    story.step(at_s, "detected", f"the agent's report with {CODE} is in Redis")
    at_s = await watch.until("tainted", timeout_s, f"{node} has no taint of the warden")
    story.step(at_s, "tainted", f"{node} {episode.taint}")
    at_s = await watch.until("deleted", timeout_s, f"the old pods of {job} are still there")
    story.step(at_s, "deleted", f"{old} are gone")
    at_s = await watch.until("recreated", timeout_s, f"the new pods of {job} are not all bound off {node}")
    story.step(at_s, "recreated", f"new pods bound to {' and '.join(sorted(episode.replacements.values()))}")
    at_s = await watch.until("ready", timeout_s, f"no Recovery of {job} is Recovered")
    story.step(at_s, "Ready", f"it serves again, {episode.recovery} is Recovered")


def _untouched(episode: Episode, story: Story, watch: EpisodeWatch, neighbours: int | None) -> None:
    """Tell that every other pod kept its UID (`neighbours` of them on the broken node), or raise StepMissing."""
    if episode.harmed:
        raise StepMissing(f"untouched: the warden deleted pods of others: {', '.join(sorted(episode.harmed.values()))}")
    story.untouched = sorted(episode.bystanders.values())
    if neighbours is not None:
        counts = Counter(name.partition("/")[0] for name in story.untouched)
        others = " and ".join(f"{count} of {namespace}" for namespace, count in sorted(counts.items()))
        story.step(watch.seconds(), "untouched", f"{others}; {neighbours} of them on {episode.node}")
