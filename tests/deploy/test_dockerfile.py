"""What scripts/verify_images.py understands of a Dockerfile, and that it refuses the rest."""

import pytest

from scripts.dockerfile import DockerfileError, copied, in_context, pairs, parse, substituted
from tests.deploy.manifests import DEPLOY

IGNORE = "*\n!agent\n!scripts/one.sh\n**/__pycache__\n"


def test_stages_and_steps_in_their_order() -> None:
    build = "# a comment\nARG BASE=image:1\nFROM ${BASE} AS build\nRUN one \\\n  # inside\n  && two\n"
    arguments, stages = parse(f"{build}FROM build AS last\nUSER 1:2\n")
    assert arguments == {"BASE": "image:1"}
    assert stages["build"].base == "image:1"
    assert stages["build"].steps == [("RUN", "one   && two")]
    assert (stages["last"].base, stages["last"].steps) == ("build", [("USER", "1:2")])


@pytest.mark.parametrize(
    "text",
    ["FROM image\n", "FROM a AS b\nVOLUME /x\n", "RUN x\n", "FROM ${UNSET} AS a\n"],
    ids=["a stage without a name", "an unknown instruction", "a step before a stage", "an unset variable"],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(DockerfileError):
        parse(text)


def test_copies() -> None:
    assert copied("--from=build /opt/a /opt/b") == ("build", ["/opt/a"], "/opt/b")
    assert copied("a b c ./") == (None, ["a", "b", "c"], "./")
    with pytest.raises(DockerfileError, match="--chown"):
        copied("--chown=1:1 a b")


def test_variables() -> None:
    assert pairs('A=1 B="two words"') == {"A": "1", "B": "two words"}
    assert substituted("$A ${B}", {"A": "1", "B": "2"}) == "1 2"


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("agent/main.py", True),
        ("agent/x/__pycache__/main.pyc", False),
        ("scripts/one.sh", True),
        ("scripts/two.sh", False),
        ("README.md", False),
    ],
)
def test_what_of_the_checkout_reaches_the_build(path: str, inside: bool) -> None:
    assert in_context(path, IGNORE) == inside


def test_the_own_file_is_understood_whole() -> None:
    _, stages = parse((DEPLOY / "Dockerfile").read_text())
    assert list(stages)[-2:] == ["agent", "reconciler"]
    assert not stages["reconciler"].base.startswith("$")
