"""One Kubernetes control plane on loopback, in one temporary directory: start it, break it, end it without a trace.

etcd, kube-apiserver (RBAC, no ServiceAccount admission, so that pods need no service account), kube-controller-manager,
kube-scheduler and kwok, which plays the kubelet of every node labelled ``kwok.x-k8s.io/node: fake``.
"""

import json
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.api import Api
from tests.cluster.objects import KWOK_LABEL
from tests.cluster.pki import Authority
from tests.process import Process, free_ports

HERE = Path(__file__).parent
ADMIN_TOKEN = "admin-token"
START_TIMEOUT_S = 45.0
# A dead node is seen this long after its last lease renewal. kwok renews every quarter of the lease.
NODE_LEASE_S = 8
NODE_GRACE_S = 16


def build() -> Path:
    """The directory of the binaries; the first call on a machine builds them, minutes long, and says so on stderr.

    RuntimeError when that fails. The Go command is ``$GO``, else ``go``.
    """
    try:
        done = subprocess.run(["nice", str(HERE / "build.sh")], stdout=subprocess.PIPE, text=True, check=True)
    except subprocess.CalledProcessError as exc:
        raise RuntimeError("tests/cluster/build.sh failed, see above; it needs Go >= 1.26 as $GO or on PATH") from exc
    return Path(done.stdout.strip())


class ControlPlane:
    """``url``, ``token`` and ``ca_file`` reach it as cluster administrator; ``kubeconfig`` is a file with all three.

    ``audited``: keep `audit_log`; a bench does without, since each request would wait for its line.
    """

    def __init__(self, binaries: Path, directory: Path, *, audited: bool = True) -> None:
        self.directory = directory
        self.binaries = binaries
        self.token = ADMIN_TOKEN
        self._authority = Authority(self._dir("pki"))
        self.ca_file = self._authority.ca_file
        self.tls = ssl.create_default_context(cafile=str(self.ca_file))
        etcd, etcd_peer, apiserver, controllers, scheduler, kwok = free_ports(6)
        self.url = f"https://127.0.0.1:{apiserver}"
        self.etcd_url = f"http://127.0.0.1:{etcd}"
        self.api = Api(self.url, self.token, self.tls)
        self.kubeconfig = self._write_kubeconfig("admin", {"token": self.token})
        self.audit_log = directory / "audit.log"
        """JSON lines, one for each write of the warden's account (audit.yaml), there before its answer is sent."""
        # In the order of their start.
        self._health = {
            "etcd": f"{self.etcd_url}/health",
            "kube-apiserver": f"{self.url}/readyz",
            "kube-controller-manager": f"https://127.0.0.1:{controllers}/healthz",
            "kube-scheduler": f"https://127.0.0.1:{scheduler}/healthz",
            "kwok": f"http://127.0.0.1:{kwok}/healthz",
        }
        flags = {
            "etcd": self._etcd_flags(etcd, etcd_peer),
            "kube-apiserver": [*self._apiserver_flags(apiserver, etcd), *(self._audit_flags() if audited else ())],
            "kube-controller-manager": [
                *self._client_flags(controllers),
                f"--service-account-private-key-file={self._authority.service_account_key}",
                f"--root-ca-file={self.ca_file}",
                f"--node-monitor-grace-period={NODE_GRACE_S}s",
                "--node-monitor-period=1s",
            ],
            "kube-scheduler": self._client_flags(scheduler),
            "kwok": [
                f"--kubeconfig={self.kubeconfig}",
                f"--config={HERE / 'kwok.yaml'}",
                "--manage-all-nodes=false",
                f"--manage-nodes-with-label-selector={KWOK_LABEL}=fake",
                f"--node-lease-duration-seconds={NODE_LEASE_S}",
                f"--server-address=127.0.0.1:{kwok}",
            ],
        }
        self._processes = {
            name: Process(name, [str(binaries / name), *flags[name]], directory / f"{name}.log")
            for name in self._health
        }

    def start(self) -> None:
        """Until every component answers its health check; else ProcessFailed with the log's end, and nothing runs."""
        try:
            for name in self._processes:
                self.start_component(name)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for process in reversed(self._processes.values()):
            process.kill()
        shutil.rmtree(self.directory / "etcd")  # large; the logs stay for whoever looks for the reason

    def stop_component(self, name: str) -> None:
        """An outage: SIGKILL, as unannounced as the real one. The data and the port stay for ``start_component``."""
        self._processes[name].kill()

    def start_component(self, name: str) -> None:
        process = self._processes[name]
        process.start()
        process.wait_ready(lambda: self._healthy(self._health[name]), START_TIMEOUT_S)

    @contextmanager
    def outage(self, name: str) -> Iterator[None]:
        """``stop_component``, then ``start_component`` whatever the test did: the next test shares this plane."""
        self.stop_component(name)
        try:
            yield
        finally:
            self.start_component(name)

    def sign(self, name: str, subject: str, *, extensions: Sequence[str] = ()) -> tuple[Path, Path]:
        """Certificate and key of this cluster's authority, see `Authority.sign`."""
        return self._authority.sign(name, subject, extensions=extensions)

    def tls_for(self, user: str) -> ssl.SSLContext:
        """For a client that speaks as any user by certificate, as `kubeconfig_for` has it."""
        crt, key = self._authority.sign(_file_name(user), f"/CN={user}")
        tls = ssl.create_default_context(cafile=str(self.ca_file))
        tls.load_cert_chain(crt, key)
        return tls

    def kubeconfig_for(self, user: str, groups: tuple[str, ...] = ()) -> Path:
        """A kubeconfig that authenticates by client certificate as any user, service accounts included.

        RBAC knows a service account by its user name ``system:serviceaccount:NAMESPACE:NAME``.
        """
        file_name = _file_name(user)
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        crt, key = self._authority.sign(file_name, subject)
        return self._write_kubeconfig(file_name, {"client-certificate": str(crt), "client-key": str(key)})

    def kubeconfig_of(self, namespace: str, service_account: str) -> Path:
        """A kubeconfig with a token of an existing service account, as its pods have it."""
        token = self.token_for(namespace, service_account, hours=12)  # a run on a slow machine takes its time
        return self._write_kubeconfig(f"{namespace}-{service_account}", {"token": token})

    def token_for(self, namespace: str, service_account: str, *, hours: int = 1) -> str:
        """A bearer token of an existing service account, as TokenReview sees it in production."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600 * hours},
        }
        token: str = self.api.post(path, request)["status"]["token"]
        return token

    def kill_node(self, name: str) -> None:
        """The machine loses power: the lease runs out, Ready becomes Unknown after NODE_GRACE_S, the pods stay."""
        self.api.merge_patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {KWOK_LABEL: None}}})

    def revive_node(self, name: str) -> None:
        """The kubelet of a killed node is back: Ready at once, and what was deleted meanwhile ends."""
        self.api.merge_patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {KWOK_LABEL: "fake"}}})

    def _dir(self, name: str) -> Path:
        path = self.directory / name
        path.mkdir()
        return path

    def _etcd_flags(self, client_port: int, peer_port: int) -> list[str]:
        client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
        return [
            f"--data-dir={self._dir('etcd')}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
        ]

    def _apiserver_flags(self, port: int, etcd_port: int) -> list[str]:
        crt, key = self._authority.sign("apiserver", "/CN=kube-apiserver", extensions=["subjectAltName=IP:127.0.0.1"])
        tokens = self.directory / "tokens.csv"
        tokens.write_text(f"{ADMIN_TOKEN},admin,admin,system:masters\n")
        account_key = self._authority.service_account_key
        return [
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={crt}",
            f"--tls-private-key-file={key}",
            f"--cert-dir={self._dir('certs')}",
            f"--client-ca-file={self.ca_file}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={account_key}",
            f"--service-account-signing-key-file={account_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]

    def _audit_flags(self) -> list[str]:
        return [
            f"--audit-policy-file={HERE / 'audit.yaml'}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-mode=blocking",
        ]

    def _client_flags(self, port: int) -> list[str]:
        # Without --cert-dir these two make their serving certificate in memory.
        return [
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
        ]

    def _write_kubeconfig(self, name: str, user: dict[str, str]) -> Path:
        path = self.directory / f"{name}.kubeconfig"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}}],
            "users": [{"name": name, "user": user}],
        }
        path.write_text(json.dumps(config))  # JSON is YAML
        return path

    def _healthy(self, url: str) -> bool:
        """The controller manager and the scheduler sign their own certificates, so only the API server's is checked."""
        tls = self.tls if url.startswith(self.url) else ssl._create_unverified_context()
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self.token}"})
        try:
            with urllib.request.urlopen(request, timeout=2, context=tls) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False


def _file_name(user: str) -> str:
    return user.replace(":", "-").replace("/", "-")
