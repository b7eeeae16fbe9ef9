"""Tests of the comparison of a package with its inventory."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import VerificationError
from packager.configure import diff
from packager.package.opened import opened

if TYPE_CHECKING:
    from pathlib import Path

    from packager.configure.diff import PackageEdits

ENV = "quickstart/k8s/mlops/single-node/mlops.env"
README = "README.md"


def difference(folder: Path) -> PackageEdits:
    with opened(folder) as package:
        return diff.read(package)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_only_changes_beside_values_and_options_are_in_the_patch(package: Path) -> None:
    assert difference(package).is_empty
    edit(package / ENV, "REGISTRY=docker.io", "REGISTRY=example.com")
    content = difference(package)
    assert [(item.key, item.after) for item in content.edits] == [("REGISTRY", "example.com")]
    assert content.others == b""
    assert b"+REGISTRY=example.com\n" in content.patch


@pytest.mark.thorough  # for the program patch
def test_patch_makes_delivered_package_the_edited_one(package: Path, hello_mpi: Path, tmp_path: Path) -> None:
    edit(package / ENV, "REGISTRY=docker.io", "REGISTRY=example.com")
    edit(package / ENV, "# Where the dataset", "# My dataset")
    (package / ENV.replace("mlops.env", "pod-patch.yaml")).unlink()
    (package / "note.txt").write_text("mine")
    (package / "my notes.txt").write_text("mine\n")
    applied = shutil.copytree(hello_mpi, tmp_path / "applied")
    patch = difference(package).patch
    for command in (["git", "apply"], ["git", "apply", "-R"], ["patch", "-p1", "-s"]):
        subprocess.run(command, cwd=applied, input=patch, check=True)
    contents = [
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (package, applied)
    ]
    assert contents[0] == contents[1]


def test_other_changes_mask_secrets(package: Path) -> None:
    edit(package / ENV, "REGISTRY=docker.io", "REGISTRY=docker.io\n---TOKEN=sesame\n# HF_TOKEN=sesame")
    edit(package / ENV.replace("mlops.env", "pod.yaml"), "kind: Pod", "kind: Pod # https://me:sesame@example.com")
    content = difference(package)
    assert b"sesame" not in content.others
    assert content.patch.count(b"sesame") == 3


def test_changed_file_without_delivered_text_is_listed(package: Path) -> None:
    edit(package / README, "\n", "\n\n")
    (package / "Dockerfile").unlink()
    (package / "picture.bin").write_bytes(b"\0\n")
    (package / "spec.yaml").chmod(0o755)
    content = difference(package)
    assert content.not_in_patch == {
        "Dockerfile": "deleted",
        README: "the package does not contain its delivered text",
        "picture.bin": "not a text",
        "spec.yaml": "its mode is 0755, and was 0644",
    }
    assert not content.is_empty


def test_text_in_inventory_must_match_its_digest(package: Path) -> None:
    inventory = json.loads((package / "manifest.json").read_text())
    inventory["editable"][ENV][0] = "# forged"
    (package / "manifest.json").write_text(json.dumps(inventory))
    edit(package / ENV, "REGISTRY=docker.io", "REGISTRY=example.com")
    with pytest.raises(VerificationError, match="do not match its digest"):
        difference(package)


def test_new_file_with_name_of_delivered_text_is_compared_with_it(package: Path) -> None:
    content = (package / ENV).read_bytes()
    digest = json.loads((package / "manifest.json").read_text())["files"][ENV]["sha256"]
    assert hashlib.sha256(content).hexdigest() == digest
    with opened(package) as current:
        assert diff.delivered(current, ENV) == content
        assert diff.delivered(current, README) is None


def test_json_contains_edits_with_masked_secrets(package: Path) -> None:
    env = package / ENV
    env.write_text(env.read_text().replace("=docker.io", "=example.com") + "HF_TOKEN=sesame\n")
    content = diff.diff(package).as_json()
    edits = content.pop("edits")
    assert edits == [
        {"file": ENV, "kind": "value", "key": "REGISTRY", "before": "docker.io", "after": "example.com"},
        {"file": ENV, "kind": "value", "key": "HF_TOKEN", "before": None, "after": "***"},
    ]
    assert content.pop("digest").startswith("sha256:")
    assert content == {"package": "hello-mpi", "other_changes": "", "not_in_patch": {}}
