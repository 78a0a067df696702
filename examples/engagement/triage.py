"""Sorts tickets: by itself where it is sure, with somebody's help where it is not, and not at all where that is too risky."""

from typing import Any

from abide import App, Context, EngagementDecision, InputTimeoutError

app = App("triage")

# What a model would say of a ticket: the queue, how sure it is, how bad a mistake would be, and whether it can be undone.
MODEL = {
    "The page is slow": ("support", 0.95, 0.1, 0.9),
    "Please change my address": ("accounts", 0.7, 0.3, 0.9),
    "I was charged twice": ("billing", 0.4, 0.4, 0.6),
    "Delete everything you have of me": ("privacy", 0.9, 0.9, 0.0),
}


def judge(text: str) -> dict[str, Any]:
    """A model would be asked here."""
    queue, confidence, risk, reversibility = MODEL[text]
    return {"queue": queue, "confidence": confidence, "risk": risk, "reversibility": reversibility}


def sort(text: str, queue: str) -> None:
    """Moves the ticket: an effect."""
    with open("sorted.txt", "a") as tickets:
        print(f"{queue}: {text}", file=tickets)


@app.agent("triage")
async def triage(ctx: Context, text: str) -> dict[str, Any]:
    guess = await ctx.step("judge", judge, text, idempotent=True)
    queue = guess.pop("queue")
    decision = await ctx.should_request_input(**guess, context={"ticket": text})
    if decision.mode == "defer":
        return {"mode": decision.mode, "queue": None}
    if decision.should_ask:
        try:
            queue = await ctx.request_input(
                "Which queue?",
                choices=["support", "accounts", "billing"],
                context={"ticket": text, "guess": queue},
                timeout_seconds=3600,
            )
        except InputTimeoutError:
            if decision.mode == "require_input":
                raise
            # It was only requested, so the guess will do.
    await ctx.step("sort", sort, text, queue)
    return {"mode": decision.mode, "queue": queue}


@app.on_engagement_decision
def note(decision: EngagementDecision) -> None:
    print(decision.mode, "-", decision.rationale)
