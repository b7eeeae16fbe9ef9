"""Tests that XGBoost trains on a table on three nodes, resumes after a drain, and serves the model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import CHECKOUT, Images, last_json
from tests.e2e.test_server import forwarded

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = [pytest.mark.trains, pytest.mark.thorough]

NAME = "xgboost-tabular-cpu"
MODEL = "/v1/models/xgboost-tabular"
SMALL = ("--set variants.0.resources.requests.cpu=50m", "--set environment.THREADS.value=1")
PATIENTS = (
    (
        "17.99 10.38 122.8 1001 0.1184 0.2776 0.3001 0.1471 0.2419 0.07871 1.095 0.9053 8.589 153.4 0.006399 0.04904 "
        "0.05373 0.01587 0.03003 0.006193 25.38 17.33 184.6 2019 0.1622 0.6656 0.7119 0.2654 0.4601 0.1189"
    ),
    (
        "13.08 15.71 85.63 520 0.1075 0.127 0.04568 0.0311 0.1967 0.06811 0.1852 0.7477 1.383 14.67 0.004097 0.01898 "
        "0.01698 0.00649 0.01678 0.002425 14.5 20.49 96.09 630.5 0.1312 0.2776 0.189 0.07283 0.3184 0.08183"
    ),
)
"""A malignant and a benign case of the table."""


@pytest.fixture(scope="module", autouse=True)
def xgboost(images: Images) -> str:
    return images.build(CHECKOUT / "model_specs/xgboost-tabular", "localhost/xgboost:3.4.1")


def package_of(site: Site, *options: str) -> str:
    """Build the model's package for uid 12345, and return its folder."""
    folder = site.build("xgboost-tabular", "--force", *SMALL, *options)
    site.run(f"mlpack configure {folder} --uid 12345 --gid 12346")
    return str(folder)


def test_run_trains_on_three_nodes_and_serves_the_model(site: Site, claim: str) -> None:
    package = package_of(site, claim)
    run = site.shell(f"mlpack run {package} --timeout 10m", timeout=660)
    assert run.returncode == 0, run.stderr
    log = site.run(f"mlpack logs {package} --overlay multi-node")
    summary = last_json(log)
    assert (summary["uid"], summary["gid"], summary["workers"]) == (12345, 12346, 3)
    assert (summary["rounds"], summary["resumed_from"]) == (100, 0)
    assert summary["held_out_logloss"] < 0.2
    assert summary["held_out_error"] < 0.1
    assert f"worker 0 of 3 on {NAME}-multi-node-worker-0-0: uid 12345" in log
    curl = "curl -sS --fail-with-body --max-time 60"
    with forwarded(site, f"service/{NAME}-serving") as address:
        features = json.loads(site.run(f"{curl} {address}{MODEL}"))["features"]
        patients = [dict(zip(features, map(float, values.split()), strict=True)) for values in PATIENTS]
        (site.folder / "patients.json").write_text(json.dumps({"instances": patients}))
        predictions = json.loads(site.run(f"{curl} {address}{MODEL}:predict -d @patients.json"))["predictions"]
        assert [prediction["class"] for prediction in predictions] == ["malignant", "benign"]
        assert "xgboost_rows_total 2\n" in site.run(f"{curl} {address}/metrics")
