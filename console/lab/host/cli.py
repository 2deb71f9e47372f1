"""`npu-warden lab host`: make a simulated NPU host and break it by hand."""

import json
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from console.cli.output import print_table
from console.lab.host.build import BuildError
from console.lab.host.sim_host import SimHost
from console.lab.host.state import Generation, StateError
from console.lab.host.words import CHIP_COLUMNS, chip_row, chip_text, misbehaviour

DIRECTORY_VARIABLE = "NPU_WARDEN_LAB_DIR"

_Command = Callable[..., Any]


class _Refused(click.ClickException):
    exit_code = 2


class _Group(click.Group):
    """Turns what is wrong with the host or the arguments into one line and exit code 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (StateError, BuildError) as exc:
            raise _Refused(str(exc)) from exc
        except OSError as exc:
            raise _Refused(f"{exc.filename}: {exc.strerror}") from exc


@click.group(cls=_Group)
def lab_host() -> None:
    """A simulated NPU host: libdcmi.so, npu-smi and hccn_tool over one state file.

    Create one, point an agent at it, then break its chips. The state file may also be edited by hand: the library
    and the tools read it again whenever it changes. CHIP is a physical id.
    """


def _directory(_ctx: click.Context, _param: click.Parameter, given: Path | None) -> Path:
    """The host's directory; one above hosts (that of `lab up`) is refused with the names of those below."""
    if given is None:
        raise click.UsageError(
            f"which host? name its directory with --dir, or in the environment's {DIRECTORY_VARIABLE}"
        )
    if not SimHost(given).state_path.exists() and (below := sorted(path.parent for path in given.glob("*/state.json"))):
        raise click.UsageError(f"{given} is no host, but has some: --dir {' or '.join(map(str, below))}")
    return given


def _with_host(command: _Command) -> _Command:
    """Give a command the host it concerns and the choice of JSON."""
    command = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(command)
    return click.option(
        "--dir",
        "directory",
        type=click.Path(path_type=Path),
        envvar=DIRECTORY_VARIABLE,
        callback=_directory,
        help=f"The directory of the host (of one node of `lab up`: DIR/node-N).  [env: {DIRECTORY_VARIABLE}]",
    )(command)


@lab_host.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--generation",
    type=click.Choice(typing.get_args(Generation)),
    default="910B",
    show_default=True,
    help="Which chips.",
)
@click.option("--chips", type=int, default=8, show_default=True, help="How many of them.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def create(directory: Path, generation: Generation, chips: int, as_json: bool) -> None:
    """Make a healthy host in DIRECTORY and say how to use it.

    An existing host there starts anew. Without a C compiler there is no libdcmi.so, and an agent sees the host
    through npu-smi and hccn_tool alone.
    """
    host = SimHost.create(directory, generation, chips)
    facts = {
        "state": str(host.state_path),
        "library": str(host.library) if host.library else None,
        "npu_smi": str(host.npu_smi),
        "hccn_tool": str(host.hccn_tool),
        "sysfs": str(host.sysfs),
        "env": host.env(),
    }
    if as_json:
        click.echo(json.dumps(facts))
        return
    click.echo(f"{chips} chips of {generation} in {host.directory}")
    for name in ("state", "library", "npu_smi", "hccn_tool", "sysfs"):
        click.echo(f"  {name:<10} {facts[name] or 'none: no C compiler on this machine'}")
    click.echo("Processes that use the library need:")
    for name, value in host.env().items():
        click.echo(f"  export {name}={value}")


@lab_host.command()
@_with_host
def show(directory: Path, as_json: bool) -> None:
    """Print the chips of the host and what is wrong with them."""
    state = SimHost.open(directory).state()
    if as_json:
        click.echo(msgspec.json.encode(state).decode())
        return
    print_table("", CHIP_COLUMNS, (chip_row(device) for device in state.devices))
    for line in misbehaviour(state.faults):
        click.echo(line)


@lab_host.command(name="break")
@click.argument("chip", type=int)
@click.argument("code")
@click.option("--severity", type=int, default=3, show_default=True, help="0 suggestion, 1 minor, 2 major, 3 critical.")
@click.option("--no-event", is_flag=True, help="Lose the event: only polling can find the fault.")
@_with_host
def break_chip(chip: int, code: str, severity: int, no_event: bool, directory: Path, as_json: bool) -> None:
    """Let the fault CODE (such as 80E01801) begin on CHIP."""
    host = SimHost.open(directory)
    host.occur(chip, code, severity, event=not no_event)
    _report(host, chip, as_json)


@lab_host.command()
@click.argument("chip", type=int)
@click.argument("code", required=False)
@_with_host
def heal(chip: int, code: str | None, directory: Path, as_json: bool) -> None:
    """End CODE on CHIP; without CODE end everything: codes, errors, hangs, and its absence."""
    host = SimHost.open(directory)
    if code is None:
        host.heal(chip)
    else:
        host.recover(chip, code)
    _report(host, chip, as_json)


@lab_host.command()
@click.argument("chip", type=int)
@_with_host
def drop(chip: int, directory: Path, as_json: bool) -> None:
    """Let CHIP fall off the PCI bus."""
    host = SimHost.open(directory)
    host.drop(chip)
    _report(host, chip, as_json)


@lab_host.command()
@click.argument("chip", type=int)
@_with_host
def back(chip: int, directory: Path, as_json: bool) -> None:
    """Bring a dropped CHIP back."""
    host = SimHost.open(directory)
    host.back(chip)
    _report(host, chip, as_json)


@lab_host.command()
@click.argument("chip", type=int)
@click.argument("status", type=click.Choice(["up", "down"]))
@_with_host
def link(chip: int, status: str, directory: Path, as_json: bool) -> None:
    """Take the RoCE link of CHIP up or down."""
    host = SimHost.open(directory)
    host.link(chip, status == "up")
    _report(host, chip, as_json)


@lab_host.command()
@click.argument("chip", type=int)
@click.argument("address", nargs=-1)
@_with_host
def unreachable(chip: int, address: tuple[str, ...], directory: Path, as_json: bool) -> None:
    """Let CHIP get no reply to its pings of each ADDRESS ('*' for all); without ADDRESS, from all again."""
    host = SimHost.open(directory)
    host.unreachable(chip, *address)
    _report(host, chip, as_json)


@lab_host.command()
@click.argument("chip", type=int, required=False)
@click.option("--function", help="The DCMI function that hangs.  [default: the health of the chip, or everything]")
@_with_host
def hang(chip: int | None, function: str | None, directory: Path, as_json: bool) -> None:
    """Let calls for CHIP never return; without CHIP, hang the whole driver and both tools."""
    host = SimHost.open(directory)
    host.hang(chip, function)
    _report(host, chip, as_json)


@lab_host.command()
@_with_host
def unhang(directory: Path, as_json: bool) -> None:
    """End every hang and every error; calls that hang now go on."""
    host = SimHost.open(directory)
    host.clear(None)
    _report(host, None, as_json)


@lab_host.command(context_settings={"ignore_unknown_options": True})
@click.argument("chip", type=int)
@click.argument("ret", type=int)
@_with_host
def error(chip: int, ret: int, directory: Path, as_json: bool) -> None:
    """Let every reading of CHIP fail with the return code RET (such as -8005)."""
    host = SimHost.open(directory)
    host.error(chip, ret)
    _report(host, chip, as_json)


def _report(host: SimHost, chip: int | None, as_json: bool) -> None:
    """Say what is true of the chip now, and of the driver and its tools; of these alone when no chip was named."""
    state = host.state()
    if as_json:
        click.echo(msgspec.json.encode(state.faults if chip is None else state.device(chip)).decode())
        return
    if chip is not None:
        click.echo(f"chip {chip}: {chip_text(state.device(chip))}")
    found = misbehaviour(state.faults)
    for line in found:
        click.echo(line)
    if chip is None and not found:
        click.echo("the driver and its tools answer as they should")
