"""Runs a LangGraph graph in an Abide agent: every superstep is a durable step, and every `interrupt()` asks people.

The graph's checkpoint is the result of each step, so there is no other place that has to be kept. A crash repeats the
superstep that was under way, and nothing before it.
"""

import asyncio
import base64
from typing import Any, Literal

from abide import Context
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.types import Command

Builder = StateGraph[Any, Any, Any, Any]


async def run_graph(
    ctx: Context, builder: Builder, inputs: dict[str, Any], *, idempotent: bool = False
) -> dict[str, Any]:
    """Runs a graph to its end, and gives its values.

    With `idempotent`, a superstep that a crash finds under way is done again; without, the run fails then, because
    nobody knows what it has done.
    """
    given: Any = inputs
    saved: list[str] | None = None
    while True:
        leg = await ctx.step("superstep", superstep, builder, given, saved, idempotent=idempotent)
        saved = leg["saved"]
        if leg["asks"]:
            answers = await asyncio.gather(*(ask(ctx, one["id"], one["value"]) for one in leg["asks"]))
            given = Command(resume={one["id"]: answer for one, answer in zip(leg["asks"], answers)})
        elif leg["next"]:
            given = None
        else:
            return dict(leg["values"])


async def ask(ctx: Context, interrupt_id: str, value: Any) -> Any:
    """Asks people what a node of the graph asks. What `interrupt()` returns in the node is their answer."""
    if isinstance(value, dict) and "question" in value:
        kind: Literal["choice", "text"] = "choice" if value.get("choices") else "text"
        context = {name: told for name, told in value.items() if name not in ("question", "choices")}
        return await ctx.request_input(value["question"], kind, value.get("choices"), context, key=interrupt_id)
    return await ctx.request_input(str(value), "text", key=interrupt_id)


def superstep(builder: Builder, given: Any, saved: list[str] | None) -> dict[str, Any]:
    """Takes the graph one superstep further, from where it was saved to where it is saved next."""
    saver = InMemorySaver()
    graph = builder.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "run", "checkpoint_ns": ""}}
    if saved is not None:
        load(saver, config, saved)
    graph.invoke(given, config, interrupt_after="*")
    state = graph.get_state(config)
    return {
        "saved": dump(saver, config),
        "next": list(state.next),
        "asks": [{"id": one.id, "value": one.value} for one in state.interrupts],
        # Values that are no JSON stay in the checkpoint: a graph's output should be plain.
        "values": {} if state.next else state.values,
    }


def dump(saver: InMemorySaver, config: Any) -> list[str]:
    """The last checkpoint as text."""
    last = saver.get_tuple(config)
    assert last is not None, "a graph that was invoked has a checkpoint"
    kind, data = saver.serde.dumps_typed((last.checkpoint, last.metadata, last.pending_writes))
    return [kind, base64.b64encode(data).decode()]


def load(saver: InMemorySaver, config: Any, saved: list[str]) -> None:
    """Puts a checkpoint back."""
    kind, data = saved
    checkpoint, metadata, writes = saver.serde.loads_typed((kind, base64.b64decode(data)))
    at = saver.put(config, checkpoint, metadata, checkpoint["channel_versions"])
    for task in dict.fromkeys(task for task, _, _ in writes):
        saver.put_writes(at, [(channel, value) for of, channel, value in writes if of == task], task)
