"""What a client says to an approval, as values: a decision, a vote, what to make better, or a question back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def decision(action: str, feedback: str | None = None, voter: str | None = None) -> dict[str, Any]:
    """Accepts or rejects, in one's own name or, if the key may, in another's."""
    return _said({"action": action, "feedback": feedback, "decidedBy": voter})


def refinement(
    text: str | None,
    *,
    tags: Iterable[str] = (),
    section: str | None = None,
    items: Iterable[str] = (),
    voter: str | None = None,
) -> dict[str, Any]:
    """What to make better: all of it, a section, or some items. It has to say something."""
    tags, items = list(tags), list(items)
    if not (text and text.strip()) and not tags:
        raise ValueError("say what to make better: give a text or tags")
    if section is not None and items:
        raise ValueError("what to make better is a section or some items, not both; make two refinements")
    scope = "section" if section is not None else "items" if items else "whole"
    feedback = _said(
        {"scope": scope, "sectionPath": section, "itemIds": items or None, "tags": tags or None, "text": text}
    )
    return _said({"action": "refine", "refineFeedback": feedback, "decidedBy": voter})


def edited(data: Any) -> dict[str, Any]:
    """Accepts with changes."""
    return {"action": "edit-accept", "editedArtifactData": data}


def asked(question: str) -> dict[str, Any]:
    """Asks something first. Nothing is decided by it."""
    if not question.strip():
        raise ValueError("say what you want to know")
    return {"action": "ask", "question": question}


def _said(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
