"""Fixtures of the lab cluster's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from console.lab.cluster.lab import LabCluster


@pytest.fixture
async def lab() -> AsyncIterator[LabCluster]:
    """Four nodes of eight chips; pods are ready 50 ms after they are bound."""
    async with LabCluster(nodes=4, ready_s=0.05, stop_s=0.05) as cluster:
        yield cluster
