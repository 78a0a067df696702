"""The requests of the worker protocol over HTTP. It sends each once; who calls decides what a failure means."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2

from .connection import STRANGE, Connection, refusal, refused
from .protocol import Registered, Registration

REQUEST_SECONDS = 60.0
"""How long an answer may take. A commit of a busy server takes a while; a dead one is noticed by its connection."""


class Link:
    """A worker's way to its server."""

    def __init__(
        self, connection: Connection, session: str, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self.connection = connection
        self.last_sent = time.monotonic()
        """When something was sent last, which is as good as a heartbeat."""
        self._path = f"/v1/workers/{session}"
        self._http = httpx2.AsyncClient(
            base_url=connection.url,
            headers=connection.headers,
            timeout=httpx2.Timeout(REQUEST_SECONDS, connect=10.0),
            transport=transport,
        )

    async def register(self, registration: Registration, holding: list[tuple[str, int]]) -> Registered:
        """Says who the worker is, and what it holds."""
        answer = await self._send("POST", "/v1/workers", json.dumps(registration.body(holding)).encode())
        return Registered.read(answer)

    async def poll(self, after: int, limit: int, wait_ms: int) -> tuple[list[Mapping[str, Any]], int]:
        """Messages after one, and the number to go on from. It waits until there are some."""
        body = json.dumps({"after": after, "max": limit, "waitMs": wait_ms}).encode()
        answer = await self._send("POST", f"{self._path}:poll", body, seconds=wait_ms / 1000 + REQUEST_SECONDS)
        return answer["messages"], answer["at"]

    async def ops(self, ops: list[bytes]) -> list[Mapping[str, Any]]:
        """Sends ops, each of them JSON already."""
        answer = await self._send("POST", f"{self._path}/ops", b'{"ops":[' + b",".join(ops) + b"]}")
        results: list[Mapping[str, Any]] = (answer or {}).get("results") or []
        if len(results) != len(ops):
            raise refused(STRANGE, "the answer is not to what was sent", 502)
        return results

    async def history(self, task: str, after: str) -> tuple[list[Mapping[str, Any]], str | None]:
        """The next part of a task's history."""
        path = f"{self._path}/tasks/{quote(task, safe='')}/history?after={quote(str(after), safe='')}"
        answer = await self._send("GET", path)
        return answer["items"], answer.get("next")

    async def push(self, workflow_id: str, definition: Mapping[str, Any]) -> Mapping[str, Any]:
        """Pushes a workflow."""
        path = f"/v1/workflows/{quote(workflow_id)}"
        answer: Mapping[str, Any] = await self._send("PUT", path, json.dumps(definition).encode())
        return answer

    async def workflow(self, workflow_id: str, version: int) -> Mapping[str, Any]:
        """A workflow, as it was pushed."""
        answer: Mapping[str, Any] = await self._send("GET", f"/v1/workflows/{quote(workflow_id)}?version={version}")
        return answer

    async def drain(self) -> None:
        """Asks for no more tasks."""
        await self._send("POST", f"{self._path}:drain", b"{}")

    async def leave(self) -> None:
        """Gives up the session. What it still holds is lost at once."""
        await self._send("DELETE", self._path, seconds=5.0)

    async def close(self) -> None:
        """Closes the connections."""
        with contextlib.suppress(Exception):
            await self._http.aclose()

    async def _send(
        self, method: str, path: str, body: bytes | None = None, *, seconds: float = REQUEST_SECONDS
    ) -> Any:
        self.last_sent = time.monotonic()
        response = await self._http.request(
            method,
            path,
            content=body,
            headers={"Content-Type": "application/json"} if body is not None else None,
            timeout=httpx2.Timeout(seconds, connect=10.0),
        )
        if response.status_code >= 300:
            raise refusal(response)
        try:
            return response.json() if response.content else None
        except ValueError:
            # Something between answers in the server's place.
            raise refused(STRANGE, "the answer is not the server's", 502) from None


class Heartbeat:
    """Heartbeats from a thread of its own, so that code which blocks the event loop does not lose its lease."""

    def __init__(self, connection: Connection, session: str) -> None:
        self._http = httpx2.Client(base_url=connection.url, headers=connection.headers, timeout=10.0)
        self._path = f"/v1/workers/{session}/ops"

    def beat(self) -> None:
        """Sends one. Whether it arrives shows in what is sent otherwise."""
        with contextlib.suppress(httpx2.HTTPError):
            self._http.post(self._path, json={"ops": []})

    def close(self) -> None:
        """Closes the connection."""
        self._http.close()
