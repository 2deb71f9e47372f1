"""What is wrong with a configuration file of MindCluster: a complaint for each entry that is not used as it stands."""

from __future__ import annotations

import msgspec

WHOLE = ""
"""Key of a complaint about the file as a whole."""


class Complaint(msgspec.Struct, frozen=True):
    """`key`: place in the file (`RestartNPUCodes[3]`), WHOLE for the file itself. `why`: cause and consequence."""

    file: str
    key: str
    why: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.key, self.why) if part)


class UnusableFile(ValueError):
    """The file as a whole cannot be read; the text says where."""
