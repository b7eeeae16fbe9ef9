"""Tests of the core's verbs as their users run them: stdout, stderr, exit codes and written files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from typer.main import get_command

from packager import __version__
from packager.cli import app
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_golden.plugin import GoldenTestFixture

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]


# --help of each verb.


@pytest.mark.golden_test("../golden/cli/help.yml")
def test_help_of_core_verbs_matches_golden(golden: GoldenTestFixture, mlpack: Mlpack) -> None:
    verbs = ("build", "list", "show", "init", "lint", "render", "schema", "version", "completion")
    help_texts = {verb: mlpack(verb, "--help").stdout for verb in verbs}
    assert help_texts == golden.out["help"]


def test_every_verb_has_help(mlpack: Mlpack) -> None:
    for verb in getattr(get_command(app), "commands", {}):
        done = mlpack(verb, "-h")
        assert (done.code, done.stderr) == (0, "")
        assert done.stdout.startswith(f"Usage: mlpack {verb} ")
    assert mlpack("--help").stdout.count("\n") > 20


def test_mlpack_without_verb_prints_usage(mlpack: Mlpack) -> None:
    done = mlpack()
    assert done.code == 2
    assert "Usage: mlpack [OPTIONS] COMMAND" in done.stdout + done.stderr


@pytest.mark.parametrize("arguments", [["--nope"], ["nope"], ["build", "--nope"], ["build", "a", "b"], ["show"]])
def test_mlpack_refuses_unknown_verbs_options_and_argument_counts(mlpack: Mlpack, arguments: list[str]) -> None:
    done = mlpack(*arguments)
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: mlpack")


# list, show


def test_list_prints_valid_models_and_reports_invalid_spec(mlpack: Mlpack, specs: Path) -> None:
    done = mlpack("list", "--specs", specs)
    assert done.code == 3
    assert [line.split() for line in done.stdout.splitlines()][:2] == [
        ["NAME", "VARIANTS", "ALIASES", "TITLE"],
        ["demo", "fp32", "training", "trial", "Demo"],
    ]
    assert f"{specs}/wrong/spec.yaml is not a valid spec: 1 problem" in done.stderr


def test_list_prints_names_and_json(mlpack: Mlpack) -> None:
    assert mlpack("list", "-o", "name").stdout == "cifar10-mxnet\nhello-mpi\nresnet50\nresnet50-pytorch\n"
    _mxnet, hello, resnet, _pytorch = mlpack("list", "-o", "json").json
    assert (hello["name"], hello["aliases"]) == ("hello-mpi", [])
    assert resnet["aliases"] == ["resnet50v1-5"]
    assert resnet["variants"][2] == {
        "precision": "fp32",
        "mode": "inference",
        "package": "resnet50v1-5-fp32-inference",
        "overlays": ["single-node"],
    }


def test_list_json_includes_error_of_invalid_spec(mlpack: Mlpack, specs: Path) -> None:
    done = mlpack("list", "--specs", specs, "-o", "json")
    wrong = next(entry for entry in done.json if "error" in entry)
    assert (done.code, wrong["path"], wrong["error"]["exit_code"]) == (3, f"{specs}/wrong/spec.yaml", 3)
    assert [problem["line"] for problem in wrong["error"]["problems"]] == [7]


def test_show_searches_folders_of_mlpack_specs_variable(
    mlpack: Mlpack, specs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (specs / "more").mkdir()
    monkeypatch.setenv("MLPACK_SPECS", f"{specs / 'more'}:{specs}")
    assert mlpack("show", "trial").stdout.startswith("demo: Demo\n")


def test_show_prints_model_as_text_and_json(mlpack: Mlpack, tmp_path: Path) -> None:
    spec = demo.write(
        tmp_path / "demo",
        demo.changed("environment: {STEPS: {value: 3, description: How many.}, A: x}", "description: What it is."),
    )
    assert mlpack("show", spec).stdout.splitlines() == [
        "demo: Demo",
        "",
        "What it is.",
        "",
        "VARIANT         PACKAGE              OVERLAYS                  SCRIPT",
        "fp32 training   demo-fp32-training   single-node, multi-node   train.sh",
        "",
        "PARAMETER   VALUE   WHAT IT DOES",
        "STEPS       3       How many.",
        "A           x",
        "",
        "image docker.io/demo:1.0",
        f"spec  {spec}",
    ]
    shown = mlpack("show", spec, "-o", "json").json
    assert shown["path"] == str(spec)
    assert shown["spec"]["overlays"]["multi-node"]["kind"] == "MPIJob"


def test_show_reports_unknown_model_and_missing_file(mlpack: Mlpack) -> None:
    done = mlpack("show", "resnet5")
    assert (done.code, done.stderr) == (2, "error: model 'resnet5' not found\nhint: did you mean 'resnet50'?\n")
    done = mlpack("show", "./absent.yaml")
    assert (done.code, done.stderr) == (3, "error: absent.yaml: no such file or directory\n")


# init, lint, schema, render


def test_init_creates_model_that_lints_and_builds(mlpack: Mlpack, tmp_path: Path) -> None:
    done = mlpack("init", "trial")
    assert done.code == 0
    assert done.stdout.splitlines() == [
        "trial/Dockerfile",
        "trial/spec.schema.json",
        "trial/spec.yaml",
        "trial/train.sh",
    ]
    assert done.stderr == "build it with: mlpack build ./trial\n"
    first, *_ = (tmp_path / "trial/spec.yaml").read_text().splitlines()
    assert first == "# yaml-language-server: $schema=spec.schema.json"
    assert json.loads((tmp_path / "trial/spec.schema.json").read_text()) == mlpack("schema").json
    assert mlpack("lint", "./trial").code == 0
    assert mlpack("build", "./trial", "--all").stdout == "trial-fp32-training.tar.gz\n"


def test_init_keeps_existing_path(mlpack: Mlpack, tmp_path: Path) -> None:
    (tmp_path / "trial").symlink_to("nowhere")
    done = mlpack("init", "trial")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == "error: trial already exists and was left unchanged\nhint: choose another name\n"


@pytest.mark.parametrize("name", ["Trial", "a_b", "", "3d", "a" * 41, "../x", "a\n", "on-"])
def test_init_refuses_invalid_names(mlpack: Mlpack, tmp_path: Path, name: str) -> None:
    done = mlpack("init", name)
    assert (done.code, done.stdout) == (2, "")
    assert "expected a name of lower-case letters, digits and '-', starting with a letter" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_lint_lists_problems_as_text_and_json(mlpack: Mlpack, specs: Path) -> None:
    assert mlpack("lint", "demo", "--specs", specs).stdout == ""
    done = mlpack("lint", f"{specs}/wrong", f"{specs}/absent.yaml", "hello-mpi")
    assert done.code == 3
    assert done.stdout.splitlines() == [
        (
            f"{specs}/wrong/spec.yaml:7:23: expected Pod, Job, MPIJob, JobSet or Deployment, found 'Pood' "
            "(did you mean 'Pod'?)"
        ),
        f"{specs}/absent.yaml: no such file or directory",
    ]
    assert done.stderr == "2 problems\n"
    assert mlpack("lint", "./absent.yaml").stdout == "absent.yaml: no such file or directory\n"
    answer = mlpack("lint", f"{specs}/wrong", f"{specs}/absent.yaml", "-o", "json").json
    assert (answer["valid"], answer["exit_code"]) == (False, 3)
    (problem, _) = answer["problems"]
    assert problem == {
        "file": f"{specs}/wrong/spec.yaml",
        "line": 7,
        "column": 23,
        "message": "expected Pod, Job, MPIJob, JobSet or Deployment, found 'Pood'",
        "hint": "did you mean 'Pod'?",
    }


def test_schema_prints_valid_json_schema(mlpack: Mlpack) -> None:
    schema: Any = mlpack("schema").json
    Draft202012Validator.check_schema(schema)


def test_render_prints_manifests_of_variant(mlpack: Mlpack, tmp_path: Path, kubectl: Path) -> None:
    spec = demo.write(tmp_path / "demo", demo.changed(*demo.VARIANTS))
    done = mlpack("render", spec, "multi-node", "--kubectl", kubectl, "--precision", "bf16")
    assert (done.code, done.stderr) == (0, "")
    assert "kind: MPIJob\n" in done.stdout
    assert "name: demo-bf16-training-multi-node\n" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_render_reports_unknown_overlay_and_missing_kubectl(mlpack: Mlpack, tmp_path: Path) -> None:
    spec = demo.write(tmp_path / "demo", demo.changed(*demo.VARIANTS))
    done = mlpack("render", spec, "multi-nod", "--mode", "inference")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == "error: demo-fp32-inference has no overlay 'multi-nod'; it has: single-node\n"
    done = mlpack("render", spec, "single-node", "--kubectl", "./no-kubectl")
    assert (done.code, done.stdout) == (6, "")
    assert done.stderr.startswith("error: ./no-kubectl: program not found\n")


def test_version_prints_text_and_json(mlpack: Mlpack) -> None:
    assert mlpack("version").stdout == f"mlpack {__version__}\n"
    assert mlpack("version", "-o", "json").json == {"version": __version__}


@pytest.mark.parametrize("arguments", [["--version"], ["--version", "build"], ["--version", "nope"]])
def test_version_option_takes_precedence_over_verb(mlpack: Mlpack, arguments: list[str]) -> None:
    done = mlpack(*arguments)
    assert (done.code, done.stdout, done.stderr) == (0, f"mlpack {__version__}\n", "")


# Options of every verb: --quiet, and errors as JSON.


@pytest.mark.parametrize("arguments", [["--quiet", "init", "trial"], ["init", "trial", "--quiet"]])
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
            f"{specs}/wrong/spec.yaml:7:23: expected Pod, Job, MPIJob, JobSet or Deployment, found 'Pood' "
            "(did you mean 'Pod'?)"
        ),
        f"error: {specs}/wrong/spec.yaml is not a valid spec: 1 problem",
    ]


def test_quiet_is_an_option_of_grouped_verbs(mlpack: Mlpack) -> None:
    assert "--quiet" in mlpack("operator", "install", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["show", "absent", "-o", "json"], 2, "model 'absent' not found"),
        (["show", "./absent.yaml", "-ojson"], 3, "absent.yaml: no such file or directory"),
        (["lint", "absent", "--output=json"], 2, "model 'absent' not found"),
        (["build", "--output", "json"], 2, "no model given"),
        (["verify", "absent", "-o", "json"], 2, "there is no absent"),
        (["doctor", "absent", "-o", "json"], 2, "there is no absent"),
        (["status", "absent", "-o", "json"], 2, "there is no absent"),
        (["history", "absent", "-o", "json"], 2, "there is no absent"),
        (["deploy", "absent", "-o", "json"], 2, "there is no absent"),
        (["list", "--xyz", "-o", "json"], 2, "No such option: --xyz"),
        (["show", "-o", "json"], 2, "Missing argument 'MODEL'."),
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
        "message": "expected Pod, Job, MPIJob, JobSet or Deployment, found 'Pood'",
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
