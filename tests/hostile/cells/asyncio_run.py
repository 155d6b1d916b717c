import asyncio


async def work():
    await asyncio.sleep(0.01)
    return "async fine"


print(asyncio.run(work()))
