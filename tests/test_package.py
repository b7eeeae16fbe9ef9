"""A package that somebody has: what opening it gives, from a folder and from every way to pack one."""

from __future__ import annotations

import hashlib
import subprocess
from typing import TYPE_CHECKING

import pytest

from packager import archive, tree
from packager.errors import VerificationError
from packager.package import opened
from tests.broken import build

if TYPE_CHECKING:
    from pathlib import Path

# How people pack what they have unpacked: each of these is the same package.
WAYS = {
    "as built": ["tar", "czf", "{out}", "hello-mpi"],
    "with ./": ["tar", "czf", "{out}", "./hello-mpi"],
    "without a folder at the top": ["tar", "czf", "{out}", "-C", "hello-mpi", "."],
    "GNU format": ["tar", "--format=gnu", "-czf", "{out}", "hello-mpi"],
    "ustar": ["tar", "--format=ustar", "-czf", "{out}", "hello-mpi"],
    "pax with times": ["tar", "--format=posix", "-czf", "{out}", "hello-mpi"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("package") / "hello-mpi")


def test_a_folder_is_opened_where_it_is(folder: Path) -> None:
    with opened(folder) as package:
        assert package.name == "hello-mpi"
        assert package.folder == package.source == folder
        assert package.overlays == ("multi-node", "single-node")
        assert package.manifest["package"] == "hello-mpi"
        digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
        assert package.digest == f"sha256:{digest}"
        assert package.overlay("multi-node") == folder / "quickstart/k8s/mlops/multi-node"
        assert package.shown("README.md") == f"{folder}/README.md"


def test_a_folder_of_any_name_is_the_package_that_its_manifest_says(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "renamed").symlink_to(folder)
    with opened(tmp_path / "renamed") as package:
        assert package.name == "hello-mpi"


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_pack_it_is_the_same_package(way: str, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "packed.tgz"
    subprocess.run([part.format(out=path) for part in WAYS[way]], cwd=folder.parent, check=True)
    with opened(folder) as there, opened(path) as package:
        assert (package.name, package.digest, package.overlays) == (there.name, there.digest, there.overlays)
        assert package.shown("README.md") == f"{path}:README.md"
        assert _content(package.folder) == _content(folder)
        unpacked = package.folder
    assert not unpacked.exists(), "what was unpacked has to be gone"


def test_what_is_written_is_what_is_read(folder: Path, tmp_path: Path) -> None:
    read = tree.read(folder)
    path = tmp_path / "package.tar.gz"
    with path.open("wb") as stream:
        manifest = archive.write(read, stream)
    with opened(path) as package:
        again = tree.read(package.folder)
        assert package.digest == tree.digest(manifest)
        assert (again.name, again.about) == (read.name, read.about)
        assert [(e.path, e.size, e.mode) for e in again.entries] == [(e.path, e.size, e.mode) for e in read.entries]


def test_nothing_is_left_when_it_is_refused_half_way(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = tmp_path / "cut.tar.gz"
    subprocess.run(["tar", "czf", path, "hello-mpi"], cwd=folder.parent, check=True)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(VerificationError, match="ends too early"), opened(path):
        pass
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (["mkdir -p a && touch a/file"], "a holds no manifest.json"),
        (["mkdir -p a b"], "expected one folder with a manifest.json, found a, b"),
        ([], "expected one folder with a manifest.json, found nothing"),
    ],
)
def test_what_is_no_package(make: list[str], reason: str, tmp_path: Path) -> None:
    content = tmp_path / "content"
    content.mkdir()
    for command in make:
        subprocess.run(["sh", "-c", command], cwd=content, check=True)
    names = sorted(path.name for path in content.iterdir())
    path = tmp_path / "other.tar.gz"
    subprocess.run(["tar", "czf", path, "-C", content, *(names or ["--files-from=/dev/null"])], check=True)
    with pytest.raises(VerificationError, match=reason), opened(path):
        pass


def test_a_folder_without_a_manifest_is_no_package(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match=r"is not a package: it holds no manifest\.json"), opened(tmp_path):
        pass


def test_git_at_the_root_is_none_of_it(tmp_path: Path) -> None:
    folder = build(tmp_path / "package")
    before = tree.read(folder)
    (folder / ".git").mkdir()
    (folder / ".git/link").symlink_to("elsewhere")
    assert tree.read(folder) == before


def test_overlays_are_folders_with_a_kustomization(tmp_path: Path) -> None:
    folder = build(tmp_path / "package")
    mine = folder / "quickstart/k8s/mlops/a-mine"
    mine.mkdir()
    with opened(folder) as package:
        assert package.overlays == ("multi-node", "single-node")
    (mine / "kustomization.yaml").touch()
    with opened(folder) as package:
        assert package.overlays == ("multi-node", "a-mine", "single-node")


def _content(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mode)
        for path in folder.rglob("*")
        if path.is_file()
    }
