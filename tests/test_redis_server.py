"""The Redis fixture: a real server that forgets on an outage and comes back at the same address."""

import pytest
import redis.asyncio as redis
from redis.exceptions import ConnectionError as RedisDown

from tests.redis_server import RedisServer


async def test_an_outage_loses_the_data_and_keeps_the_address(redis_server: RedisServer) -> None:
    async with redis.from_url(redis_server.url, retry=None) as client:
        await client.set("key", "value")
        redis_server.stop()
        with pytest.raises(RedisDown):
            await client.get("key")
        redis_server.start()
        assert await client.get("key") is None
