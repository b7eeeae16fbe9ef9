"""Tests of the use case `packager.cluster.deploy`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from packager.cluster.deploy import apply, prepare, printed
from packager.cluster.target import Target
from tests.life import JOB, POD, Life

MPIJOB = f"mpijob/{JOB}"


def test_prepare_keeps_first_author(opened: Callable[..., Target]) -> None:
    apply(prepare(opened()))
    again = prepare(opened(person="bob@desk"))
    assert (again.is_same, again.obstacle, again.loss, again.author) == (True, None, None, "ann@desk")


def test_prepare_detects_manually_changed_workload(opened: Callable[..., Target], life: Life) -> None:
    target = opened("single-node")
    apply(prepare(target))
    assert prepare(target).is_same
    life.find("Pod", POD)["spec"]["containers"][0]["image"] = "another:1"
    prepared = prepare(target)
    assert prepared.obstacle is not None
    assert prepared.obstacle.endswith("already exists with a different spec, and its pods cannot be changed in place")


def test_prepare_ignores_change_that_policy_makes_at_each_deploy(
    opened: Callable[..., Target], life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = opened("single-node")
    apply(prepare(target))
    merged = life.merged

    def mirrored(manifest: dict[str, Any]) -> dict[str, Any]:
        item = merged(manifest)
        if item["kind"] == "Pod":
            item["spec"]["containers"][0]["image"] = "mirror.example/mpi-pi:1"
        return item

    monkeypatch.setattr(life, "merged", mirrored)
    life.find("Pod", POD)["spec"]["containers"][0]["image"] = "mirror.example/mpi-pi:1"
    for person in (target.person, "another@desk"):
        prepared = prepare(replace(target, person=person))
        assert (prepared.is_same, prepared.obstacle) == (True, None)


def test_printed_reads_applied_objects_with_kubectl(target: Target, life: Life) -> None:
    apply(prepare(target))
    printed(target, "name")
    assert f"mpijob.kubeflow.org/{JOB} --ignore-not-found" in life.calls[-1]
