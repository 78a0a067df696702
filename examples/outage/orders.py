"""The tools of the support desk, as functions of a worker."""

from typing import Any

from abide import App, Context

app = App("orders")

ORDERS = {"A-17": {"item": "lamp", "paid": 120.0}}
PAID_BACK: list[tuple[str, float]] = []


@app.node("orders.look_up", idempotent=True)
async def look_up(ctx: Context, order: str) -> dict[str, Any]:
    """What is known about an order."""
    if order not in ORDERS:
        raise KeyError(f"there is no order {order}")
    return ORDERS[order]


@app.node("orders.refund")
async def refund(ctx: Context, order: str, amount: float) -> dict[str, Any]:
    """Pays money back, once."""
    return {"receipt": await ctx.step("pay back", pay_back, order, amount)}


def pay_back(order: str, amount: float) -> str:
    """Would talk to the bank."""
    PAID_BACK.append((order, amount))
    return f"receipt-{order}"
