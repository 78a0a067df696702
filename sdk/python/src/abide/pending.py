"""Coroutines that stand for others: one that can't end the worker, and one that notices if it is not awaited.

A coroutine is true, so `if ctx.approve(…)` without `await` would approve everything. What the methods of an async
context give refuses to be true or false, and a function can't end with one that nobody awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from .errors import ExitError, NotAwaitedError

if TYPE_CHECKING:
    from .execution import Execution

T = TypeVar("T")

EXITS = (SystemExit, KeyboardInterrupt)
"""What asyncio ends a loop for, and with it all that the worker does for others."""


class Contained(Coroutine[Any, Any, T]):
    """A coroutine that fails when it wants to end the process."""

    def __init__(self, work: Coroutine[Any, Any, T], name: str | None = None) -> None:
        self._work: Any = work
        self.__name__ = name or getattr(work, "__name__", type(work).__name__)
        self.__qualname__ = name or getattr(work, "__qualname__", self.__name__)

    def __await__(self) -> Generator[Any, Any, T]:
        # It stands for its coroutine itself, so that who looks what a task waits for finds the way.
        stand_in: Any = self
        return stand_in  # type: ignore[no-any-return]

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Goes on, as a coroutine does."""
        return _contained(self._work.send, value)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> Any:
        """Raises in it, as in a coroutine."""
        raised = (kind,) if value is None and trace is None else (kind, value, trace)
        return _contained(self._work.throw, *raised)

    def close(self) -> None:
        """Ends it."""
        self._work.close()

    @property
    def cr_await(self) -> Any:
        """What it waits for."""
        return getattr(self._work, "cr_await", None)

    @property
    def cr_code(self) -> CodeType | None:
        """Its code."""
        return getattr(self._work, "cr_code", None)

    @property
    def cr_frame(self) -> FrameType | None:
        """Its frame."""
        return getattr(self._work, "cr_frame", None)

    @property
    def cr_running(self) -> bool:
        """Whether it runs at this moment."""
        return bool(getattr(self._work, "cr_running", False))


def _contained(go_on: Callable[..., Any], *told: Any) -> Any:
    try:
        return go_on(*told)
    except EXITS as error:
        raise ExitError(error) from error


class Pending(Contained[T]):
    """A call of a context that is to be awaited."""

    def __init__(self, execution: Execution, call: str, work: Coroutine[Any, Any, T]) -> None:
        super().__init__(work, call)
        self.call = call
        """As it is written in the function, for people."""
        self._execution = execution
        execution.not_awaited[id(self)] = self

    def __bool__(self) -> bool:
        raise NotAwaitedError(self.call)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"what is not awaited has no '{name}': write await {self.call}", name=name, obj=self)

    def __repr__(self) -> str:
        return f"<{self.call}, not awaited>"

    def __await__(self) -> Generator[Any, Any, T]:
        self._taken()
        return super().__await__()

    def send(self, value: Any) -> Any:
        """Goes on, as a coroutine does."""
        self._taken()
        return super().send(value)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> Any:
        """Raises in it, as in a coroutine."""
        self._taken()
        return super().throw(kind, value, trace)

    def close(self) -> None:
        """Ends it. Who does that has not forgotten it."""
        self._taken()
        super().close()

    def _taken(self) -> None:
        self._execution.not_awaited.pop(id(self), None)
