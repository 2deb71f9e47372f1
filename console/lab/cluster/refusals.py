"""Requests that the lab's API server refuses because somebody asked it to."""

from __future__ import annotations

from dataclasses import dataclass

from console.lab.cluster.problems import Problem, refused

VERBS = ("get", "list", "create", "update", "patch", "delete")


@dataclass(slots=True)
class _Refusal:
    verb: str
    target: str
    status: int
    times: int


class Refusals:
    """What is to be refused, and how often still."""

    def __init__(self) -> None:
        self._refusals: list[_Refusal] = []

    def add(self, verb: str, target: str, status: int, times: int) -> None:
        """See :meth:`Store.refuse`."""
        if verb not in VERBS:
            raise ValueError(f"no such verb: {verb}; verbs are {', '.join(VERBS)}")
        self._refusals.append(_Refusal(verb, target, status, times))

    def take(self, verb: str, target: str) -> Problem | None:
        """The answer for this request, counted, or None."""
        for refusal in self._refusals:
            if (refusal.verb, refusal.target) == (verb, target):
                refusal.times -= 1
                if refusal.times <= 0:
                    self._refusals.remove(refusal)
                return refused(refusal.status, f"{verb} {target}")
        return None
