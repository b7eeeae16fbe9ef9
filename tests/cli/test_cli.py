"""Tests of the command line as a whole: help, usage, refused options, and the options of every verb."""

import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from packager import __version__
from tests.conftest import Mlpack


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
    assert (done.code, len(done.stderr.splitlines())) == (3, 2)
    assert done.stderr.endswith(f"error: {specs}/wrong/spec.yaml is not a valid spec: 1 problem\n")


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
    error = mlpack("show", f"{specs}/wrong", "-o", "json").json["error"]
    message = f"{specs}/wrong/spec.yaml is not a valid spec: 1 problem"
    assert (error["message"], error["hint"], error["exit_code"]) == (message, None, 3)
    assert [(problem["line"], problem["hint"]) for problem in error["problems"]] == [(7, "did you mean 'Pod'?")]


PACKAGE = "hello-mpi"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("deploy", PACKAGE, "--follow", "--no-wait"), "--follow and --no-wait cannot be combined"),
        (("deploy", PACKAGE, "--timeout", ""), "expected a duration such as 90s, 1h30m or 7d, found ''"),
        (
            ("deploy", PACKAGE, "--timeout", "8761h"),
            "expected at most 365d, found '8761h'",
        ),
        (("deploy", PACKAGE, "--timeout", "\u0665m"), "expected a duration such as 90s, 1h30m or 7d, found '\u0665m'"),
        (("deploy", PACKAGE, "--overlay", "many"), "many"),
        (("logs", PACKAGE, "--worker", "0", "--all"), "--worker and --all cannot be combined"),
        (("configure", PACKAGE, "--set", "1=2"), "expected KEY=VALUE, with a key of letters, digits and '_'"),
        (("configure", PACKAGE, "--set", "A=" + "x" * 70_000), "expected a value of one line, of at most 32 KiB"),
        (("configure", PACKAGE, "--uid", "5", "-d", "there"), "hello-mpi is a folder, which is edited in place"),
        (("configure", PACKAGE, "--with", "queue"), "an option has no value; nothing was changed"),
        (
            ("verify", PACKAGE, "--context", "c"),
            "--context, --namespace and --kubeconfig say which cluster --server asks",
        ),
    ],
)
def test_verbs_refuse_invalid_option_combinations_and_values(
    mlpack: Mlpack, package: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert package.name == PACKAGE
    done = mlpack(*arguments)
    assert done.code == 2
    assert message in done.stderr


def test_proposed_commands_quote_paths(mlpack: Mlpack, tmp_path: Path) -> None:
    hostile = tmp_path / "a b" / "$(id)"
    done = mlpack("init", "trial", "-d", hostile)
    assert done.stderr == f"build it with: mlpack build '{hostile}/trial'\n"
    assert mlpack("build", PACKAGE, "--format", "dir", "-d", "a b/$(id)").code == 0
    done = mlpack("configure", "a b/$(id)/hello-mpi", "--uid", "5")
    assert done.stderr.splitlines()[-1] == "next: mlpack doctor 'a b/$(id)/hello-mpi'"
    env = tmp_path / "a b/$(id)/hello-mpi/quickstart/k8s/mlops/single-node/mlops.env"
    env.write_text(
        env.read_text(encoding="utf-8").replace("MODEL_DIR=ROOT/hello-mpi", "MODEL_DIR=/x"), encoding="utf-8"
    )
    done = mlpack("configure", "a b/$(id)/hello-mpi", "--root", "/a b/$(X)/e", "--overlay", "single-node")
    assert done.code == 2
    assert done.stderr.splitlines()[-1] == "hint: --set 'MODEL_DIR=/a b/$(X)/e/hello-mpi'"
