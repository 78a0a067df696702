"""A LangGraph agent that drafts a letter, lets two people look at it at once, and sends it."""

import operator
from typing import Annotated, Any, TypedDict

from abide import App, Context
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from durable_graph import run_graph


class Letter(TypedDict):
    """What the nodes of the graph hand on."""

    customer: str
    draft: str
    remarks: Annotated[list[str], operator.add]
    sent: bool


def draft(state: Letter) -> dict[str, Any]:
    """A model would be asked here."""
    return {"draft": f"Dear {state['customer']}, your parcel is late."}


def check_tone(state: Letter) -> dict[str, Any]:
    verdict = interrupt({"question": "Is the tone right?", "choices": ["yes", "no"], "draft": state["draft"]})
    return {"remarks": [f"tone: {verdict}"]}


def check_facts(state: Letter) -> dict[str, Any]:
    remark = interrupt({"question": "Which facts are missing?", "draft": state["draft"]})
    return {"remarks": [f"facts: {remark}"]}


def send(state: Letter) -> dict[str, Any]:
    """An effect: it is counted, so that one can see that it happens once."""
    if "tone: no" in state["remarks"]:
        return {"sent": False}
    with open("sent.txt", "a") as sent:
        print(state["draft"], sorted(state["remarks"]), file=sent)
    return {"sent": True}


builder = StateGraph(Letter)
for node in (draft, check_tone, check_facts, send):
    builder.add_node(node.__name__, node)
builder.add_edge(START, "draft")
builder.add_edge("draft", "check_tone")
builder.add_edge("draft", "check_facts")
builder.add_edge(["check_tone", "check_facts"], "send")
builder.add_edge("send", END)

app = App("mailer")


@app.agent("letter")
async def letter(ctx: Context, customer: str) -> dict[str, Any]:
    values = await run_graph(ctx, builder, {"customer": customer, "remarks": [], "sent": False})
    return {"sent": values["sent"], "remarks": sorted(values["remarks"])}
