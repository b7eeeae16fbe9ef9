"""The traps of an env file that its author does not see, each with its line, column and fix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packager.base import envfile
from packager.base.envfile import problems
from packager.base.errors import UsageError
from packager.base.problems import Problem

EXPORTED = "the key is 'export A': an env file is not a shell script"
NO_NAME = "use letters, digits and '_', with no space before '='"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("1A=1", (1, 1), "'1A' is not the name of a variable", NO_NAME),
        ("A=1\n  B =1", (2, 3), "'B ' is not the name of a variable", NO_NAME),
        ("export A=1", (1, 1), EXPORTED, "write A=1"),
        ("# all\n A", (2, 2), "A has no '=', so its value is empty", "write A=VALUE"),
        ("A='1'", (1, 3), "the quotes are part of A's value", "write A=1"),
    ],
)
def test_misread_lines_are_reported(text: str, place: tuple[int, int], message: str, hint: str) -> None:
    assert list(problems(text.encode(), "x.env")) == [(False, Problem("x.env", *place, message, hint))]


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("A= 1", (1, 3), "the spaces around the value are part of A's value", "write A=1"),
        ("A=1 \n", (1, 3), "the spaces around the value are part of A's value", "write A=1"),
        ("A=1 # one", (1, 5), "'# one' is part of A's value, not a comment", "put the comment on its own line"),
    ],
)
def test_doubtful_values_are_reported_unless_accepted(
    text: str, place: tuple[int, int], message: str, hint: str
) -> None:
    assert list(problems(text.encode(), "x.env")) == [(True, Problem("x.env", *place, message, hint))]
    key, _, value = text.rstrip("\n").partition("=")
    assert list(problems(text.encode(), "x.env", {(key, value)})) == []


def test_value_begins_after_the_first_equals_sign() -> None:
    read = [(line.number, line.key, line.value) for line in envfile.lines(b"A=b=c\n# B=1\n C=\n")]
    assert read == [(1, "A", "b=c"), (3, "C", "")]


def test_plain_file_has_no_problems() -> None:
    for text in ["# A=1\n", "A=1\r\nB=\r\n", "\ufeffA=1", "A=a#b\nB='"]:
        assert list(problems(text.encode(), "x.env")) == []


ENV = b"""# Where things are. ROOT is yours to change.

  REGISTRY=docker.io
MESSAGE="kept as it is"  # and this
export ODD=1
EMPTY
#OFFERED=example
# NOT_A_KEY: prose
"""


def assigned(text: bytes) -> dict[str, str]:
    return {line.key: line.value for line in envfile.lines(text)}


def test_assign_changes_one_line_and_no_other_byte() -> None:
    after = envfile.assign(ENV, "REGISTRY", "example.com:5000/a b", "mlops.env")
    assert after == ENV.replace(b"REGISTRY=docker.io", b"REGISTRY=example.com:5000/a b")
    assert envfile.assign(ENV, "OFFERED", "mine", "mlops.env") == ENV.replace(b"#OFFERED=example", b"OFFERED=mine")
    for text in (b"A=1", b"A=1\n"):
        assert envfile.assign(text, "B", "2", "mlops.env") == b"A=1\nB=2\n"
    assert envfile.assign(b"", "A", "1", "mlops.env") == b"A=1\n"
    after = envfile.assign(b"A=1\r\nB=2\r\n", "A", "3", "mlops.env")
    assert after == b"A=3\r\nB=2\r\n"
    assert envfile.assign(after, "C", "4", "mlops.env") == b"A=3\r\nB=2\r\nC=4\r\n"
    for text in [b"\xef\xbb\xbfA=1\n", b"\xef\xbb\xbf#A=1\n", b"\xef\xbb\xbfA=1\r\n#B=1\r\n"]:
        after = envfile.assign(text, "A", "2", "mlops.env")
        assert after == text.replace(b"#A", b"A").replace(b"A=1", b"A=2")


def test_assign_refuses_a_key_that_is_set_twice() -> None:
    with pytest.raises(UsageError) as error:
        envfile.assign(b"A=1\nB=2\nA=3\n", "A", "4", "mlops.env")
    assert str(error.value) == "mlops.env sets A twice, in lines 1 and 3"


keys = st.sampled_from(["A", "B", "AB", "LONG_NAME", "_X1"])
values = st.text("aZ0 =#'\"$\\{}:é☂\t", max_size=12)
prose = st.builds(lambda text: f"# {text}".encode(), values)


@pytest.mark.thorough
@given(st.dictionaries(keys, values), st.lists(prose), keys, values)
def test_assign_sets_the_value_and_keeps_the_rest(
    before: dict[str, str], comments: list[bytes], key: str, value: str
) -> None:
    lines = [*comments, *(f"{name}={old}".encode() for name, old in before.items())]
    text = b"".join(line + b"\n" for line in lines)
    after = envfile.assign(text, key, value, "mlops.env")
    assert assigned(after) == {**before, key: value}
    assert envfile.assign(after, key, value, "mlops.env") == after
    kept = [line for line in lines if not line.startswith(f"{key}=".encode())]
    offers = [line for line in kept if envfile.commented_out(line, key) is not None]
    assert [line for line in kept if line not in offers] == [
        line for line in after.split(b"\n")[:-1] if line in kept and line not in offers
    ]


def test_added_yields_keys_that_are_neither_set_nor_commented_out() -> None:
    before = b"A=1\n#B=2\n# C=3\n# a comment\n"
    after = b"A=4\nB=5\nC=6\nD=7\n#E=8\n"
    assert [(line.number, line.key, line.value) for line in envfile.added(before, after)] == [(4, "D", "7")]
