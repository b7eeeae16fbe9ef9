"""Tests of an array on a real cluster: an Indexed Job that runs a command once for each index."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.site import CHECKOUT

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")

SHOWN = "job/sweep-search-sweep"


def sweep(site: Site, *settings: str) -> Faulty:
    """Build the package of the sweep, with the user id 12345."""
    sets = " ".join(f"--set {setting}" for setting in settings)
    folder = site.build(f"{CHECKOUT}/tests/e2e/specs/sweep", sets)
    package = Faulty(site, folder, "sweep")
    configured = package.run("configure", "--uid", "12345", "--gid", "12345")
    assert configured.code == 0, configured.err
    return package


def test_each_index_runs_once(site: Site) -> None:
    package = sweep(site)
    deploy = package.run("deploy")
    assert deploy.code == 0, deploy.err
    assert f"{SHOWN} has succeeded\n" in deploy.err
    answer = json.loads(package.run("status", "-o", "json").out)
    assert answer["summary"] == "all 6 indexes have succeeded"
    assert [pod["name"].removeprefix("sweep-search-sweep-")[0] for pod in answer["pods"]] == list("012345")
    output = "/ROOT/sweep-search/output"
    assert package.run("logs", "--worker", "3").out == f"index 3 as 12345\n{output} is {output}\n"
    ends = package.run("logs", "--tail", "1").out.splitlines()
    assert [re.sub(r"-\w{5}\] ", "] ", line) for line in ends] == [
        f"[sweep-search-sweep-{index}] {output} is {output}" for index in range(6)
    ]
    assert package.run("logs", "--tail", "0").out == ""
    package.delete()


def test_recorded_run_brings_back_the_results_of_each_index(site: Site) -> None:
    package = sweep(site, "overlays.sweep.completions=3")
    done = package.run("deploy", "--results", str(site.folder / "runs"))
    assert done.code == 0, done.err
    (record,) = (site.folder / "runs").glob("*/*")
    assert [(record / f"output/{index}/result.txt").read_text() for index in "012"] == ["of 0\n", "of 1\n", "of 2\n"]
    verdict = json.loads((record / "verdict.json").read_text())
    assert (verdict["phase"], verdict["missing"]) == ("succeeded", [])
    assert [(answer["files"], answer["complete"]) for answer in verdict["results"]] == [(1, True)] * 3
    assert len(list(record.glob("logs/*/main.log"))) == 3
    package.delete()
