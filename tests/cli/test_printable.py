"""Tests that every verb escapes control characters of foreign text, on stdout and on stderr."""

import io
import json
import sys
import unicodedata
from pathlib import Path

import pytest

from packager.base.process import Finished
from packager.cli import console
from packager.cli.console import printable
from tests import demo
from tests.conftest import Mlpack, Outcome
from tests.life import JOB, Life, launcher

HOSTILE = "\x1b[31m\x07\x9b1m\u202egnp.\u2066\u200b\r\u2028\udc9b\U000e0041"
"""Colours, a bell, a C1 sequence, bidirectional overrides, a zero-width space, line ends, a byte and a tag."""

SHOWN = r"\x1b[31m\x07\x9b1m\u202egnp.\u2066\u200b\r\u2028\udc9b\U000e0041"

FORMAT = "a\u202eb\u2066c"
"""Format characters that YAML accepts unescaped."""

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def hidden(text: str) -> set[str]:
    return {character for character in text if character not in "\n\t" and unicodedata.category(character) in HIDDEN}


def assert_printable(done: Outcome) -> None:
    assert (hidden(done.stdout), hidden(done.stderr)) == (set(), set())


def test_printable_escapes_control_and_format_characters() -> None:
    assert printable(HOSTILE) == SHOWN
    assert printable("two\nlines, a\ttab") == "two\\nlines, a\ttab"
    assert printable("Démo 漢 😀 ñ") == "Démo 漢 😀 ñ"
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert hidden(printable(every)) == set()


def test_json_escapes_control_characters_and_round_trips(capsys: pytest.CaptureFixture[str]) -> None:
    console.emit_json({HOSTILE: [f"\x7f{HOSTILE}\n"], "plain": "Démo"})
    written = capsys.readouterr().out
    assert hidden(written) == set()
    assert json.loads(written) == {HOSTILE: [f"\x7f{HOSTILE}\n"], "plain": "Démo"}


VERBS = (
    ("build",),
    ("verify",),
    ("doctor",),
    ("results", "hello-mpi", "out", "--overlay"),
    ("image", "build"),
    (),
    ("list", "--specs"),
    ("list", "-o"),
    ("doctor", "hello-mpi", "--kubectl"),
)
"""Commands that end with a hostile argument: a model, packages, an overlay, a verb, values of options, a program."""

SPOOF = HOSTILE.replace("\udc9b", "") + "\nerror: all is well"


def test_argument_is_escaped_in_output(life: Life, mlpack: Mlpack) -> None:
    life.refused = dict.fromkeys(("get mpijobs", "apply", "delete"), "refused")
    for arguments in VERBS:
        done = mlpack(*arguments, f"./{SPOOF}" if arguments == ("build",) else SPOOF)
        assert done.code != 0, arguments
        assert_printable(done)
        assert "\nerror: all is well" not in done.stdout + done.stderr, arguments


def test_kubectl_output_is_escaped(mlpack: Mlpack, life: Life) -> None:
    life.first = lambda _argv: Finished(1, HOSTILE, f"error: {SPOOF}\n")
    for verb in ("doctor", "deploy", "status", "logs", "delete", "verify"):
        done = mlpack(verb, "hello-mpi")
        assert done.code in (4, 5, 6, 7), verb
        assert_printable(done)
        assert "\nerror: all is well" not in done.stdout + done.stderr, verb


def test_spec_title_is_escaped_in_text_and_raw_in_json(mlpack: Mlpack, tmp_path: Path) -> None:
    folder = tmp_path / "specs/demo"
    demo.write(folder, demo.changed(f"title: Demo => title: {FORMAT}", f'description: "{FORMAT}"'))
    for arguments in (("list", "--specs", "specs"), ("show", "./specs/demo")):
        done = mlpack(*arguments)
        assert done.code == 0
        assert r"a\u202eb\u2066c" in done.stdout
        assert_printable(done)
    assert mlpack("show", "./specs/demo", "-o", "json").json["spec"]["title"] == FORMAT


def test_table_aligns_columns_with_escaped_text() -> None:
    assert [*console.table([("A", "B"), ("\x1b", "x"), ("long", "y")])] == ["A     B", "\\x1b  x", "long  y"]


def test_cluster_text_is_escaped(life: Life, mlpack: Mlpack) -> None:
    job = life.deploy()
    job["metadata"]["annotations"] = {"mlpack/deployed-by": HOSTILE, "mlpack/digest": f"sha256:{HOSTILE}"}
    ended = {"terminated": {"exitCode": 3, "reason": HOSTILE, "message": HOSTILE}}
    life.objects.append(launcher(state=ended, phase="Failed", reason=HOSTILE))
    life.logs[f"{JOB}-launcher-0"] = HOSTILE
    life.end("Failed", reason=HOSTILE, message=HOSTILE)
    for arguments in (("status",), ("status", "--watch"), ("deploy",)):
        done = mlpack(arguments[0], "hello-mpi", *arguments[1:])
        assert_printable(done)
        assert "\\x1b" in done.stdout + done.stderr


def test_log_is_escaped_only_on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    log = b"\x1b[31mred\n 10%\r 99%\r\n\xff\xe2\x80\xae\nopen"
    written = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", written)
    console.emit_log(log)
    assert written.buffer.getvalue() == log
    monkeypatch.setattr(written, "isatty", lambda: True)
    console.emit_log(log)
    shown = written.buffer.getvalue().removeprefix(log)
    assert shown == b"\\x1b[31mred\n 99%\n\\udcff\\u202e\nopen"


def test_path_is_escaped_only_on_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    console.emit_data("out/\x1b[31m.tar.gz")
    assert capsys.readouterr().out == "out/\x1b[31m.tar.gz\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    console.emit_data("out/\x1b[31m.tar.gz")
    assert capsys.readouterr().out == "out/\\x1b[31m.tar.gz\n"
