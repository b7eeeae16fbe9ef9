"""Tests of `mlpack list`, `show`, `init` and `lint`."""

import json
from pathlib import Path

import pytest

from tests import demo
from tests.conftest import Mlpack


def test_list_prints_valid_models_and_reports_invalid_spec(mlpack: Mlpack, specs: Path) -> None:
    done = mlpack("list", "--specs", specs)
    assert done.code == 3
    assert [line.split() for line in done.stdout.splitlines()][:2] == [
        ["NAME", "VERSION", "VARIANTS", "ALIASES", "TITLE"],
        ["demo", "-", "fp32", "training", "trial", "Demo"],
    ]
    assert f"{specs}/wrong/spec.yaml is not a valid spec: 1 problem" in done.stderr


def test_list_prints_names_and_json(mlpack: Mlpack) -> None:
    names = ["llm-finetune", "llm-serving", "jax-gpt", "resnet50-pytorch", "xgboost-tabular"]
    assert mlpack("list", "-o", "name").stdout.splitlines() == [*names, "resnet50", "cifar10-mxnet", "hello-mpi"]
    llm, _serving, _jax, _pytorch, _xgboost, resnet, _mxnet, hello = mlpack("list", "-o", "json").json
    assert llm["group"] == "Language models"
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


@pytest.mark.parametrize("name", ["Trial", "a" * 41, "../x", "a\n"])
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
            f"{specs}/wrong/spec.yaml:7:23: expected Pod, Job, MPIJob, JobSet, Deployment or "
            "LeaderWorkerSet, found 'Pood' "
            "(did you mean 'Pod'?)"
        ),
        f"{specs}/absent.yaml: no such file or directory",
    ]
    spec = demo.CHECKOUT / "model_specs/hello-mpi/spec.yaml"
    note = f"note: {spec}: multi-node: that the program uses MPI is not checked: without it, each rank works alone\n"
    assert done.stderr == f"{note}2 problems\n"
    assert mlpack("lint", "./absent.yaml").stdout == "absent.yaml: no such file or directory\n"
    answer = mlpack("lint", f"{specs}/wrong", f"{specs}/absent.yaml", "-o", "json").json
    assert (answer["valid"], answer["exit_code"]) == (False, 3)
    (problem, _) = answer["problems"]
    assert problem == {
        "file": f"{specs}/wrong/spec.yaml",
        "line": 7,
        "column": 23,
        "message": "expected Pod, Job, MPIJob, JobSet, Deployment or LeaderWorkerSet, found 'Pood'",
        "hint": "did you mean 'Pod'?",
    }
