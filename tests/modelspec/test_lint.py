"""Tests of the use case `packager.modelspec.lint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome


def test_lint_warns_about_secrets_in_environment(tmp_path: Path, mlpack: Callable[..., Outcome]) -> None:
    lines = "environment: {AWS_SECRET_ACCESS_KEY: abc, STEPS: 20, HF_TOKEN: '', MAX_TOKENS: 5, TOKEN: 7}"
    variant = "script: train.sh => script: train.sh, environment: {DB_PASSWORD: {value: geheim}}"
    path = demo.write(tmp_path / "demo", demo.changed(variant, lines))
    done = mlpack("lint", path)
    warning = "and anyone who has the package can read its value (list it under `secrets`)"
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr.splitlines()[1:] == [
        f"warning: {path}:11:15: AWS_SECRET_ACCESS_KEY seems to be secret, {warning}",
        f"warning: {path}:10:71: DB_PASSWORD seems to be secret, {warning}",
    ]
    answer = mlpack("lint", path, "-o", "json")
    assert [entry["line"] for entry in answer.json["warnings"]] == [11, 10]
    assert "abc" not in done.stderr + answer.stdout
    assert "geheim" not in done.stderr + answer.stdout


def test_lint_warns_about_serving_overlay_before_end_of_sequence(
    tmp_path: Path, mlpack: Callable[..., Outcome]
) -> None:
    serving = "single-node: {kind: Pod} => single-node: {kind: Deployment, ports: {http: {port: 8080}}}"
    path = demo.write(tmp_path / "demo", demo.changed(serving, "sequence: [multi-node, single-node]"))
    assert "warning" not in mlpack("lint", path).stderr
    path = demo.write(tmp_path / "demo", demo.changed(serving, "sequence: [single-node, multi-node]"))
    done = mlpack("lint", path)
    warning = "'single-node' does not end: 'multi-node' starts when it serves, and runs beside it"
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr.splitlines()[1:] == [
        f"warning: {path}:11:12: {warning} (put it at the end, unless those after it need it)"
    ]
