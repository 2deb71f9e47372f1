"""Whole tables, byte for byte: golden/ has each as a person reads it.

A change of one of them is a change of what MS Controllers are given; it is made by hand, never by running the builder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.core import fold
from reconciler.core.actions import PublishTable
from reconciler.core.publishing import plan_tables
from reconciler.core.state import World
from reconciler.ranktable import schema
from tests.core.worlds import world_of
from tests.ranktable.service import CONFIGMAP, instance, managers, recovery_of, rings, write

GOLDEN = Path(__file__).parent / "golden"
P, P_NEW, D = ("10.244.1.0", "10.244.1.1"), ("10.244.7.0", "10.244.7.1"), ("10.244.2.0",)


def a2_one() -> World:
    return world_of([*managers(), *instance("llm-prefill", *P), rings("llm-prefill", *P)])


def a3_two() -> World:
    decode = rings("llm-decode", *D, a3=True, labels={"grt-group/deploy-server": "1"})
    prefill = rings("llm-prefill", *P, a3=True)
    return published(
        world_of([*managers(), *instance("llm-decode", *D), decode, *instance("llm-prefill", *P), prefill])
    )


def a3_one_gone() -> World:
    """The recovery of the prefill instance is about to delete its pods."""
    world = a3_two()
    return published(seen(world, recovery_of("llm-prefill", *instance("llm-prefill", *P)[1:])))


def a3_back() -> World:
    """Its new pods stand elsewhere, the operator has listed them, the recovery is over."""
    world = a3_one_gone()
    old = instance("llm-prefill", *P)[1:]
    for pod in old:
        fold.observe(world, "Pod", "gone", pod)
    new = instance("llm-prefill", *P_NEW)[1:]
    for pod in new:
        pod["metadata"]["uid"] += "-new"
    listed = rings("llm-prefill", *P_NEW, a3=True, version="2")
    return seen(world, *new, listed, recovery_of("llm-prefill", *old, phase="Recovered"))


def seen(world: World, *objects: dict[str, Any]) -> World:
    for obj in objects:
        fold.observe(world, obj["kind"], "set", obj)
    return world


def published(world: World) -> World:
    """What is due is written, so that group ids are those that readers have seen."""
    for action in plan_tables(world.snapshot()):
        assert isinstance(action, PublishTable)
        write(world, action)
    return world


@pytest.mark.parametrize("made", [a2_one, a3_two, a3_one_gone, a3_back], ids=lambda made: made.__name__)
def test_the_table_is_this_one(made: Any) -> None:
    golden = json.loads((GOLDEN / f"{made.__name__.replace('_', '-')}.json").read_text())
    table = made().snapshot().services[CONFIGMAP].table
    assert table is not None
    assert schema.text_of(table) == json.dumps(golden, sort_keys=True, separators=(",", ":"))


def test_every_golden_table_is_asked_for() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {"a2-one", "a3-two", "a3-one-gone", "a3-back"}
