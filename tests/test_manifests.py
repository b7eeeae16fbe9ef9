"""What an overlay has to render to before it can be followed in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.life import JOB, rendered

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome
    from tests.life import Life

WORKLOAD = rendered("multi-node")[-1]


@pytest.mark.parametrize(
    ("objects", "found"),
    [([], "none"), ([WORKLOAD, WORKLOAD], f"MPIJob {JOB}, MPIJob {JOB}")],
    ids=["none", "two"],
)
def test_an_overlay_that_has_not_one_workload(
    mlpack: Callable[..., Outcome], life: Life, objects: list[dict[str, object]], found: str
) -> None:
    config = next(each for each in life.overlays["multi-node"] if each["kind"] == "ConfigMap")
    life.overlays["multi-node"] = [config, *objects]
    done = mlpack("deploy", "hello-mpi")
    assert done.code == 4
    assert done.stderr == (
        f"error: hello-mpi, multi-node: expected one workload (MPIJob, Pod), found {found}\n"
        "hint: kubectl itself applies anything: `kubectl apply -k`\n"
    )


def test_what_kubectl_renders_and_nobody_can_read(
    mlpack: Callable[..., Outcome], life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    from packager.process import Finished

    assert life
    monkeypatch.setattr("packager.kubectl.run", lambda *_arguments, **_options: Finished(0, "a: [", ""))
    done = mlpack("status", "hello-mpi")
    assert done.code == 4
    first, second = done.stderr.splitlines()
    assert first.startswith("hello-mpi, multi-node:")
    assert second == "error: hello-mpi, multi-node: what kubectl rendered cannot be read"


def test_a_package_without_overlays(mlpack: Callable[..., Outcome], life: Life) -> None:
    import shutil

    assert life
    shutil.rmtree("hello-mpi/quickstart/k8s")
    done = mlpack("status", "hello-mpi")
    assert (done.code, done.stderr) == (2, "error: hello-mpi has no overlays\n")
