"""The workflow of an agent: its node, and one that makes what it gives the run's `result`."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .policy import RetryPolicy

if TYPE_CHECKING:
    from .app import Kind

_TYPES: Mapping[Any, str] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
}


def of_agent(kind: Kind, agent: str) -> dict[str, Any]:
    """The definition that runs an agent with its parameters as inputs."""
    name = str(kind.agent)
    named = () if kind.takes_all else tuple(one for one in kind.parameters if one.kind is not one.VAR_KEYWORD)
    settings: dict[str, Any] = {"agent": agent}
    if kind.retry is not None:
        settings["retry"] = kind.retry.to_dict() if isinstance(kind.retry, RetryPolicy) else dict(kind.retry)
    summary = inspect.getdoc(kind.function)
    definition: dict[str, Any] = {
        "id": name,
        "name": name,
        "version": "1",
        "nodes": [
            {
                "id": name,
                "typeId": kind.kind,
                "name": name,
                "position": {"x": 0, "y": 0},
                "config": {},
                "inputs": {one.name: _input(one) for one in named},
                "settings": {"abide": settings},
            },
            {
                "id": "result",
                "typeId": "core.transform",
                "name": "result",
                "position": {"x": 200, "y": 0},
                "config": {"assign": {"result": f'nodes["{name}"].outputs'}},
                "inputs": {},
            },
        ],
        "edges": [{"id": "done", "sourceNodeId": name, "targetNodeId": "result"}],
        "triggers": [],
        "variables": [variable for one in named if (variable := _variable(one, kind.annotations))],
        "metadata": {},
        "settings": {},
    }
    if name == "result":
        definition["nodes"][1]["id"] = definition["edges"][0]["targetNodeId"] = "result-variable"
    if summary:
        definition["description"] = summary.splitlines()[0][:500]
    return definition


def agents_of(definition: Mapping[str, Any], kind: str) -> Iterator[str]:
    """The agents that a definition's nodes of a kind are for."""
    for node in (definition.get("definition") or definition).get("nodes") or ():
        agent = ((node.get("settings") or {}).get("abide") or {}).get("agent")
        if node.get("typeId") == kind and agent:
            yield str(agent)


def _input(parameter: inspect.Parameter) -> dict[str, Any]:
    source: dict[str, Any] = {"type": "variable", "variableName": parameter.name}
    if parameter.default is not parameter.empty:
        # The function's own default holds.
        source["optional"] = True
    return source


def _variable(parameter: inspect.Parameter, annotations: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the workflow says of a parameter; nothing, if it may be anything."""
    required = parameter.default is parameter.empty
    kind = _type(annotations.get(parameter.name))
    if kind is None:
        return None
    variable: dict[str, Any] = {"name": parameter.name, "type": kind}
    if required:
        variable["required"] = True
    return variable


def _type(annotation: Any) -> str | None:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        # Nothing at all is no value of any type, so it can't be declared.
        return None
    if origin is typing.Literal:
        return "string" if all(isinstance(one, str) for one in arguments) else None
    return _TYPES.get(origin or annotation)
