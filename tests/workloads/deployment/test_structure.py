"""The manifests of a Deployment: as built, and the findings of `verify` in edited ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from packager.verify import objects
from tests import demo, written

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "quickstart/k8s/mlops/multi-node"
SERVER = "{kind: MPIJob} => {kind: Deployment, replicas: 2, ports: {http: {port: 8080}}}"

SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: a}
spec: {selector: {app.kubernetes.io/instance: a}, ports: [{port: 8080, targetPort: http}]}
"""


def built(folder: Path, *settings: str, spec: str = SERVER) -> dict[str, Any]:
    """Return the manifests that are written for the demo as a Deployment, by their files' names."""
    loaded = load(demo.write(folder, demo.changed(spec)), [parse_setting(setting) for setting in settings])
    entries = render(plan(loaded, loaded.spec.variants[0], Options())).entries
    return {
        entry.path.rpartition("/")[2]: yaml.safe_load(entry.content)
        for entry in entries
        if entry.path.startswith(FOLDER) and entry.path.endswith(".yaml") and isinstance(entry.content, bytes)
    }


def test_rollout_removes_replicas_only_after_new_ones_are_ready(tmp_path: Path) -> None:
    spec = built(tmp_path)["deployment.yaml"]["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    template = spec["template"]["spec"]
    assert template["terminationGracePeriodSeconds"] == 35
    assert template["containers"][0]["lifecycle"] == {"preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 5"]}}}


def test_rollout_without_surge_stops_a_replica_before_its_successor_starts(tmp_path: Path) -> None:
    spec = built(tmp_path, "overlays.multi-node.surge=0")["deployment.yaml"]["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}


@pytest.mark.parametrize(
    ("ready", "handler"),
    [
        ("", {"tcpSocket": {"port": "http"}}),
        ("ready: {port: http, path: /healthz}", {"httpGet": {"port": "http", "path": "/healthz"}}),
        ("ready: {command: [cat, /run/ready]}", {"exec": {"command": ["cat", "/run/ready"]}}),
    ],
)
def test_probes_follow_readiness_of_the_spec(tmp_path: Path, ready: str, handler: dict[str, Any]) -> None:
    spec = SERVER.replace("replicas: 2", f"starts_within: 61, {ready}").replace(", ,", ",")
    [main] = built(tmp_path, spec=spec)["deployment.yaml"]["spec"]["template"]["spec"]["containers"]
    assert {probe: main[probe] for probe in main if probe.endswith("Probe")} == {
        "startupProbe": {**handler, "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 31},
        "readinessProbe": {**handler, "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 5},
        "livenessProbe": {**handler, "periodSeconds": 20, "timeoutSeconds": 10, "failureThreshold": 9},
    }


def test_verify_refuses_a_service_for_a_pod() -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: main}]}\n"
    problems = objects.check(written.overlay(f"{pod}---\n{SERVICE}"), frozenset())
    assert [str(problem) for problem in problems] == [
        "file.yaml:7:7: Service a: kind: no build creates a Service (--allow Service permits it)"
    ]
