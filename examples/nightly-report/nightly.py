"""Waits for the night, has each region counted by a run of its own, and reports."""

import asyncio
from datetime import timedelta
from typing import Any

from abide import App, ChildFailedError, Context, RetryableError, RetryPolicy

app = App("reports")

REGIONS = ["north", "south", "west"]


def count(region: str, attempt: int) -> int:
    """Counts a region's orders. The south is down at first: that passes, so it is tried again."""
    if region == "south" and attempt == 1:
        raise RetryableError("the south does not answer", code="region_down")
    return {"north": 12, "south": 7, "west": 23}[region]


@app.agent("region", idempotent=True, retry=RetryPolicy(strategy="fixed", max_retries=2, base_delay=60))
async def region(ctx: Context, name: str) -> int:
    return await ctx.step("count", count, name, ctx.attempt)


@app.agent("nightly", idempotent=True)
async def nightly(ctx: Context, hours: float = 8) -> dict[str, Any]:
    ctx.log("waiting for the night")
    await ctx.sleep(timedelta(hours=hours))
    orders = dict(zip(REGIONS, await asyncio.gather(*(ordered(ctx, name) for name in REGIONS))))
    ctx.progress(len(REGIONS), len(REGIONS), "all regions are counted")
    return {"orders": orders, "total": sum(number for number in orders.values() if number is not None)}


async def ordered(ctx: Context, name: str) -> int | None:
    """How many orders a region had; nothing, if that can not be found out."""
    try:
        counted = await ctx.run("region", {"name": name}, key=name)
        return int(counted["result"])
    except ChildFailedError as error:
        ctx.log(f"{name} is left out: {error}", level="warn")
        return None
