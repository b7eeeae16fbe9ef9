"""Tests of `mlpack list` and `mlpack show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]


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


def test_show_reports_unknown_model_and_missing_file(mlpack: Mlpack) -> None:
    done = mlpack("show", "resnet5")
    assert (done.code, done.stderr) == (2, "error: model 'resnet5' not found\nhint: did you mean 'resnet50'?\n")
    done = mlpack("show", "./absent.yaml")
    assert (done.code, done.stderr) == (3, "error: absent.yaml: no such file or directory\n")
