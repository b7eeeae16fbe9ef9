"""Tests of `mlpack options`: it lists what a package has, and what can be added to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.package.options import OPTIONS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Mlpack


def test_options_of_package_are_listed_with_their_overlays_keys_and_level(mlpack: Mlpack, package: Path) -> None:
    answers = ("--overlay", "single-node", "--with", "nfs", "--set", "NFS_SERVER=nfs.example.com", "--root", "/srv")
    assert mlpack("configure", package, *answers).code == 0
    listed = mlpack("options", package, "-o", "json").json
    options = {option.pop("name"): option for option in listed["options"]}
    assert listed["package"] == "hello-mpi"
    assert {name for name in options if options[name]["in_package"]} == {"output-pvc", "dataset-pvc", "nfs"}
    assert options["nfs"] == {
        "summary": "folders on an NFS server, with the same paths on the server and in the container",
        "in_package": True,
        "on": ["single-node"],
        "keys": ["NFS_SERVER"],
        "pod_security": "baseline",
    }
    assert options["pvc"]["keys"] == ["OUTPUT_CLAIM", "OUTPUT_FOLDER", "DATASET_CLAIM", "DATASET_FOLDER"]
    assert "exclusive" not in options, "it is for a JobSet"

    done = mlpack("options", package)
    assert done.stdout.splitlines()[0].split("  ")[0] == "OPTION"
    [line] = [line for line in done.stdout.splitlines() if line.startswith("nfs ")]
    assert line.split()[1:5] == ["on:", "single-node", "NFS_SERVER", "baseline"]
    assert done.stderr == "`mlpack configure PACKAGE --with OPTION` adds an option to the package and switches it on\n"


def test_package_with_all_options_has_nothing_to_add(mlpack: Mlpack, full_package: Path) -> None:
    done = mlpack("options", full_package, "-o", "json")
    names = [option["name"] for option in done.json["options"]]
    assert names == [option.name for option in OPTIONS if option.name in names]
    assert all(option["in_package"] and option["on"] == [] for option in done.json["options"])
    assert mlpack("options", full_package).stderr == ""
