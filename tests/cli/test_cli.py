"""Tests of the command line as a whole: help, usage, and the options of every verb; and of two small verbs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from packager import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]


def test_mlpack_without_verb_prints_usage(mlpack: Mlpack) -> None:
    done = mlpack()
    assert done.code == 2
    assert "Usage: mlpack [OPTIONS] COMMAND" in done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [["--nope"], ["nope"], ["build", "--nope"], ["build", "a", "b"], ["show"]])
def test_mlpack_refuses_unknown_verbs_options_and_argument_counts(mlpack: Mlpack, arguments: list[str]) -> None:
    done = mlpack(*arguments)
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert re.fullmatch(r"hint: mlpack( build| show)? --help", done.stderr.splitlines()[1])


# schema, version


def test_schema_prints_valid_json_schema(mlpack: Mlpack) -> None:
    schema: Any = mlpack("schema").json
    Draft202012Validator.check_schema(schema)


def test_version_prints_text_and_json(mlpack: Mlpack) -> None:
    assert mlpack("version").stdout == f"mlpack {__version__}\n"
    assert mlpack("version", "-o", "json").json == {"version": __version__}


def test_version_option_takes_precedence_over_verb(mlpack: Mlpack) -> None:
    done = mlpack("--version", "nope")
    assert (done.code, done.stdout, done.stderr) == (0, f"mlpack {__version__}\n", "")


# Options of every verb: --quiet, and errors as JSON.


@pytest.mark.parametrize("arguments", [["--quiet", "init", "trial"], ["init", "trial", "-q"]])
def test_quiet_keeps_stdout(mlpack: Mlpack, arguments: list[str]) -> None:
    done = mlpack(*arguments)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "trial/Dockerfile"
    assert mlpack("init", "other").stderr == "build it with: mlpack build ./other\n"


def test_quiet_keeps_errors(mlpack: Mlpack, specs: Path) -> None:
    done = mlpack("build", f"{specs}/wrong", "--quiet")
    assert done.code == 3
    assert done.stderr.splitlines() == [
        (
            f"{specs}/wrong/spec.yaml:7:23: expected Pod, Job, MPIJob, JobSet, Deployment or "
            "LeaderWorkerSet, found 'Pood' "
            "(did you mean 'Pod'?)"
        ),
        f"error: {specs}/wrong/spec.yaml is not a valid spec: 1 problem",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["show", "absent", "-o", "json"], 2, "model 'absent' not found"),
        (["show", "./absent.yaml", "-ojson"], 3, "absent.yaml: no such file or directory"),
        (["deploy", "absent", "-o", "json"], 2, "there is no absent"),
        (["list", "--xyz", "-o", "json"], 2, "no such option: --xyz"),
        (["show", "-o", "json"], 2, "missing argument 'MODEL'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_error_is_json_with_output_json(mlpack: Mlpack, arguments: list[str], code: int, message: str) -> None:
    done = mlpack(*arguments)
    error = done.json["error"]
    assert (done.code, error["exit_code"], error["message"], error["problems"]) == (code, code, message, [])
    assert message in done.stderr
    assert mlpack(*arguments[:1], "absent", "--", "-o", "json").stdout == ""


def test_error_json_includes_problems_of_spec(mlpack: Mlpack, specs: Path) -> None:
    problem = {
        "file": f"{specs}/wrong/spec.yaml",
        "line": 7,
        "column": 23,
        "message": "expected Pod, Job, MPIJob, JobSet, Deployment or LeaderWorkerSet, found 'Pood'",
        "hint": "did you mean 'Pod'?",
    }
    assert mlpack("show", f"{specs}/wrong", "-o", "json").json == {
        "error": {
            "message": f"{specs}/wrong/spec.yaml is not a valid spec: 1 problem",
            "hint": None,
            "exit_code": 3,
            "problems": [problem],
        }
    }
