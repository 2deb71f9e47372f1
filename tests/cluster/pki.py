"""The test cluster's own certificate authority, made by the ``openssl`` command."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

EC_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Authority:
    """CA of one test cluster. Its directory has ca.crt, ca.key, sa.key, and NAME.crt, NAME.key for what it signed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca_file = directory / "ca.crt"
        self._ca_key = directory / "ca.key"
        self.service_account_key = directory / "sa.key"
        self._openssl("req", "-x509", *EC_KEY, "-subj", "/CN=npu-warden-test-ca", "-days", "2",
                      "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                      "-keyout", str(self._ca_key), "-out", str(self.ca_file))  # fmt: skip
        self._openssl("genpkey", "-algorithm", "RSA", "-out", str(self.service_account_key))

    def sign(self, name: str, subject: str, *, extensions: Sequence[str] = ()) -> tuple[Path, Path]:
        """Certificate and key for ``subject`` in openssl's form (/O=group/CN=user), ``extensions`` as for -addext."""
        crt, key = self.directory / f"{name}.crt", self.directory / f"{name}.key"
        added = [word for extension in extensions for word in ("-addext", extension)]
        self._openssl("req", "-x509", *EC_KEY, "-CA", str(self.ca_file), "-CAkey", str(self._ca_key), "-days", "2",
                      "-subj", subject, "-addext", "basicConstraints=critical,CA:FALSE", *added,
                      "-keyout", str(key), "-out", str(crt))  # fmt: skip
        return crt, key

    def _openssl(self, *args: str) -> None:
        done = subprocess.run(["openssl", *args], capture_output=True, text=True, timeout=30, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"openssl {args[0]} failed: {done.stderr.strip()}")
