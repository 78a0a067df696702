"""Where the server is, and what its refusals mean. Shared by the client and the worker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from ._version import __version__
from .errors import AbideError, ApiError, StaleFenceError

STRANGE = "http_strange"
"""An answer that is not the server's."""

OUR_FAULT = frozenset((400, 411, 413, 414, 415, 422, 431))
"""What a proxy says of a request that it will never let through."""

DEFAULT_URL = "http://127.0.0.1:7171"


@dataclass(frozen=True)
class Connection:
    """A server's address and a key for it."""

    url: str
    api_key: str | None = field(repr=False)

    @classmethod
    def find(cls, url: str | None = None, api_key: str | None = None) -> Connection:
        """What is given, else what ABIDE_URL and ABIDE_API_KEY say."""
        found = (url or os.environ.get("ABIDE_URL") or DEFAULT_URL).rstrip("/")
        if not found.startswith(("http://", "https://")):
            raise AbideError(f"'{found}' is not the address of a server; it looks like {DEFAULT_URL}")
        return cls(found, api_key or os.environ.get("ABIDE_API_KEY") or None)

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        headers = {"User-Agent": f"abide-python/{__version__}", "Accept": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return headers


def refusal(response: httpx2.Response) -> ApiError:
    """The error that an answer tells of."""
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, Mapping) or "error" not in body:
        body = {"error": f"http_{response.status_code}", "message": response.text[:200] or response.reason_phrase}
    details = dict(body.get("details") or {})
    wait = response.headers.get("retry-after")
    if wait is not None and wait.isdigit():
        details.setdefault("retryAfter", int(wait))
    return refused(str(body.get("error")), str(body.get("message")), response.status_code, details)


def refused(code: str, message: str, status: int, details: Mapping[str, Any] | None = None) -> ApiError:
    """An error of the API, as the class that it has here."""
    kind = StaleFenceError if code == "stale_fence" else ApiError
    return kind(code, message, status=status, details=details)


def is_passing(error: ApiError) -> bool:
    """Whether the same request may be answered later."""
    return error.status in (408, 425, 429) or error.status >= 500


def may_pass(error: ApiError) -> bool:
    """Whether a worker waits and sends the same again: it is passing, a key is being changed, or it was a proxy's."""
    strange = error.code.startswith("http_") and error.status not in OUR_FAULT
    return is_passing(error) or error.status in (401, 403) or strange
