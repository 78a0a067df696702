"""What both contexts have in common: what a function may know of its task, and what it may say without waiting."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from . import asks
from .engagement import EngagementSignals
from .execution import BRANCH, Execution
from .history import Branch
from .policy import FallbackPolicy, HumanRetryPolicy
from .report import printable
from .suspension import Choice, Intent, ResponseType

said = logging.getLogger("abide.run")

LINE_CHARS_MAX = 4_000
LINE_BYTES_MAX = 8_000

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True)
class Refinement:
    """What people want made better, and of what."""

    feedback: Mapping[str, Any]
    previous: Any = None

    @property
    def text(self) -> str | None:
        """What they said."""
        return self.feedback.get("text")

    @property
    def tags(self) -> tuple[str, ...]:
        """What they chose to say it by."""
        return tuple(self.feedback.get("tags") or ())


class Facts:
    """What is known of a task, and the questions that can be asked in it."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    @property
    def run_id(self) -> str:
        """The run."""
        return self._execution.task.run_id

    @property
    def node_id(self) -> str:
        """The node whose work this is."""
        return self._execution.task.node_id

    @property
    def workflow_id(self) -> str:
        """The workflow of the run."""
        return self._execution.task.run.workflow_id

    @property
    def execution(self) -> int:
        """Which execution of the node this is, counted from 1: loops raise it."""
        return self._execution.task.execution

    @property
    def attempt(self) -> int:
        """Which attempt of the execution this is, counted from 1."""
        return self._execution.task.attempt

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The node's inputs."""
        return self._execution.task.inputs

    @property
    def refinement(self) -> Refinement | None:
        """What people want made better of what the last execution made, if this one is to make it."""
        inputs = self._execution.task.inputs
        feedback = inputs.get("refineFeedback")
        return None if feedback is None else Refinement(feedback, inputs.get("previousArtifact"))

    @property
    def config(self) -> Mapping[str, Any]:
        """The node's config."""
        return self._execution.task.config

    @property
    def run_inputs(self) -> Mapping[str, Any]:
        """What the run was started with."""
        return self._execution.task.run.inputs

    @property
    def tags(self) -> tuple[str, ...]:
        """The run's tags."""
        return self._execution.task.run.tags

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The run's metadata."""
        return self._execution.task.run.metadata

    @property
    def is_replaying(self) -> bool:
        """Whether the function has not yet come to where it was left."""
        return self._execution.history.was_past(self._branch())

    def idempotency_key(self, step: str) -> str:
        """A key for a step that is the same whenever the function runs: hand it to those who can tell repeats."""
        return f"{self.run_id}/{self._execution.task.owner}/{step}"

    def log(self, message: str, *, level: str = "info") -> None:
        """Adds a line to the run's log: once, however often the function runs."""
        if level not in LEVELS:
            raise ValueError(f"there is no level '{level}'; use {', '.join(LEVELS)}")
        if self.is_replaying:
            return
        said.log(LEVELS[level], "%s: %s", self._execution.task.where, message)
        line = printable(message)[:LINE_CHARS_MAX].encode()[:LINE_BYTES_MAX].decode(errors="ignore")
        self._execution.tell("note", lines=[{"level": level, "message": line}])

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Says how far the work is."""
        if self.is_replaying:
            return
        told = {"done": done, "total": total, "message": message}
        self._execution.tell("note", progress={name: value for name, value in told.items() if value is not None})

    def _branch(self) -> Branch:
        here = BRANCH.get()
        return here[1] if here is not None and here[0] is self._execution else self._execution.root

    def _key(self, name: str) -> tuple[Branch, str]:
        self._execution.check()
        branch = self._branch()
        return branch, self._execution.history.key(branch, name)

    @property
    def _intent(self) -> Intent:
        return Intent(self.run_id, self.node_id, self._execution.app.name)

    @property
    def _policy(self) -> HumanRetryPolicy | None:
        return self._execution.kind.human_retry_policy

    def _asked(self, key: str | None) -> tuple[Branch, Any, bool]:
        """By what the next question is known, and whether it was asked before."""
        self._execution.check()
        branch = self._branch()
        asked = self._execution.history.ask(branch, key)
        return branch, asked, self._execution.history.claim(*asked.identity) is not None

    def _signals(
        self,
        signals: EngagementSignals | None,
        confidence: float | None,
        risk: float | None,
        reversibility: float | None,
        context: Mapping[str, Any] | None,
    ) -> EngagementSignals:
        if signals is not None:
            return signals
        return EngagementSignals(
            1.0 if confidence is None else confidence,
            0.0 if risk is None else risk,
            1.0 if reversibility is None else reversibility,
            context or {},
        )

    def _interrupt_question(
        self,
        asked: Any,
        kind: str,
        data: Any,
        schema: Mapping[str, Any] | None,
        timeout: float | timedelta | None,
        respondents: Iterable[str] | None,
        ladder: asks.Ladder,
    ) -> asks.Question:
        return asks.interrupt(
            asked,
            kind,
            data,
            schema=schema,
            timeout=timeout,
            ladder=ladder.to_dict(self._policy),
            respondents=respondents,
        )

    def _request_question(
        self,
        asked: Any,
        question: str,
        response_type: ResponseType,
        choices: Iterable[Choice | Mapping[str, Any] | str] | None,
        context: Mapping[str, Any] | None,
        respondents: Iterable[str] | None,
        ladder: asks.Ladder,
    ) -> asks.Question:
        told = ladder.to_dict(self._policy)
        return asks.request(asked, question, response_type, choices, context, told, respondents)


__all__ = ["Facts", "FallbackPolicy"]
