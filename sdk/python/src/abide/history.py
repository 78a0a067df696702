"""What a task has recorded, and which of it the function has asked for since it began. Pure.

A function that waits is left, and runs from the top later. What it did before is known by *keys*, so each key must be
the same whenever the function runs. A step's key is its name; the second step of a name is `name#2`. Code that runs in
parallel is divided into *branches*, one for each asyncio task, and a branch counts for itself: `name@2` is that step in
the second branch. Which of two branches is faster therefore does not matter. Branches that a library begins have its
names, so that how many it begins does not matter either.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import AbideError, CodeChangedError

_BRANCH = re.compile(r"@((?:\w+-)?\d+(?:\.(?:\w+-)?\d+)*)(?:#\d+|:\d+)?$")


@dataclass(eq=False)
class Branch:
    """A part of a function that runs for itself; the whole function is the first, with an empty path."""

    path: str = ""
    uses: Counter[str] = field(default_factory=Counter)
    asks: int = 0
    children: Counter[str] = field(default_factory=Counter)
    promised: dict[int, Branch] = field(default_factory=dict)
    """The branches of coroutines that are begun together but in no order that holds, by their identities."""

    def child(self, name: str = "") -> Branch:
        """The next branch of a name that begins here. Those of user code have none, and are counted."""
        self.children[name] += 1
        number = f"{name}-{self.children[name]}" if name else str(self.children[name])
        return Branch(f"{self.path}.{number}" if self.path else number)

    def promise(self, coroutines: Iterable[Any], name: Callable[[Any], str]) -> None:
        """Has coroutines get their branches in this order, whichever is begun first."""
        for coroutine in coroutines:
            self.promised[id(coroutine)] = self.child(name(coroutine))

    def child_of(self, coroutine: Any, name: str) -> Branch:
        """The branch of a coroutine that begins here."""
        return self.promised.pop(id(coroutine), None) or self.child(name)


@dataclass(frozen=True)
class Asked:
    """By what a question is known: a key, or its number among those without one."""

    key: str | None
    call: int
    own: bool
    """Whether the key is one that the function chose."""

    @property
    def identity(self) -> tuple[str, str]:
        """What it is recorded under."""
        return ("ask", self.key if self.key is not None else f"call {self.call}")


class History:
    """The records of a task, and what was asked for."""

    def __init__(self, owner: str, items: Iterable[Mapping[str, Any]] = (), attempt: int = 1) -> None:
        self._owner = owner
        self._attempt = attempt
        self._items: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._unclaimed: dict[str, dict[tuple[str, str], None]] = {}
        # Records of earlier attempts. What failed then is done again and may end well, and the function may go another
        # way from there, so nothing of this has to be asked for.
        self._earlier: dict[str, set[tuple[str, str]]] = {}
        # Questions under keys that the function chose: which branch asked them is not known.
        self._keyed: set[tuple[str, str]] = set()
        self._used: set[str] = set()
        # Functions that are not async call from threads.
        self._lock = threading.Lock()
        self.extend(items)

    def extend(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Takes more records, before the function begins."""
        for item in items:
            self._take(item)

    def _take(self, item: Mapping[str, Any]) -> None:
        kind, key = str(item["kind"]), item.get("key")
        if kind == "begun":
            # What the server hands out again it has decided may be done again.
            return
        identity = (kind, f"call {item['call']}" if kind == "ask" and key is None else str(key))
        self._items[identity] = item
        branch = branch_of(kind, key, self._owner)
        # A server that does not say which attempt a record is of may mean an earlier one.
        if branch is not None and item.get("attempt", 1) < self._attempt:
            self._earlier.setdefault(branch, set()).add(identity)
        elif branch is not None:
            self._unclaimed.setdefault(branch, {})[identity] = None
        elif kind == "ask":
            self._keyed.add(identity)

    def key(self, branch: Branch, name: str) -> str:
        """The key of the next use of a name in a branch."""
        with self._lock:
            branch.uses[name] += 1
            use = branch.uses[name]
        place = f"@{branch.path}" if branch.path else ""
        return f"{name}{place}#{use}" if use > 1 else f"{name}{place}"

    def ask(self, branch: Branch, key: str | None) -> Asked:
        """By what the next question of a branch is known."""
        with self._lock:
            branch.asks += 1
            call = branch.asks
            used_before = key in self._used
            if key is not None:
                self._used.add(key)
        if key is not None:
            if used_before:
                raise AbideError(
                    f"a question with the key '{key}' was asked already, and would get the same answer: "
                    "give each its own key, as in f'review-{round}', or none"
                )
            return Asked(key, call, True)
        # The server counts for the whole task, so that only the first branch can leave it to that.
        return Asked(f"{self._owner}@{branch.path}:{call}" if branch.path else None, call, False)

    def claim(self, kind: str, key: str) -> Mapping[str, Any] | None:
        """What is recorded under a key, if anything is."""
        identity = (kind, key)
        with self._lock:
            for unclaimed in self._unclaimed.values():
                unclaimed.pop(identity, None)
            for earlier in self._earlier.values():
                earlier.discard(identity)
            self._keyed.discard(identity)
        return self._items.get(identity)

    def left(self, branch: Branch) -> int:
        """How much a branch has not yet asked for of what it recorded."""
        return len(self._unclaimed.get(branch.path, ()))

    def is_replaying(self, branch: Branch) -> bool:
        """Whether a branch has not yet come to where it was left."""
        return bool(self._unclaimed.get(branch.path))

    def was_past(self, branch: Branch) -> bool:
        """Whether a branch was further than here when it was left, itself or with a branch that began in it."""
        inside = f"{branch.path}." if branch.path else ""
        with self._lock:
            records = (*self._unclaimed.items(), *self._earlier.items())
            below = any(left and (path == branch.path or path.startswith(inside)) for path, left in records)
            # Which branch asked under a key that the function chose is not known, so it may have been this one.
            return below or bool(self._keyed)

    def check_new(self, branch: Branch, what: str, key: str, where: str) -> None:
        """Objects to something new in a branch that has records which were not asked for yet."""
        left = next(iter(self._unclaimed.get(branch.path, ())), None)
        if left is not None:
            raise CodeChangedError(
                f"{where}: the function asks for {what} '{key}', which is not recorded, but when it ran before it came "
                f"to {_named(left)} first. Its code has changed: let old runs go the old way with ctx.version, "
                "or start the run anew"
            )

    def namesake(self, key: str) -> str | None:
        """A step of the same name that is recorded of another branch and was not asked for yet, if there is one."""
        name = _name(key)
        with self._lock:
            left = [other for unclaimed in self._unclaimed.values() for kind, other in unclaimed if kind == "step"]
        return next((other for other in left if other != key and _name(other) == name), None)

    def check_end(self, where: str) -> None:
        """Objects to an end that leaves out what is recorded of the first branch."""
        left = next(iter(self._unclaimed.get("", ())), None)
        if left is not None:
            raise CodeChangedError(
                f"{where}: the function ends, but when it ran before it came to {_named(left)}. Its code has changed: "
                "let old runs go the old way with ctx.version, or start the run anew"
            )


def _name(key: str) -> str:
    """What the function called a step, whichever branch and use it was."""
    return re.sub(r"(?:@\d+(?:\.\d+)*)?(?:#\d+)?$", "", key)


def _named(identity: tuple[str, str]) -> str:
    kind, key = identity
    return f"question {key[5:]}" if kind == "ask" and key.startswith("call ") else f"{kind} '{key}'"


def branch_of(kind: str, key: Any, owner: str) -> str | None:
    """The path of the branch that a record is of; nothing, if that can't be told."""
    if kind == "version":
        # A version holds for the whole function, whoever asks first.
        return None
    if key is None:
        return ""
    if kind == "ask" and not str(key).startswith(f"{owner}@"):
        # The function chose this key, and may have asked in any branch.
        return None
    found = _BRANCH.search(str(key))
    return found.group(1) if found else ""
