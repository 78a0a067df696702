"""What the tests with OpenIntent's own SDK have in common: how they are told where the server is, how they ask it where
the SDK has no method, and how they count what holds.

Each of them runs as `python <file> BASE_URL API_KEY`, prints a line for each check and one that counts them, and ends
with 1 if something does not hold.
"""

import contextlib
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import httpx
from openintent import OpenIntentClient, OpenIntentError

# Nobody has this one.
NO_INTENT = "00000000-0000-7000-8000-000000000000"

# How long something may take that has to come.
PATIENCE = 120.0


# What says nothing about what was tried, if it is named as the place where it failed.
HELPERS = {
    "call",
    "caught",
    "refusal",
    "bad",
    "gone",
    "stale",
    "unknown",
    "eventually",
    "ask",
    "get",
    "post",
    "respond",
    "_look",
}


class Report:
    """Counts what holds."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    @contextlib.contextmanager
    def check(self, name: str) -> Iterator[None]:
        """Something that has to hold; what does not is told, and the next thing is tried."""
        try:
            yield
        except Exception as error:
            self.failed += 1
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if "openintent_" in frame.filename and frame.name not in HELPERS]
            line = (own or list(frames))[-1]
            said = getattr(error, "response", None)
            said = "" if said is None else f" {said}"
            print(f"FAIL {name}: {type(error).__name__}: {error}{said} [line {line.lineno}: {line.line}]", flush=True)
        else:
            self.passed += 1
            print(f"ok   {name}", flush=True)

    def end(self) -> None:
        """Counts, and ends the program."""
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        sys.exit(1 if self.failed or not self.passed else 0)


class Wire:
    """The server, asked without the SDK."""

    def __init__(self, url: str, key: str, agent: str | None = None) -> None:
        headers = {"X-API-Key": key} | ({"X-Agent-ID": agent} if agent else {})
        self.url = url
        self.key = key
        self.http = httpx.Client(base_url=url, headers=headers, timeout=30.0)

    def ask(self, method: str, path: str, status: int = 200, **options: Any) -> Any:
        """What the server answers, which has to be of this status."""
        got = self.http.request(method, path, **options)
        assert got.status_code == status, f"{method} {path}: {got.status_code} {got.text}, not {status}"
        return got.json() if got.content else None

    def get(self, path: str, status: int = 200, **options: Any) -> Any:
        return self.ask("GET", path, status, **options)

    def post(self, path: str, body: Any, status: int = 200, **options: Any) -> Any:
        return self.ask("POST", path, status, json=body, **options)

    def respond(self, intent: str, suspension: str, value: Any, status: int = 200, **more: Any) -> Any:
        """Answers what an intent waits for: the SDK has no method for it."""
        body = {"suspension_id": suspension, "value": value, **more}
        return self.post(f"/api/v1/intents/{intent}/suspend/respond", body, status)

    def advance(self, seconds: float) -> None:
        """Moves the test clock."""
        self.post("/v1/dev/clock", {"advanceMs": round(seconds * 1000)})

    def now(self) -> int:
        """What the server's clock says, in milliseconds."""
        return int(self.get("/v1/dev/clock")["nowMs"])


def caught(call: Callable[[], Any], *kinds: type[BaseException]) -> Any:
    """The exception that a call ends with."""
    try:
        got = call()
    except kinds as error:
        return error
    raise AssertionError(f"{got!r} instead of a refusal")


def refusal(call: Callable[[], Any], kind: type[BaseException], status: int | None = None) -> Any:
    """The error that a call has to end with: of this very class, with an object in which the reason stands."""
    error = caught(call, OpenIntentError, kind)
    body = getattr(error, "response", None)
    assert type(error) is kind, f"{type(error).__name__} instead of {kind.__name__}: {body}"
    if status is not None:
        assert error.status_code == status, f"{error.status_code}: {body}"
        assert isinstance(body, dict), body
        assert all(body.get(key) for key in ("error", "message", "detail")), body
    return error


def eventually(what: str, look: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """What is seen as soon as it is anything."""
    until = time.monotonic() + patience
    while not (seen := look()):
        assert time.monotonic() < until, f"{what}: {seen!r}"
        time.sleep(0.02)
    return seen


def record(suspension: str, **fields: Any) -> dict[str, Any]:
    """What somebody is asked, as an agent writes it."""
    plain = {
        "id": suspension,
        "question": "Go on?",
        "response_type": "choice",
        "choices": [
            {"value": "yes", "label": "Yes", "description": "We go on."},
            {"value": "no", "label": "No"},
        ],
        "context": {},
        "fallback_policy": "fail",
    }
    # What is given as None is left out.
    return {key: value for key, value in (plain | fields).items() if value is not None}


def arguments() -> tuple[str, str]:
    """Where the server is, and the key to it."""
    if len(sys.argv) < 3:
        sys.exit("give BASE_URL and API_KEY")
    return sys.argv[1].rstrip("/"), sys.argv[2]


def client(agent: str, key: str | None = None) -> OpenIntentClient:
    """The SDK's own client for an agent."""
    url, own = arguments()
    return OpenIntentClient(url, key or own, agent)
