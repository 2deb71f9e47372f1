"""What the `[redis]` table may say, and what is said about the rest, without a password in it."""

import pytest

from shared.config import ConfigError, convert
from shared.redis_url import RedisSettings, Target

GOOD = {
    "redis://host": Target((("host", 6379),)),
    "redis://[::1]:7000/2": Target((("::1", 7000),), db=2),
    "rediss://warden:p%40ss@host:6380/0": Target((("host", 6380),), username="warden", password="p@ss"),
    "redis://:pa/ss#@host": Target((("host", 6379),), password="pa/ss#"),
    "redis+sentinel://one,two:1,[::1]/main": Target((("one", 26379), ("two", 1), ("::1", 26379)), service="main"),
    "rediss+sentinel://u:p@one/main/3": Target((("one", 26379),), "main", 3, username="u", password="p"),
}

REFUSED = {
    "": "scheme",
    "host:6379": "scheme",
    "http://host": "scheme",
    "unix:///run/redis.sock": "scheme",
    "redis://": "host is missing",
    "redis://u:secret@host:port": "port of 'host:port'",
    "redis://u:secret@host:70000": "up to 65535",
    "redis://host/main": "database 'main'",
    "redis://host/0/1": "database '0/1'",
    "redis://host?db=1": "options behind",
    "redis+sentinel://one,two": "name of the service",
    "redis+sentinel://one,,two/main": "host is missing",
    "redis+sentinel://one/main/x": "database 'x'",
    "redis://u:secret@[::1": "IPv6",
}


@pytest.mark.parametrize(("url", "target"), GOOD.items(), ids=GOOD)
def test_a_url_says_where_and_who(url: str, target: Target) -> None:
    settings = RedisSettings(url=url)
    assert settings.target == target
    assert settings.tls == url.startswith("rediss")
    assert "@" not in settings.shown


@pytest.mark.parametrize(("url", "said"), REFUSED.items(), ids=REFUSED)
def test_a_url_that_cannot_be_used_names_key_and_cause(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"^reconciler\.toml: redis\.url: ") as refused:
        convert({"url": url}, RedisSettings, source="reconciler.toml")
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"ca_file": "/ca.pem"}, r"redis\.ca_file"),
        ({"cert_file": "/c.pem", "key_file": "/k.pem"}, r"redis\.cert_file"),
        ({"url": "rediss://h", "cert_file": "/c.pem"}, "both cert_file and key_file"),
        ({"url": "rediss://h", "key_file": "/k.pem"}, "both cert_file and key_file"),
        ({"sentinel_password_file": "/p"}, r"redis\.sentinel_password_file"),
        ({"url": "redis://u:pw@h", "username": "v"}, "in one place"),
        ({"url": "redis://:pw@h", "password_file": "/p"}, "in one place"),
    ],
)
def test_keys_that_contradict_the_url_are_mistakes(keys: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        RedisSettings(**keys)
