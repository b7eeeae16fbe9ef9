"""Tests of tasks of an MLCube and of sequences on a real cluster, under "restricted" as uid 12345."""

from __future__ import annotations

import json
import shlex
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.site import CHECKOUT, MPI_IMAGE, blocks
from tests.e2e.storage import only_one_for_one_node

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.site import Site
    from tests.e2e.storage import NodeFolder

pytestmark = pytest.mark.usefixtures("mpi_image")

READ = (
    'for word; do value=$(echo "$word" | cut -d= -f2);'
    " case $word in --name=*) name=$value ;; --chat=*) chat=$value ;; esac; done"
)
SAY = f'{READ}; echo "$0, $(cat "$name") from $(id -u)" >> "$chat"'
FAIL = "echo no such file: train.csv >&2; exit 3"


def cube(site: Site) -> Path:
    """Write a cube like MLCube's hello_world: two tasks that share files, and one that fails."""
    parameters = {
        "inputs": {"name": "names/alice.txt"},
        "outputs": {"chat": {"type": "file", "default": "chats/a.txt"}},
    }
    tasks: dict[str, Any] = {
        task: {"entrypoint": shlex.join(["sh", "-euc", script, task.capitalize()]), "parameters": parameters}
        for task, script in {"hello": SAY, "bye": SAY, "wrong": FAIL}.items()
    }
    values = {"name": "hello_world", "docker": {"image": MPI_IMAGE}, "k8s": {"pvc": "results"}, "tasks": tasks}
    folder = site.folder / "cube"
    (folder / "workspace/names").mkdir(parents=True)
    (folder / "workspace/names/alice.txt").write_text("Alice\n", encoding="utf-8")
    (folder / "mlcube.yaml").write_text(json.dumps(values), encoding="utf-8")
    (site.folder / "mlpack-site.yaml").write_text("ids: {uid: 12345}\n", encoding="utf-8")
    site.environment["XDG_CACHE_HOME"] = str(site.folder / "cache")
    return folder


RUN = "mlpack run ./cube --set overlays.wrong.retries=0 --pod-security restricted"


def test_tasks_of_a_cube_run_in_order_and_resume(site: Site, node: NodeFolder, volumes: str) -> None:
    cube(site)
    only_one_for_one_node(site, "results")
    run = f"{RUN} --site CLAIM_CLASS={volumes} --site CLAIM_SIZE=1Gi"
    storage = f"{node.path}/storage/output"
    node.run(f"chmod 777 {storage}")

    done = site.shell(f"{run} --task hello,bye -o json")
    assert done.returncode == 0, done.stderr
    created = "claim results is created, as the package's overlay workspace says; mlpack does not delete it\n"
    assert created in done.stderr
    hello, bye = map(json.loads, done.stdout.splitlines())
    assert [(one["task"], one["phase"], one["skipped"]) for one in (hello, bye)] == [
        ("hello", "succeeded", False),
        ("bye", "succeeded", False),
    ]
    assert hello["ended"] <= bye["started"]
    chat = "Hello, Alice from 12345\nBye, Alice from 12345\n"
    (package,) = (site.folder / "cache").glob("mlpack/runs/*/hello-world-task.tar.gz")
    site.run(f"mlpack workspace pull {package} pulled --overlay bye")
    assert (site.folder / "pulled/chats/a.txt").read_text(encoding="utf-8") == chat

    failed = site.shell(f"{run} --task bye,wrong,hello --resume")
    assert failed.returncode == 7
    name = "job/hello-world-task"
    assert f"bye is skipped: {name}-bye has succeeded already with this build\n" in failed.stderr
    assert "  | no such file: train.csv\n" in failed.stderr
    assert f"error: {name}-wrong has failed: " in failed.stderr
    assert "; not run: hello\nhint: the whole log: mlpack logs " in failed.stderr
    assert created not in failed.stderr
    assert node.run(f"cat {storage}/chats/a.txt") == chat


TRAIN = """\
  train:
    kind: Job
    command: [sh, -c, "echo trained"]
sequence: [train, server]
variants:"""


def test_sequence_ends_when_its_deployment_serves(site: Site) -> None:
    """The README's commands for kubectl run first; a run with --resume refuses their Job as foreign."""
    model = shutil.copytree(CHECKOUT / "tests/e2e/specs/serve", site.folder / "model")
    spec = model / "spec.yaml"
    text = spec.read_text(encoding="utf-8").replace("replicas: 2", "replicas: 1")
    spec.write_text(text.replace("variants:", TRAIN), encoding="utf-8")
    package = site.build("./model")
    train, serve = blocks(package, "One after the other")
    assert site.run(train, cwd=package).endswith("Complete\n")
    assert "successfully rolled out" in site.run(serve, cwd=package)

    refused = site.shell(f"mlpack run {package.name} --resume")
    assert refused.returncode == 9
    assert "job/serve-train exists, but is not of this build (not deployed by mlpack)" in refused.stderr
    for options, skipped in (("--replace", False), ("--resume", True)):
        results = map(json.loads, site.run(f"mlpack run {package.name} {options} -o json").splitlines())
        assert [(one["task"], one["phase"], one["skipped"]) for one in results] == [
            ("train", "succeeded", skipped),
            ("server", "serving", skipped),
        ]
