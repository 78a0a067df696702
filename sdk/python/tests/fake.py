"""A server in memory for what a real one can't be made to do on purpose: lose answers, forget sessions, be slow.

It knows one task and just enough of the protocol. Everything else is tested against the real server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from abide import App, Worker


class Fake:
    """One task, its records, and a log of all ops."""

    def __init__(self, kind: str, inputs: Mapping[str, Any] | None = None) -> None:
        self.kind = kind
        self.inputs = dict(inputs or {})
        self.fence = 1
        self.history: list[dict[str, Any]] = []
        self.answers: dict[str, dict[str, Any]] = {}
        self.ops: list[dict[str, Any]] = []
        self.requests: list[tuple[str, Any]] = []
        self.ended: dict[str, Any] | None = None
        self.parks = 0
        self.messages: list[dict[str, Any]] = []
        self.sessions: set[str] = set()
        self.interfere: Callable[[str, Any], httpx2.Response | Exception | None] = lambda path, body: None
        self.lose_answer: Callable[[str, Any], bool] = lambda path, body: False
        self._news = asyncio.Event()

    def offer(self) -> None:
        self.say(
            type="task",
            task="t",
            fence=self.fence,
            runId="run-1",
            nodeId="work",
            kind=self.kind,
            execution=1,
            attempt=1,
            inputs=self.inputs,
            config={},
            run={"workflowId": "w", "inputs": {}, "tags": [], "metadata": {}},
            history={"items": list(self.history), "next": None},
        )

    def say(self, **message: Any) -> None:
        self.messages.append({"n": len(self.messages) + 1, **message})
        self._news.set()

    def answer(self, which: str, value: Any) -> None:
        """Answers a question, by its key or number."""
        self.answers[which] = {"state": "answered", "interruptId": f"int-{which}", "value": value, "by": "ada"}
        if self.parks and not any(message.get("fence") == self.fence + 1 for message in self.messages):
            self.fence += 1
            self.offer()
        else:
            self.say(type="wake", task="t", fence=self.fence)

    def worker(self, app: App, **options: Any) -> Worker:
        transport = httpx2.MockTransport(self._handle)
        return Worker(app, url="http://fake", push=False, transport=transport, **{"in_place": 0.01, **options})

    async def _handle(self, request: httpx2.Request) -> httpx2.Response:
        path, body = request.url.path, json.loads(request.content or b"null")
        self.requests.append((path, body))
        interference = self.interfere(path, body)
        if isinstance(interference, Exception):
            raise interference
        if interference is not None:
            return interference
        answer = await self._answer(path, body, request.method)
        if self.lose_answer(path, body):
            raise httpx2.ReadError("the connection broke", request=request)
        return answer

    async def _answer(self, path: str, body: Any, method: str) -> httpx2.Response:
        if path == "/v1/workers":
            self.sessions.add(body["session"])
            return httpx2.Response(200, json={"leaseMs": 30000, "heartbeatMs": 10000, "lost": []})
        if method == "DELETE":
            return httpx2.Response(200, json={})
        if path.rpartition("/")[2].split(":")[0] not in self.sessions and path.split("/")[3] not in self.sessions:
            return httpx2.Response(404, json={"error": "worker_unknown", "message": "register"})
        if path.endswith(":poll"):
            return await self._poll(body["after"])
        if path.endswith("/ops"):
            return httpx2.Response(200, json={"results": [self._op(op) for op in body["ops"]]})
        return httpx2.Response(200, json={})

    async def _poll(self, after: int) -> httpx2.Response:
        while len(self.messages) <= after:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), 10)
            except TimeoutError:
                break
        return httpx2.Response(200, json={"messages": self.messages[after:], "at": len(self.messages)})

    def _op(self, op: dict[str, Any]) -> dict[str, Any]:
        self.ops.append(op)
        if op.get("fence") not in (None, self.fence) or self.ended is not None:
            return {"ok": False, "error": {"code": "stale_fence", "message": "stale", "status": 409}}
        return {"ok": True, **getattr(self, f"_{op['op']}", lambda op: {})(op)}

    def _recorded(self, kind: str, key: str) -> dict[str, Any] | None:
        return next((item for item in self.history if item["kind"] == kind and item.get("key") == key), None)

    def _step(self, op: dict[str, Any]) -> dict[str, Any]:
        before = self._recorded("step", op["key"])
        if before is None:
            outcome: dict[str, Any] = {name: op[name] for name in ("value", "error") if name in op}
            self.history.append({"kind": "step", "key": op["key"], **outcome})
        return {**(before or op), "repeated": before is not None, "op": None}

    def _ask(self, op: dict[str, Any]) -> dict[str, Any]:
        which = op["key"] or str(op["call"])
        item = {"kind": "ask", "key": op["key"], "call": op["call"]}
        if item not in self.history:
            self.history.append(item)
        return self.answers.get(which) or {"state": "open", "interruptId": f"int-{which}"}

    def _version(self, op: dict[str, Any]) -> dict[str, Any]:
        version = 0 if op["old"] else op["version"]
        self.history.append({"kind": "version", "key": op["key"], "version": version})
        return {"version": version}

    def _park(self, op: dict[str, Any]) -> dict[str, Any]:
        come = any(wait["interrupt"].removeprefix("int-") in self.answers for wait in op["waits"])
        if not come:
            self.parks += 1
        return {"parked": not come}

    def _complete(self, op: dict[str, Any]) -> dict[str, Any]:
        self.ended = op
        return {}

    def _fail(self, op: dict[str, Any]) -> dict[str, Any]:
        self.ended = op
        return {"retryAt": None}
