"""The bundled models of PyTorch and MXNet really train: on one node and on several, as a user whom no image knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import CHECKOUT, Images, last_json

if TYPE_CHECKING:
    from typing import Any

    from tests.e2e.site import Site

SMALL = (
    "--set environment.STEPS.value=4",
    "--set environment.BATCH_SIZE.value=2",
    "--set environment.IMAGE_SIZE.value=64",
)


@pytest.fixture(scope="module")
def pytorch(images: Images) -> str:
    return images.build(CHECKOUT / "model_specs/resnet50-pytorch", "localhost/pytorch:1.13.1")


@pytest.fixture(scope="module")
def mxnet(images: Images) -> str:
    return images.build(CHECKOUT / "model_specs/cifar10-mxnet", "localhost/mxnet:1.9.1")


def trained(site: Site, overlay: str, model: str, *options: str) -> dict[str, Any]:
    """Build a model's package, train with one of its overlays, and return the last line of the main pod's log."""
    package = site.build(model, *options)
    where = f"{package} --overlay {overlay}"
    site.run(f"mlpack configure {where} --uid 12345 --gid 12346")
    site.run(f"mlpack deploy {where} --timeout 5m", timeout=400)
    result = last_json(site.run(f"mlpack logs {where}"))
    site.run(f"mlpack delete {where} -y")
    assert (result["uid"], result["gid"], result["data"]) == (12345, 12346, "synthetic")
    return result


@pytest.mark.usefixtures("pytorch")
@pytest.mark.parametrize(
    ("overlay", "precision", "hosts"),
    [("single-node", "fp32", 1), ("single-node", "bf16", 1), ("multi-node", "fp32", 2)],
)
def test_pytorch_ends_with_equal_weights_on_both_ranks(site: Site, overlay: str, precision: str, hosts: int) -> None:
    result = trained(site, overlay, "resnet50-pytorch", f"--precision {precision}", *SMALL)
    assert (result["ranks"], len(result["hosts"]), result["steps"]) == (2, hosts, 4)
    assert result["weights_digest"].startswith("sha256:")  # every rank's, or the run had refused


@pytest.mark.usefixtures("mxnet")
@pytest.mark.parametrize(("overlay", "workers"), [("single-node", 1), ("multi-node", 2)])
def test_mxnet_trains_with_its_parameter_server(site: Site, overlay: str, workers: int) -> None:
    result = trained(site, overlay, "cifar10-mxnet", "--set environment.BATCH_SIZE.value=8")
    assert (result["workers"], result["epochs"]) == (workers, 1)
