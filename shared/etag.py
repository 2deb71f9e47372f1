"""ETag and If-None-Match (RFC 9110, 8.8.3 and 13.1.2): who asks again and again is told when nothing has changed."""

from __future__ import annotations

import hashlib
import re

from aiohttp import web

_AGES = re.compile(rb'"\w*(?:age_s|_in_s)":[-+.0-9eE]+')
"""What only grows older between two answers. The tags are weak: they say that the rest is the same."""


def unless_known(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """The response with its tag; 304 without a body where the client names that tag."""
    if not isinstance(response, web.Response) or response.status != 200 or response.content_type != "application/json":
        return response
    body = response.body
    assert isinstance(body, bytes), "JSON answers are made in one piece"
    tag = hashlib.sha256(_AGES.sub(b"", body)).hexdigest()[:24]
    asked = request.if_none_match or ()
    if any(one.value in (tag, "*") for one in asked):
        response = web.Response(status=304)
    response.headers["ETag"] = f'W/"{tag}"'
    return response
