"""Tests that XGBoost trains on a table on three nodes, resumes after a drain, and serves the model."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.site import CHECKOUT, Images, last_json
from tests.e2e.test_server import forwarded
from tests.e2e.test_truth_verdicts import evict

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.trains

NAME = "xgboost-tabular-cpu"
MODEL = "/v1/models/xgboost-tabular"
SMALL = ("--set variants.0.resources.requests.cpu=50m", "--set environment.THREADS.value=1")
LONG = (
    "--set environment.ROUNDS.value=3000",
    "--set environment.LEARNING_RATE.value=0.01",
    "--set environment.CHECKPOINT_EVERY.value=1000",
)
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
SAME = 0.002
"""By how much the loss of a resumed training may differ: XGBoost adds up loaded trees in another order."""


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


def test_drained_training_resumes_with_the_same_loss(site: Site, claim: str) -> None:
    """A pod of three is evicted in the middle; one node takes as many rounds without interruption."""
    reference = Faulty(site, site.folder / NAME, "single-node")
    package_of(site, *LONG)
    deploy = reference.run("deploy", "--timeout", "10m", timeout=660)
    assert deploy.code == 0, deploy.err
    uninterrupted = last_json(reference.run("logs").out)
    assert reference.run("delete").code == 0

    package_of(site, claim, *LONG)
    package = Faulty(site, site.folder / NAME, "multi-node")
    with package.running("deploy") as deployed:
        package.until_logged('"round": 50,')
        evict(
            site,
            site.run("kubectl get pods -l batch.kubernetes.io/job-completion-index=1 -o name").split("/")[1].strip(),
        )
        _, stderr = deployed.communicate(timeout=660)
    assert deployed.returncode == 0, stderr
    assert "all pods were started again once after a drain" in stderr
    log = package.run("logs").out
    resumed = last_json(log)
    assert re.search(r"^resuming after round \d+ of 3000$", log, flags=re.MULTILINE)
    assert 50 <= resumed["resumed_from"] < resumed["rounds"] == 3000
    assert resumed["held_out_logloss"] == pytest.approx(uninterrupted["held_out_logloss"], abs=SAME)
    assert resumed["workers"] == 3
