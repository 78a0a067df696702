"""Runs a command, and again whenever a `.py` file below the working directory changes. For development."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

POLL_SECONDS = 0.4
STOP_SECONDS = 10.0
IGNORED = frozenset(("__pycache__", "node_modules", "site-packages", "venv"))


def watch(command: list[str]) -> int:
    """Runs a command until a signal ends it, or it ends well by itself."""
    child = subprocess.Popen(command)
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    seen = stamps(Path.cwd())
    passed = 0
    while True:
        while passed < len(signals):
            # A terminal sends an interrupt to the child as well.
            if signals[passed] != signal.SIGINT or passed > 0:
                child.send_signal(signals[passed])
            passed += 1
        if child.poll() is not None and (passed or child.returncode == 0):
            return child.returncode
        now = stamps(Path.cwd())
        if now != seen and not passed:
            changed = sorted(str(path) for path in now.keys() | seen.keys() if now.get(path) != seen.get(path))
            print(f"{changed[0]} changed; starting again", file=sys.stderr, flush=True)
            seen = now
            end(child)
            child = subprocess.Popen(command)
        time.sleep(POLL_SECONDS)


def end(child: subprocess.Popen[bytes]) -> None:
    """Drains a child, and kills it if that takes too long."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def stamps(root: Path) -> dict[str, int]:
    """When each file was changed."""
    found: dict[str, int] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in IGNORED and not name.startswith(".")]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                try:
                    found[os.path.relpath(path, root)] = os.stat(path).st_mtime_ns
                except OSError:
                    continue
    return found
