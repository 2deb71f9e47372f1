"""What stands in the cluster before a test: the warden's own manifests, foreign kinds, and who acts on them."""

import functools
import sys
from pathlib import Path

import yaml

from console.lab.cluster.crds import definitions
from reconciler.core.resources import RETRY_LEDGER, SEPARATED
from tests.cluster.api import Api, ApiError
from tests.cluster.plane import ControlPlane
from tests.integration.controllers import READY_LINE
from tests.process import Process
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
ACCOUNT = "system:serviceaccount:npuwarden-system:npuwarden-reconciler"
COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/npuwarden-system/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/npuwarden-system/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/npuwarden-system/rolebindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
FILES = ("00-namespace.yaml", "rbac.yaml", "admission.yaml")
OF_VOLCANO = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RETRY_LEDGER.namespace}}
"""There before the first leader: one that has missed it looks again only after half a minute."""


def install(api: Api) -> None:
    """Namespaces, rights and limits of deploy/, and the definitions of all kinds; what is there already stays."""
    own = [obj for name in FILES for obj in yaml.safe_load_all((ROOT / "deploy" / name).read_text())]
    for obj in (*own, OF_VOLCANO, *definitions()):
        try:
            api.post(COLLECTIONS[obj["kind"]], obj)
        except ApiError as exc:
            if exc.reason != "AlreadyExists":
                raise
    for obj in definitions():
        spec = obj["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        wait_until(f"{path} served", functools.partial(_served, api, path))


def forget_lists(api: Api) -> None:
    """The ConfigMaps that a reconciler makes when they are first needed and keeps for good."""
    for kept in (RETRY_LEDGER, SEPARATED):
        assert kept.namespace is not None
        assert kept.name is not None
        path = kept.path(kept.namespace, kept.name)
        if api.find(path):
            api.delete(path)


def _served(api: Api, path: str) -> bool:
    """A new kind is 404 first, then 429 while its storage is set up."""
    try:
        api.get(path)
    except ApiError as exc:
        if exc.status not in (404, 429):
            raise
        return False
    return True


def controllers_of(plane: ControlPlane) -> Process:
    """The stand-in operators and the device plugin as a running process."""
    argv = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "tests.integration.controllers"]
    argv += [plane.url, plane.token, str(plane.ca_file)]
    process = Process("controllers", argv, plane.directory / "controllers.log")
    process.start()
    process.wait_ready(lambda: READY_LINE in process.log.read_text(), timeout_s=40)
    return process
