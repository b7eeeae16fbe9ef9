"""Tests of `packager.site.defaults`: what a site sets for which package, and where it says so."""

from __future__ import annotations

from pathlib import Path

from packager.site.defaults import Defaults, Labels, defaults
from packager.site.read import parsed
from tests.site.test_read import COMPLETE

PATH = Path("site.yaml")


def defaults_of(text: str, labels: Labels | None) -> Defaults:
    return defaults(parsed(PATH, text.encode()), labels)


def test_defaults_are_those_of_all_packages() -> None:
    values = defaults_of(COMPLETE, Labels("bert"))
    assert (values.registry, values.root) == ("reg.example.com/team", "/nfs/models")
    assert values.ids == {"uid": 2000, "gid": 3000, "fs_group": 4000}
    assert values.storage == ("pvc",)
    assert values.options == ("queue", "placement", "pull-secret", "shared-memory")
    assert values.values == {
        "OUTPUT_CLAIM": "results",
        "DATASET_CLAIM": "dataset",
        "SHM_SIZE": "8Gi",
        "QUEUE": "user-queue",
        "PULL_SECRET": "registry",
    }
    assert values.placement == {
        "nodeSelector": {"pool": "train"},
        "tolerations": [{"key": "train", "operator": "Exists", "effect": "NoSchedule"}],
    }


def test_matching_overrides_replace_values() -> None:
    values = defaults_of(COMPLETE, Labels("hello-mpi"))
    assert values.values["QUEUE"] == "small"
    assert values.values["SHM_SIZE"] == "1Gi"
    assert {entry.key: entry.place for entry in values.entries}["queue"] == "site.yaml:15"
    assert {entry.key: entry.place for entry in values.entries}["registry"] == "site.yaml:1"
    values = defaults_of(COMPLETE, Labels("bert", mode="inference"))
    assert values.storage == ("scratch",)
    assert "OUTPUT_CLAIM" not in values.values
    assert defaults_of(COMPLETE, Labels("bert", mode="training")).storage == ("pvc",)
    text = "overrides: [{package: '*', queue: a}, {package: 'b*t', labels: {framework: mpi}, queue: b}]"
    assert defaults_of(text, Labels("bert", framework="mpi")).values["QUEUE"] == "b"
    assert defaults_of(text, Labels("bert")).values["QUEUE"] == "a"
    values = defaults_of("", Labels("bert"))
    assert (values.entries, values.storage, values.options, values.registry) == ((), None, (), None)
