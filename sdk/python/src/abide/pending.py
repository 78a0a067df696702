"""What the methods of an async context give: coroutines that notice when somebody forgets to await them.

A coroutine is true, so `if ctx.approve(…)` without `await` would approve everything. These refuse to be true or false,
and a function can't end with one that nobody awaited.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from .errors import NotAwaitedError

if TYPE_CHECKING:
    from .execution import Execution

T = TypeVar("T")


class Pending(Coroutine[Any, Any, T]):
    """A call of a context that is to be awaited."""

    def __init__(self, execution: Execution, call: str, work: Coroutine[Any, Any, T]) -> None:
        self.call = call
        """As it is written in the function, for people."""
        self._execution = execution
        self._work: Any = work
        self.__name__ = self.__qualname__ = call
        execution.not_awaited[id(self)] = self

    def __bool__(self) -> bool:
        raise NotAwaitedError(self.call)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"what is not awaited has no '{name}': write await {self.call}", name=name, obj=self)

    def __repr__(self) -> str:
        return f"<{self.call}, not awaited>"

    def __await__(self) -> Generator[Any, Any, T]:
        # It stands for its coroutine itself, so that who looks what a task waits for finds the way.
        self._taken()
        stand_in: Any = self
        return stand_in  # type: ignore[no-any-return]

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Goes on, as a coroutine does."""
        self._taken()
        return self._work.send(value)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> Any:
        """Raises in it, as in a coroutine."""
        self._taken()
        if value is None and trace is None:
            return self._work.throw(kind)
        return self._work.throw(kind, value, trace)

    def close(self) -> None:
        """Ends it. Who does that has not forgotten it."""
        self._taken()
        self._work.close()

    def _taken(self) -> None:
        self._execution.not_awaited.pop(id(self), None)

    # What is known of a coroutine.

    @property
    def cr_await(self) -> Any:
        """What it waits for."""
        return self._work.cr_await

    @property
    def cr_code(self) -> CodeType:
        """Its code."""
        code: CodeType = self._work.cr_code
        return code

    @property
    def cr_frame(self) -> FrameType | None:
        """Its frame."""
        frame: FrameType | None = self._work.cr_frame
        return frame

    @property
    def cr_running(self) -> bool:
        """Whether it runs at this moment."""
        return bool(self._work.cr_running)
