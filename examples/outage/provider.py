"""A stand-in for a provider of models. It speaks as OpenAI does, and plays the support desk by heart.

    python provider.py 9099 [--down]

`kill -USR1` takes it down, or up again: while it is down it answers 529.
"""

from __future__ import annotations

import http.server
import json
import signal
import sys
import threading
from typing import Any


class Provider(http.server.ThreadingHTTPServer):
    """The model, and whether it is down."""

    def __init__(self, port: int = 0, down: bool = False) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.down = down
        self.heard: list[str] = []

    @property
    def config(self) -> str:
        """What names it in an abide.toml."""
        url = f"http://127.0.0.1:{self.server_port}/v1"
        return f'[providers.main]\nkind = "openai"\nbase-url = "{url}"\nmodel = "stand-in"\n'

    def start(self) -> None:
        """Serves from a thread of its own."""
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    """One call of the model."""

    server: Provider

    def do_POST(self) -> None:
        """Answers what was said last."""
        messages = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"]
        self.server.heard.append(messages[-1]["role"])
        if self.server.down:
            return self.answer(529, json.dumps({"error": {"type": "overloaded_error", "message": "overloaded"}}))
        delta, end = play(messages)
        choices = [{"index": 0, "delta": delta, "finish_reason": end}]
        events: list[dict[str, Any]] = [{"model": "stand-in", "choices": choices}]
        events.append({"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 10}})
        lines = [json.dumps(event) for event in events] + ["[DONE]"]
        self.answer(200, "".join(f"data: {line}\n\n" for line in lines))

    def answer(self, status: int, body: str) -> None:
        """Sends it all at once."""
        self.send_response_only(status)
        self.send_header("content-length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def play(messages: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """What the model says next, and why it stops."""
    answered = [message["content"] for message in messages if message["role"] == "tool"]
    if not answered:
        return call("look_up", {"order": "A-17"}), "tool_calls"
    if len(answered) == 1:
        return call("refund", {"order": "A-17", "amount": 120}), "tool_calls"
    if "receipt" in answered[1]:
        return {"content": f"We have paid you back: {answered[1]}"}, "stop"
    return {"content": "I am sorry, we can't pay you back."}, "stop"


def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A call of a tool."""
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": f"call-{tool}", "type": "function", "function": function}]}


if __name__ == "__main__":
    provider = Provider(int(sys.argv[1]), "--down" in sys.argv)

    def turn(*_: object) -> None:
        """Down if it is up, up if it is down."""
        provider.down = not provider.down

    signal.signal(signal.SIGUSR1, turn)
    provider.serve_forever()
