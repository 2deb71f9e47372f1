"""Certificates that cannot be used: what is said names the files, not only the port."""

from pathlib import Path

import pytest

from reconciler.config import RankTableServer
from reconciler.metrics import Metrics
from reconciler.ranktable.hub import Hub
from reconciler.ranktable.server import listening
from shared.config import ConfigError


async def complaint(directory: Path) -> str:
    settings = RankTableServer("127.0.0.1:0", str(directory / "tls.crt"), str(directory / "tls.key"))
    with pytest.raises(ConfigError) as caught:
        async with listening(settings, Hub(), Metrics()):
            pass
    return str(caught.value)


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = await complaint(tmp_path)
    assert str(tmp_path / "tls.key") in said
    assert "cannot be read" in said
    assert "listen" not in said


async def test_files_that_are_no_certificate_are_named(tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("garbage\n")
    said = await complaint(tmp_path)
    assert f"{tmp_path}/tls.crt and {tmp_path}/tls.key are no PEM pair" in said
