"""The page of a made-up fleet, to look at and to measure: `python -m tests.page.serve NODES [BROKEN]`.

Prints its address, serves until it is ended. BROKEN nodes, spread over the fleet, have a fault each.
"""

from __future__ import annotations

import asyncio
import sys

from reconciler.api import application
from shared.http_server import serving
from tests.page.replica import Replica, a_fault, replica_of


def fleet(nodes: int, broken: int) -> Replica:
    replica = replica_of(nodes)
    names = sorted(replica.world.nodes)
    for number in range(broken):
        replica.say(names[number * nodes // broken], a_fault(number % 8))
    replica.decide()
    return replica


async def main(nodes: int, broken: int) -> None:
    async with serving(application(fleet(nodes, broken)), "127.0.0.1:0") as port:
        print(f"http://127.0.0.1:{port}/", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
