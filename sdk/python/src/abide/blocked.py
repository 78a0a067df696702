"""Notices code that blocks the event loop, which keeps all other tasks of the worker waiting."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable

from .execution import Execution

log = logging.getLogger("abide.worker")

BLOCKED_SECONDS = 5.0
"""After how long it is said that the loop is blocked."""


class Watch:
    """Looks from another thread whether a loop goes on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, held: Callable[[], Iterable[Execution]]) -> None:
        """Made in the loop's thread."""
        self._loop = loop
        self._thread = threading.get_ident()
        self._held = held
        self._asked: float | None = None
        self._told = False

    @property
    def pause(self) -> float:
        """How long to wait before looking again."""
        return BLOCKED_SECONDS / 4

    def look(self) -> None:
        """Asks the loop to answer, or says that it has not done so for long."""
        now, asked = time.monotonic(), self._asked
        if asked is None:
            self._asked, self._told = now, False
            try:
                self._loop.call_soon_threadsafe(self._answer)
            except RuntimeError:
                # It is closed.
                return
        elif now - asked > BLOCKED_SECONDS and not self._told:
            self._told = True
            log.warning(
                "%s blocks the event loop, for %.0f s so far%s; all other tasks of this worker wait. Await what takes "
                "long, or make the step a plain def, which runs in a thread",
                self._who(),
                now - asked,
                self._place(),
            )

    def _answer(self) -> None:
        self._asked = None

    def _who(self) -> str:
        """The run, the node and the step whose code runs at this moment."""
        try:
            task = asyncio.current_task(self._loop)
            for execution in list(self._held()):
                if task is not None and (task is execution.main or task in execution.tasks):
                    return execution.where(", ".join(sorted(execution.under_way)) or None)
        except RuntimeError:
            # It went on while this looked.
            pass
        return "something"

    def _place(self) -> str:
        frame = sys._current_frames().get(self._thread)
        return "" if frame is None else f" ({os.path.basename(frame.f_code.co_filename)}, line {frame.f_lineno})"
