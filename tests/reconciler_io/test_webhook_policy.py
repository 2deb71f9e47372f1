"""[webhook] and [evidence] in policy.toml: a wrong one is one line with its key; by default nothing is sent or kept."""

from pathlib import Path

import pytest

from reconciler.core.policy import Policy
from shared.config import ConfigError, load_toml


def read(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    return load_toml(path, Policy)


def test_without_a_word_nothing_is_sent_and_no_log_is_kept() -> None:
    assert Policy().webhook.urls == ()
    assert not Policy().evidence.logs


def test_what_is_asked_for(tmp_path: Path) -> None:
    text = '[webhook]\nurls = ["https://a.example/x"]\nsecret_file = "/s"\nevents = ["held"]\n[evidence]\nlogs = true\n'
    policy = read(tmp_path, text)
    assert policy.webhook.urls == ("https://a.example/x",)
    assert policy.webhook.events == ("held",)
    assert policy.evidence.logs


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('urls = ["https://a.example"]\n', "secret_file"),
        ('urls = ["https://a.example"]\nsecret_file = "secret"\n', "absolute"),
        ('urls = ["a.example/hook"]\nsecret_file = "/s"\n', "webhook.urls"),
        ('urls = ["ftp://a.example"]\nsecret_file = "/s"\n', "webhook.urls"),
        ('urls = ["https://"]\nsecret_file = "/s"\n', "webhook.urls"),
        ('urls = ["https://a.example:99999/x"]\nsecret_file = "/s"\n', "webhook.urls"),
        ('urls = ["https://a.example", "https://[::1/x"]\nsecret_file = "/s"\n', "webhook.urls: number 2"),
        ('urls = "https://a.example"\nsecret_file = "/s"\n', "urls"),
        ('events = ["exploded"]\n', "events"),
        ('secret = "in clear"\n', "secret"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, f"[webhook]\n{text}")
    assert named in str(refused.value)
    assert "policy.toml" in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_why_a_policy_is_refused_does_not_tell_the_secret_in_an_address(tmp_path: Path) -> None:
    """It stands on the page and in /v1/warden, for whoever reaches the port."""
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, '[webhook]\nurls = ["htps://me:s3cret@a.example/s3cret"]\nsecret_file = "/s"\n')
    assert "number 1" in str(refused.value)
    assert "s3cret" not in str(refused.value)
