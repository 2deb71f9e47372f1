"""The test's side of dcmi_child.py."""

import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.lab.host import SimHost

PROGRAM = Path(__file__).with_name("dcmi_child.py")
ANSWER_S = 20
UNTOUCHED = 0xA5


@dataclass(frozen=True)
class Result:
    """Return code of a call, and its buffers afterwards."""

    ret: int
    outs: list[bytes]

    def u32(self, index: int = 0) -> int:
        return int.from_bytes(self.outs[index][:4], "little")

    def i32s(self, count: int, index: int = 0) -> list[int]:
        raw = self.outs[index]
        return [int.from_bytes(raw[4 * i : 4 * i + 4], "little", signed=True) for i in range(count)]

    def written(self, index: int = 0) -> int:
        """How many bytes the callee wrote, given that it does not write 0xA5 last."""
        return len(self.outs[index].rstrip(bytes([UNTOUCHED])))


def out(size: int = 4) -> dict[str, int]:
    return {"out": size}


class Child:
    """One process with the library of a host loaded."""

    def __init__(self, host: SimHost, env: dict[str, str] | None = None) -> None:
        assert host.library is not None
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(host.library)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(host.env() if env is None else env)},
        )

    def send(self, request: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def answered(self, within_s: float) -> bool:
        """Whether an answer is there before the time is over."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], within_s)[0])

    def receive(self) -> Any:
        assert self.process.stdout is not None
        assert self.answered(ANSWER_S), f"no answer within {ANSWER_S} s"
        return json.loads(self.process.stdout.readline())

    def ask(self, request: dict[str, Any]) -> Any:
        self.send(request)
        return self.receive()

    def call(self, name: str, *args: Any) -> Result:
        answer = self.ask({"call": name, "args": list(args)})
        return Result(answer["ret"], [bytes.fromhex(raw) for raw in answer["outs"]])

    def init(self) -> "Child":
        assert self.call("dcmi_init").ret == 0
        return self

    def cards(self) -> list[int]:
        result = self.call("dcmi_get_card_list", out(4), out(256), 64)
        assert result.ret == 0
        return result.i32s(result.u32(0), 1)

    def health(self, card: int, chip: int = 0) -> tuple[int, int]:
        result = self.call("dcmi_get_device_health", card, chip, out())
        return result.ret, result.u32()

    def codes(self, card: int, chip: int = 0, room: int = 128) -> tuple[int, list[str]]:
        result = self.call("dcmi_get_device_errorcode_v2", card, chip, out(), out(4 * 256), room)
        found = [f"{code & 0xFFFFFFFF:08X}" for code in result.i32s(result.u32(), 1)] if result.ret == 0 else []
        return result.ret, found

    def stderr(self) -> str:
        """All it has said, once it has ended."""
        self.close()
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
