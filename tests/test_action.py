"""The steps of action.yml, run as GitHub's runner runs them; only the installation is that of the tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.cli import main
from tests import demo
from tests.publish.conftest import no_logins, registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Mlpack
    from tests.publish.fake_registry import FakeRegistry

__all__ = ["no_logins", "registry"]

ACTION: dict[str, Any] = yaml.safe_load((demo.CHECKOUT / "action.yml").read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["id"]: step for step in ACTION["runs"]["steps"]}


@pytest.fixture
def run(tmp_path: Path, kubectl: Path, no_logins: None) -> Callable[..., dict[str, str]]:  # noqa: ARG001
    """A function that runs the steps for some inputs, and returns the outputs of the action."""

    def act(**inputs: str) -> dict[str, str]:
        values = {f"inputs.{name}": str(given.get("default", "")) for name, given in ACTION["inputs"].items()}
        values |= {"inputs.kubectl": str(kubectl), "inputs.tag": "1.0"}
        values |= {f"inputs.{name.replace('_', '-')}": value for name, value in inputs.items()}
        for name, step in STEPS.items():
            if name == "install" or (step.get("if") == "inputs.push != ''" and not values["inputs.push"]):
                continue
            output = tmp_path / f"{name}.output"
            output.touch()
            environment = {key: _filled(value, values) for key, value in step["env"].items()}
            subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                check=True,
                cwd=tmp_path,
                env={
                    **os.environ,
                    **environment,
                    "GITHUB_OUTPUT": str(output),
                    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                },
            )
            for key, _, text in re.findall(
                r"^(\w+)<<(?P<end>.*)\n([\s\S]*?)\n(?P=end)$", output.read_text(), re.MULTILINE
            ):
                values[f"steps.{name}.outputs.{key}"] = text
        return {name: _filled(output["value"], values) for name, output in ACTION["outputs"].items()}

    return act


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda match: values.get(match[1], ""), text)


@pytest.mark.thorough
def test_action_checks_and_builds_and_verifies(run: Callable[..., dict[str, str]], mlpack: Mlpack) -> None:
    assert mlpack("init", "my-model").code == 0
    outputs = run(specs="./my-model\nhello-mpi\n", options="--registry=registry.example.com/team\n")
    assert outputs["packages"].split() == ["my-model-fp32-training.tar.gz", "hello-mpi.tar.gz"]
    assert outputs["references"] == ""
    assert all(Path(path).is_file() for path in outputs["packages"].split())


@pytest.mark.thorough
def test_action_refuses_an_invalid_spec(run: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text("name: broken\n", encoding="utf-8")
    with pytest.raises(subprocess.CalledProcessError) as error:
        run(specs="./spec.yaml")
    assert error.value.returncode == 3


@pytest.mark.thorough
def test_action_pushes_signed_packages(
    run: Callable[..., dict[str, str]], mlpack: Mlpack, registry: FakeRegistry
) -> None:
    assert mlpack("key", "new", "ci", "--no-password").code == 0
    where = f"oci://{registry.host}/team"
    outputs = run(specs="hello-mpi", push=where, key=Path("ci.key").read_text(encoding="utf-8"))
    assert re.fullmatch(rf"{where}/hello-mpi@sha256:[0-9a-f]{{64}}", outputs["references"])
    assert mlpack("pull", f"{where}/hello-mpi:1.0", "--key", "ci.pub", "-d", "pulled").code == 0


def test_action_takes_no_input_into_the_text_of_a_script() -> None:
    """An input in a script could be a command; in the environment it is only a value."""
    for step in STEPS.values():
        assert "${{" not in step["run"]


def test_action_installs_the_command_that_it_runs() -> None:
    assert '"$SOURCE[sign]"' in STEPS["install"]["run"]
    assert callable(main)
