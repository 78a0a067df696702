"""`abide-worker module:app`: does an app's work until it is told to stop."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import traceback
from typing import Any

from . import reload
from ._version import __version__
from .agent import BaseAgent
from .app import App
from .errors import AbideError, ApiError, UnreachableError
from .session import CAPACITY, IN_PLACE_SECONDS, Worker, run

OK, REFUSED, USAGE, UNREACHABLE = 0, 1, 2, 3
"""The exit codes, the same as those of `abide`."""


class Refusal(Exception):
    """Why the worker does not start, for whoever started it."""

    def __init__(self, message: str, code: int = REFUSED) -> None:
        super().__init__(message)
        self.code = code


def main(arguments: list[str] | None = None) -> int:
    """Runs the command, and gives its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(given)
    _log(options.log)
    try:
        if options.reload:
            return reload.watch([sys.executable, "-m", "abide.worker", *_without_reload(given)])
        _work(options)
    except Refusal as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return refusal.code
    except KeyboardInterrupt:
        return REFUSED
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="abide-worker",
        description="Does the work of an app: takes tasks from an Abide server, and does them.",
    )
    parser.add_argument("app", help="where the app is: module:name, as in refunds:app")
    parser.add_argument("--url", help="address of the server [ABIDE_URL, http://127.0.0.1:7171]")
    parser.add_argument("--api-key", help="key for it, with the scope work:perform [ABIDE_API_KEY]")
    parser.add_argument("--capacity", type=int, default=CAPACITY, help="tasks at the same time [%(default)s]")
    parser.add_argument(
        "--in-place",
        type=float,
        default=IN_PLACE_SECONDS,
        metavar="SECONDS",
        help="how long a function that waits is kept before it is left [%(default)s]",
    )
    parser.add_argument("--reload", action="store_true", help="start again whenever a .py file changes")
    parser.add_argument("--log", default="info", choices=["debug", "info", "warning", "error"], help="[%(default)s]")
    parser.add_argument("--version", action="version", version=f"abide-worker {__version__}")
    return parser


def _without_reload(given: list[str]) -> list[str]:
    return [one for one in given if one != "--reload"]


def _log(level: str) -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr
    )
    logging.getLogger("abide").setLevel(level.upper())
    logging.getLogger("httpx2").setLevel(logging.WARNING)


def _work(options: argparse.Namespace) -> None:
    app = find(options.app)
    if not app.kinds:
        raise Refusal(f"'{options.app}' does no work: it has no @app.agent and no @app.node", USAGE)
    try:
        worker = Worker(
            app, url=options.url, api_key=options.api_key, capacity=options.capacity, in_place=options.in_place
        )
        worker.greeting = True
        run(worker)
    except UnreachableError as error:
        message = f"{error}\n  Start one with `abide dev`, or say where it is: --url, or ABIDE_URL."
        raise Refusal(message, UNREACHABLE) from error
    except ApiError as error:
        raise Refusal(_explained(error, options)) from error
    except (AbideError, ValueError) as error:
        raise Refusal(str(error), USAGE) from error


def _explained(error: ApiError, options: argparse.Namespace) -> str:
    if error.status == 401:
        given = options.api_key or os.environ.get("ABIDE_API_KEY")
        wrong = "The key is not one of this server's" if given else "There is no key"
        return f"{error}\n  {wrong}: set ABIDE_API_KEY, or use --api-key. `abide dev` prints one when it starts."
    if error.status == 403:
        return f"{error}\n  The key may not do this work; it needs the scope work:perform."
    if error.status == 404:
        return f"{error}\n  The server has no workers' protocol; it is older than this SDK ({__version__})."
    return str(error)


def find(where: str) -> App:
    """The app that `module:name` names: an app, or an agent that is written as a class."""
    module_name, colon, name = where.partition(":")
    if not colon or not module_name or not name:
        raise Refusal(f"'{where}' does not name an app; write module:name, as in refunds:app", USAGE)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found: Any = _import(module_name.removesuffix(".py").replace("/", "."))
    for part in name.split("."):
        if not hasattr(found, part):
            raise Refusal(f"module '{module_name}' has no '{part}'{_others(found)}", USAGE)
        found = getattr(found, part)
    if isinstance(found, App):
        return found
    if _is_agent(found):
        return App.of(found)
    raise Refusal(f"'{where}' is a {type(found).__name__}, not an App", USAGE)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise Refusal(f"there is no module '{name}' in {os.getcwd()} or where Python looks", USAGE) from error
        raise Refusal(f"module '{name}' needs '{error.name}', which is not installed", USAGE) from error
    except Exception as error:
        told = "".join(traceback.format_exception(error, limit=-3)).rstrip()
        raise Refusal(f"module '{name}' can't be imported:\n{told}", USAGE) from error


def _others(module: Any) -> str:
    apps = [name for name, value in vars(module).items() if isinstance(value, App)]
    if apps:
        return f"; its apps are: {', '.join(apps)}"
    classes = [name for name, value in vars(module).items() if _is_agent(value) and value is not BaseAgent]
    return (
        f"; it has no app, but these agents can be named: {', '.join(classes)}" if classes else "; it has no app at all"
    )


def _is_agent(value: Any) -> bool:
    return isinstance(value, BaseAgent) or (isinstance(value, type) and issubclass(value, BaseAgent))
