"""Answers a question with tools. Those that cost money or leave the house are used only if somebody agrees."""

import asyncio
from typing import Any

from abide import App, Context

app = App("research")

TOOLS = {
    "library": {"asks": False},
    "web": {"asks": True},
    "expert": {"asks": True},
}


def plan(question: str) -> list[dict[str, str]]:
    """Which tools to use for what. A model would be asked here."""
    return [{"tool": tool, "query": f"{question} ({tool})"} for tool in TOOLS]


def use(tool: str, query: str) -> str:
    """Uses a tool. A real one would make a request here; it is counted so that nobody pays twice."""
    with open("used.txt", "a") as used:
        print(tool, file=used)
    return f"what the {tool} says about {query}"


def conclude(question: str, findings: list[str]) -> str:
    """The answer. A model would be asked here."""
    return f"{question}: {len(findings)} sources agree."


async def call(ctx: Context, tool: str, query: str) -> str | None:
    """One call of the plan: asked about if it has to be, made if somebody agrees."""
    if TOOLS[tool]["asks"] and not await ctx.approve(f"Use the {tool}?", data={"query": query}, key=f"use-{tool}"):
        return None
    return await ctx.step(f"use {tool}", use, tool, query)


@app.agent("research")
async def research(ctx: Context, question: str) -> dict[str, Any]:
    calls = await ctx.step("plan", plan, question, idempotent=True)
    # All questions are open at the same time, and each call is made as soon as its own is answered.
    found = await asyncio.gather(*(call(ctx, one["tool"], one["query"]) for one in calls))
    findings = [finding for finding in found if finding is not None]
    answer = await ctx.step("conclude", conclude, question, findings, idempotent=True)
    return {"answer": answer, "refused": [one["tool"] for one, finding in zip(calls, found) if finding is None]}
