"""CustomResourceDefinitions of the foreign kinds, just enough for a real API server to take the objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from console.lab.cluster.resources import (
    ASCENDJOBS,
    INFERSERVICES,
    INFERSERVICESETS,
    INSTANCESETS,
    LEADERWORKERSETS,
    PODGROUPS,
    PODSETS,
    ROLESETS,
    STORMSERVICES,
    VOLCANO_JOBS,
    Resource,
)

FOREIGN = (
    ASCENDJOBS,
    STORMSERVICES,
    ROLESETS,
    PODSETS,
    PODGROUPS,
    INFERSERVICESETS,
    INFERSERVICES,
    INSTANCESETS,
    LEADERWORKERSETS,
    VOLCANO_JOBS,
)
RECOVERY_FILE = Path(__file__).parents[3] / "deploy" / "crd.yaml"


def definition(resource: Resource) -> dict[str, Any]:
    """The definition of one kind: any content, with a status subresource."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {**names, "listKind": f"{resource.kind}List"},
            "versions": [version],
        },
    }


def definitions() -> list[dict[str, Any]]:
    """Every definition the warden's workloads need, the warden's own Recovery included where its file is at hand."""
    own = list(yaml.safe_load_all(RECOVERY_FILE.read_text())) if RECOVERY_FILE.is_file() else []
    return [*(definition(resource) for resource in FOREIGN), *(document for document in own if document)]
