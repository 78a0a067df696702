"""Pays refunds: small ones at once, large ones when somebody has agreed."""

from typing import Any

from abide import App, Context, HumanRetryPolicy

app = App("refunds", default_human_retry_policy=HumanRetryPolicy(max_attempts=3, interval_seconds=3600))


def propose(order: str, amount: float) -> dict[str, Any]:
    """What to do about a complaint. A model would be asked here: it is a step, so it is asked once."""
    return {"pay": round(amount * 0.9, 2), "why": f"Order {order} came late; ten percent is the usual fee."}


def pay(order: str, amount: float) -> str:
    """Pays. This is an effect: whoever looks into the ledger sees how often it happened."""
    with open("ledger.txt", "a") as ledger:
        print(order, amount, file=ledger)
    return f"receipt for {order}"


@app.agent("refund")
async def refund(ctx: Context, order: str, amount: float) -> dict[str, Any]:
    proposal = await ctx.step("propose", propose, order, amount, idempotent=True)
    if amount > 100:
        decision = await ctx.approve(f"Pay back {proposal['pay']} for {order}?", description=proposal["why"])
        if not decision:
            return {"paid": 0, "reply": f"We can not pay it back. {decision.feedback or ''}".strip()}
    receipt = await ctx.step("pay", pay, order, proposal["pay"])
    return {"paid": proposal["pay"], "reply": f"Done: {receipt}."}
