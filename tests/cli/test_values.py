"""Tests that verify accepts each value of mlops.env that lint, build and configure accept."""

import json
from pathlib import Path

from tests import demo
from tests.conftest import Mlpack

UNUSUAL_VALUES = ['"a b"', "'x'", "a # b", " blank ", "it's", "1e-3", "a=b", "$HOME", "\ttab", "☂", ""]
SINGLE = "demo-fp32-training/quickstart/k8s/mlops/single-node"


def test_verify_accepts_values_from_spec_and_build_unchanged(mlpack: Mlpack, tmp_path: Path, kubectl: Path) -> None:
    values = dict(enumerate(UNUSUAL_VALUES))
    spec = {f"SPEC_{number}": value for number, value in values.items()} | {f"SET_{number}": "x" for number in values}
    demo.write(tmp_path / "demo", demo.changed(f"environment: {json.dumps(spec, ensure_ascii=False)}"))
    assert mlpack("lint", tmp_path / "demo").code == 0
    settings = [word for number, value in values.items() for word in ("--set", f"environment.SET_{number}={value}")]
    assert mlpack("build", "./demo", "--format", "dir", *settings).code == 0
    done = mlpack("verify", "demo-fp32-training", "--kubectl", kubectl)
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    text = (tmp_path / SINGLE / "mlops.env").read_text(encoding="utf-8")
    for number, value in values.items():
        assert f"\nSPEC_{number}={value}\n" in text
        assert f"\nSET_{number}={value}\n" in text


def test_verify_accepts_values_that_configure_accepts(mlpack: Mlpack, package: Path, kubectl: Path) -> None:
    for quoted, plain in (('"a b"', "'ARGS=a b'"), ("'x'", "ARGS=x")):
        done = mlpack("configure", package, "--add", f"ARGS={quoted}")
        message = f"error: --add ARGS: the quotes would be part of the value\nhint: remove them: --add {plain}\n"
        assert (done.code, done.stderr) == (2, message)
    others = [f"ARGS_{number}={value}" for number, value in enumerate(UNUSUAL_VALUES[2:])]
    assert mlpack("configure", package, *(word for other in others for word in ("--add", other))).code == 0
    allowed = [word for other in others for word in ("--allow", f"variable:{other.partition('=')[0]}")]
    verified = mlpack("verify", package, "--kubectl", kubectl, *allowed)
    assert (verified.code, verified.stdout) == (0, "")


def test_lint_configure_and_verify_refuse_control_characters(
    mlpack: Mlpack, package: Path, tmp_path: Path, kubectl: Path
) -> None:
    characters = "\x00\x07\x1b\x7f\x85\x9b\n\r"
    for character in characters:
        spec = demo.write(tmp_path / "demo", demo.changed(f"environment: {{ARGS: {json.dumps(f'a{character}b')}}}"))
        done = mlpack("lint", spec)
        assert (done.code, done.stdout.startswith(f"{spec}:11:21: expected one line of text")) == (3, True)
        done = mlpack("configure", package, "--add", f"ARGS=a{character}b")
        assert (done.code, done.stderr) == (2, "error: --add ARGS: expected a value of one line, of at most 32 KiB\n")
    path = package / "quickstart/k8s/mlops/single-node/mlops.env"
    lines = [f"ARGS{number}=a{character}b\n" for number, character in enumerate(characters[:-2])]
    path.write_text("".join([*lines, path.read_text(encoding="utf-8")]), encoding="utf-8")
    done = mlpack("verify", package, "--kubectl", kubectl)
    for number, character in enumerate(characters[:-2]):
        message = f"ARGS{number}'s value contains the control character U+{ord(character):04X} (remove it)"
        assert f"{path}:{number + 1}:8: {message}\n" in done.stdout
    assert done.code == 5
