"""Long lists in pages: `?limit=N`, and `?continue=` with what the page before called `next`.

The token names the last item shown, so a page goes on at the right place whatever has come or gone meanwhile.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec
from aiohttp import web

from shared.web import Page

MAX_LIMIT = 5000
QUERY: dict[str, range | tuple[str, ...] | None] = {"limit": range(1, MAX_LIMIT + 1), "continue": None}

Key = tuple[str, ...]
T = TypeVar("T")


class BadToken(ValueError):
    """`continue` is not a token of this API."""


class Cut(NamedTuple):
    """limit None: all that is left. after None: from the beginning."""

    limit: int | None
    after: Key | None

    @classmethod
    def of(cls, request: web.Request) -> Cut:
        """From the query of a route that has QUERY. Raises BadToken."""
        limit, token = request.query.get("limit"), request.query.get("continue")
        return cls(int(limit) if limit else None, _opened(token) if token else None)

    def page(self, items: Iterable[T], key: Callable[[T], Key], *, newest_first: bool = False) -> Page[T]:
        """This page of `items`, which come in the order of `key` (newest_first: backwards); no more are drawn."""

        def due(item: T) -> bool:
            if self.after is None:
                return True
            return key(item) < self.after if newest_first else key(item) > self.after

        rest = filter(due, items)
        shown = list(rest if self.limit is None else islice(rest, self.limit))
        more = self.limit is not None and len(shown) == self.limit and next(rest, None) is not None
        return Page(shown, _token(key(shown[-1])) if more else None)


def _token(key: Key) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def _opened(token: str) -> Key:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)), type=Key)
    except (ValueError, msgspec.MsgspecError) as exc:
        raise BadToken(f"continue: {token[:40]!r} is not what an answer called `next`") from exc
