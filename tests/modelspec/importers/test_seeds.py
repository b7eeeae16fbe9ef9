"""The import of inputs that are in a cube's folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from packager.base import yamlio
from packager.modelspec.importers.mlcube import Choices
from packager.modelspec.importing import ModelDestination, import_mlcube
from packager.package.layout import SCRIPTS
from tests import tools

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CUBE = """\
name: greet
docker: {image: "example/greet:1"}
tasks:
  greet:
    parameters:
      inputs: {name: {type: file, default: names/alice.txt}, raw: {type: directory, default: raw}}
      outputs: {chat: {type: file, default: chats/alice.txt}}
"""


def cube(folder: Path, files: Mapping[str, str | bytes], text: str = CUBE) -> Path:
    """Write a cube with files in its folder, and return the folder."""
    for name, content in {"mlcube.yaml": text, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def seeds(folder: Path, tmp_path: Path) -> tuple[dict[str, bytes], list[str]]:
    """Import a cube, and return the model's files other than the spec, and the findings about inputs."""
    result = import_mlcube(folder, ModelDestination(tmp_path / "models"), Choices())
    found = {
        path.relative_to(result.folder).as_posix(): path.read_bytes()
        for path in result.files
        if path.name != "spec.yaml"
    }
    return found, [finding.message.partition(": ")[2] for finding in result.findings if "package: " in finding.message]


def test_inputs_are_copied_into_the_model(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"workspace/raw/a/1": "1", "workspace/raw/b": b"\xff"}
    folder = cube(tmp_path / "c", {"workspace/names/alice.txt": "Alice", **files})
    assert seeds(folder, tmp_path) == (
        {
            "seeds/workspace/names/alice.txt": b"Alice",
            "seeds/workspace/raw/a/1": b"1",
            "seeds/workspace/raw/b": b"\xff",
        },
        [],
    )


def test_output_of_a_task_is_not_copied(tmp_path: Path) -> None:
    text = CUBE.replace("outputs: {", "outputs: {made: {type: directory, default: raw}, ")
    assert seeds(cube(tmp_path / "c", {"workspace/raw/1": "1"}, text), tmp_path) == ({}, [])


def large(folder: Path) -> None:
    (folder / "1").write_bytes(b"x" * (201 << 10))


def many(folder: Path) -> None:
    for number in range(201):
        (folder / str(number)).touch()


def linked(folder: Path) -> None:
    (folder / "secret").symlink_to("/etc/hostname")


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def oddly_named(folder: Path) -> None:
    (folder / "a b\x1b[2J").touch()


def deep(folder: Path) -> None:
    (folder / "x" / ("y" * 200)).mkdir(parents=True)
    (folder / "x" / ("y" * 200) / "z").touch()


FORM = "expected letters, digits and - . _ + @ between the slashes, at most 194"
ROOM = "inputs in a package take at most 200 KiB in 200 files"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (large, ROOM),
        (many, ROOM),
        (deep, f"'workspace/raw/x/{'y' * 12}...{'y' * 26}/z': {FORM}"),
        (linked, "workspace/raw/secret is a link that leaves the folder"),
        (oddly_named, f"'workspace/raw/a b?[2J': {FORM}"),
    ],
)
def test_input_that_cannot_be_copied_is_reported(spoil: Any, reason: str, tmp_path: Path) -> None:
    folder = cube(tmp_path / "c", {"workspace/names/alice.txt": "Alice"})
    (folder / "workspace/raw").mkdir()
    spoil(folder / "workspace/raw")
    assert seeds(folder, tmp_path) == ({"seeds/workspace/names/alice.txt": b"Alice"}, [reason])


@pytest.mark.parametrize("shell", ["sh", pytest.param("busybox sh", marks=pytest.mark.thorough)])
def test_init_copies_only_missing_inputs(shell: str, tmp_path: Path) -> None:
    files = {"workspace/names/alice.txt": "Alice", "workspace/raw/1": "one", "workspace/raw/a/2": "two"}
    folder = cube(tmp_path / "c", files)
    result = import_mlcube(folder, ModelDestination(tmp_path / "models"), Choices())
    spec, problems = yamlio.load((result.folder / "spec.yaml").read_bytes(), "spec.yaml")
    assert problems == []
    package, claim = tmp_path / "package", tmp_path / "claim"
    shutil.copytree(result.folder / "seeds", package / SCRIPTS / "seeds")
    for path in package.rglob("*"):
        path.chmod(0o555)  # as the kubelet mounts a ConfigMap
    environment = {
        "MODEL_DIR": str(package),
        **{key: entry["value"] for key, entry in spec.data["overlays"]["greet"]["environment"].items()},
    }
    words = [
        word.replace("/mnt/mlcube/greet", str(claim)) for word in spec.data["overlays"]["greet"]["init"]["command"]
    ]
    for key, value in environment.items():
        words = [word.replace(f"$({key})", value) for word in words]

    def init() -> dict[str, str]:
        subprocess.run([*tools.command(shell), *words[1:]], check=True, env={"PATH": os.environ["PATH"]})
        return {
            path.relative_to(claim).as_posix(): path.read_text() for path in sorted(claim.rglob("*")) if path.is_file()
        }

    claim.mkdir()
    whole = {"names/alice.txt": "Alice", "raw/1": "one", "raw/a/2": "two"}
    assert init() == whole
    assert (claim / "chats").is_dir()
    (claim / "names/alice.txt").write_text("changed")
    (claim / "raw/1").unlink()
    (claim / ".mlpack-seed-raw").mkdir()
    (claim / "raw.seed").write_text("of the user")
    changed = {"names/alice.txt": "changed", "raw.seed": "of the user"}
    assert init() == {**changed, "raw/a/2": "two"}  # existing files and folders stay
    shutil.rmtree(claim / "raw")
    (claim / ".mlpack-seed-raw/half").write_text("written when the pod was killed")
    assert init() == {**whole, **changed}
