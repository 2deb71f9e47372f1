"""`npu-warden decode`: what it prints and how it ends."""

import json
from pathlib import Path

from click.testing import CliRunner

from agent.decode.tools import TOOLS
from console.main import main
from tests.console.conftest import Run

HEALTHY = "\tHealth Status                  : OK\n\tError Code                     : NA\n"


def test_a_file_as_json(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "health.txt"
    path.write_text(f"# source: here\n{HEALTHY}")
    result = run("decode", "npu-smi-health", str(path))
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert (answer["tool"], answer["version"], answer["error"]) == ("npu-smi-health", None, None)
    (chip,) = answer["chips"]
    assert (chip["health"], chip["codes"]) == ("OK", [])
    assert "card" in chip, "what is not told is null, not left out"
    assert chip["card"] is None


def test_standard_input_is_the_default() -> None:
    for args in (["decode", "hccn-link"], ["decode", "hccn-link", "-"]):
        result = CliRunner().invoke(main, args, input="link status: DOWN\n")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["up"] is False


def test_an_error_of_the_tool_is_a_finding() -> None:
    result = CliRunner().invoke(main, ["decode", "npu-smi-info"], input="dcmi module initialize failed. ret is -8005\n")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == -8005


def test_bytes_that_are_no_text_are_a_finding() -> None:
    result = CliRunner().invoke(main, ["decode", "npu-smi-info"], input=b"\xff\xfe\x00\x80|\n")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "foreign"


def test_the_list_of_tools(run: Run) -> None:
    result = run("decode", "--list")
    assert result.exit_code == 0
    assert result.stdout.split() == list(TOOLS)


def test_an_unknown_tool_is_a_wrong_command_line(run: Run) -> None:
    result = run("decode", "nvidia-smi")
    assert result.exit_code == 2
    assert "npu-smi-info" in result.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path, run: Run) -> None:
    result = run("decode", "kmsg", str(tmp_path / "absent"))
    assert result.exit_code == 2
    assert "absent" in result.stderr


def test_every_tool_is_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "decode.md").read_text()
    assert [name for name in TOOLS if f"`{name}`" not in text] == []
