"""A provider of models that does as it is told. It speaks as OpenAI does, on loopback."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Busy:
    """It can't answer now."""

    status: int = 529
    message: str = "overloaded"


@dataclass(frozen=True)
class Calls:
    """The model calls a tool."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)


Answer = str | Busy | Calls


class Provider:
    """Gives one scripted answer after the other, and keeps what it was asked."""

    def __init__(self, *script: Answer) -> None:
        self.script = list(script)
        self.asked: list[dict[str, Any]] = []
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                provider.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                answer = provider.script.pop(0) if provider.script else Busy()
                if isinstance(answer, Busy):
                    body, kind, status = (
                        json.dumps({"error": {"message": answer.message}}),
                        "application/json",
                        answer.status,
                    )
                else:
                    body, kind, status = "".join(stream(answer)), "text/event-stream", 200
                self.send_response_only(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def config(self) -> str:
        """What names it in an abide.toml."""
        url = f"http://127.0.0.1:{self._server.server_port}/v1"
        return (
            f'[providers.main]\nkind = "openai"\nbase-url = "{url}"\nmodel = "small"\n'
            '[providers.main.prices."small"]\ninput = 2.0\noutput = 4.0\n'
        )


def stream(answer: str | Calls) -> Iterator[str]:
    """The events of an answer."""

    def event(delta: dict[str, Any], reason: str | None = None, **more: Any) -> str:
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
        return f"data: {json.dumps({'model': 'small', 'choices': choices, **more})}\n\n"

    if isinstance(answer, str):
        for word in answer.splitlines(keepends=True):
            yield event({"content": word})
        yield event({}, "stop")
    else:
        function = {"name": answer.tool, "arguments": json.dumps(answer.arguments)}
        yield event({"tool_calls": [{"index": 0, "id": "call-1", "type": "function", "function": function}]})
        yield event({}, "tool_calls")
    yield f"data: {json.dumps({'choices': [], 'usage': {'prompt_tokens': 10, 'completion_tokens': 5}})}\n\n"
    yield "data: [DONE]\n\n"
