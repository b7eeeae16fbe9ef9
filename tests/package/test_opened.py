"""Packages are opened from a folder, and from archives as a build makes them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import UsageError, VerificationError
from packager.base.paths import DEFAULT_LIMITS
from packager.package import integrity
from packager.package.layout import INVENTORY
from packager.package.opened import opened
from tests.broken import build, pack

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("package") / "hello-mpi")


def test_folder_is_opened_in_place(folder: Path) -> None:
    with opened(folder) as package:
        assert package.name == "hello-mpi"
        assert package.folder == package.source == folder
        assert package.overlays == ("multi-node", "single-node")
        assert package.inventory["package"] == "hello-mpi"
        digest = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
        assert package.digest == f"sha256:{digest}"
        assert package.overlay("multi-node") == folder / "quickstart/k8s/mlops/multi-node"
        assert package.shown("README.md") == f"{folder}/README.md"


def test_archive_packed_by_hand_is_refused_with_a_command_that_unpacks_it(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "hello-mpi")
    path = tmp_path / "my package.tar.gz"
    subprocess.run(["tar", "-czf", path, "hello-mpi"], cwd=tmp_path, check=True)
    with pytest.raises(VerificationError) as refused, opened(path):
        pass
    assert str(refused.value) == f"{path} was packed by another program than mlpack, or is damaged"
    command = f"tar -xzf '{path}'"
    assert refused.value.hint == (
        f"if you have packed it again, unpack it with `{command}`, and name its folder instead"
    )
    shutil.rmtree(tmp_path / "hello-mpi")
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    with opened(tmp_path / "hello-mpi") as package:
        assert package.name == "hello-mpi"


def test_refused_archive_leaves_no_files(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = tmp_path / "cut.tar.gz"
    pack(folder, path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(VerificationError, match="ends too early"), opened(path):
        pass
    assert list(temporary.iterdir()) == []


def test_archive_without_one_package_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.tar.gz"
    for names, reason in (("a", "a contains no manifest.json"), ("ab", "a, b contains no manifest.json")):
        with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as packed:
            for name in names:
                packed.addfile(tarfile.TarInfo(f"{name}/x"))
        with pytest.raises(VerificationError, match=reason), opened(path):
            pass


def test_folder_without_inventory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match=r"is not a package: it contains no manifest\.json"), opened(tmp_path):
        pass


ACTIVE = (
    *(".git/config", ".GIT/config", ".git /config", ".git./config", "quickstart/scripts/.git"),
    *(".g\u200cit/config", "\u200d.git", "git~1/config", "quickstart/GITMOD~1"),
    *(".gitmodules", ".gitattributes", ".hg/hgrc", ".svn/x", ".jj/x"),
    *(".envrc", ".vscode/tasks.json", ".idea/x", ".github/workflows/x.yaml", ".devcontainer/devcontainer.json"),
    *("quickstart/.dockerignore", "assets/repo/HEAD", "assets/repo/HEAD ", "HEAD"),
)


@pytest.mark.parametrize("name", [".GIT/config", "quickstart/.gitattributes", ".vscode/tasks.json", "assets/repo/HEAD"])
def test_name_that_programs_act_on_is_refused_in_an_archive(folder: Path, tmp_path: Path, name: str) -> None:
    """Git, for example, runs commands in a repository's configuration."""
    shutil.copytree(folder, tmp_path / "hello-mpi")
    file = tmp_path / "hello-mpi" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[core]\n\tfsmonitor = touch evil\n")
    path = tmp_path / "p.tar.gz"
    pack(tmp_path / "hello-mpi", path)
    with pytest.raises(VerificationError, match="a package contains no file or folder with the name"), opened(path):
        pass


def test_name_that_programs_act_on_is_refused_if_it_is_sealed(folder: Path, tmp_path: Path) -> None:
    package = shutil.copytree(folder, tmp_path / "hello-mpi")
    before = (package / INVENTORY).read_text()
    for name in ACTIVE:
        sealed = json.loads(before)
        sealed["files"][name] = {"mode": "0644", "sha256": "0" * 64}
        (package / INVENTORY).write_text(json.dumps(sealed))
        with pytest.raises(VerificationError, match="is not the inventory of a package: "), opened(package):
            pass


@pytest.mark.parametrize("name", ["Makefile", "quickstartx/y"])
def test_sealed_file_that_no_build_makes_is_reported(folder: Path, tmp_path: Path, name: str) -> None:
    package = shutil.copytree(folder, tmp_path / "hello-mpi")
    file = package / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    sealed = json.loads((package / INVENTORY).read_text())
    sealed["files"][name] = {"mode": "0644", "sha256": hashlib.sha256(b"").hexdigest()}
    (package / INVENTORY).write_text(json.dumps(sealed))
    with opened(package) as whole:
        problems = integrity.check(whole, DEFAULT_LIMITS).problems
    assert [str(problem) for problem in problems] == [f"{file}: no build makes a file at this place of a package"]


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc"), Path.mkdir])
def test_git_folder_in_a_package_is_noted_without_reading_it(
    folder: Path, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    package = shutil.copytree(folder, tmp_path / "hello-mpi")
    make(package / ".git")
    if (package / ".git").is_dir() and not (package / ".git").is_symlink():
        os.mkfifo(package / ".git/index")
        (package / ".git/link").symlink_to("/etc")
    with opened(package) as whole:
        checked = integrity.check(whole, DEFAULT_LIMITS)
    message = "it is not part of the package, and was not looked at; git runs programs that are named in it"
    assert (checked.problems, [str(note) for note in checked.notes]) == ([], [f"{package}/.git: {message}"])


def test_archive_with_results_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "hello-mpi")
    (tmp_path / "hello-mpi/output").mkdir()
    (tmp_path / "hello-mpi/output/evil.sh").touch()
    path = tmp_path / "p.tar.gz"
    pack(tmp_path / "hello-mpi", path)
    with opened(path) as package:
        problems = integrity.check(package, DEFAULT_LIMITS).problems
    assert [str(problem) for problem in problems] == [
        f"{path}:output/evil.sh: the package was not sealed with this file"
    ]
    with opened(tmp_path / "hello-mpi") as package:
        assert integrity.check(package, DEFAULT_LIMITS).problems == []


def test_overlays_are_folders_with_a_kustomization(tmp_path: Path) -> None:
    folder = build(tmp_path / "package")
    mine = folder / "quickstart/k8s/mlops/a-mine"
    mine.mkdir()
    with opened(folder) as package:
        assert package.overlays == ("multi-node", "single-node")
    (mine / "kustomization.yaml").touch()
    with opened(folder) as package:
        assert package.overlays == ("multi-node", "a-mine", "single-node")


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        ((), {"signature": "good"}, "Object contains unknown field `signature`"),
        (("files", "README.md"), {"link": "/etc/passwd"}, "contains unknown field `link` - at `$.files[...]`"),
        ((), {"version": "1.0"}, "at `$.version`"),
        (("spec",), {"set": "x"}, "Expected `array`, got `str` - at `$.spec.set`"),
    ],
)
def test_inventory_with_other_entries_than_a_build_makes_is_refused(
    folder: Path, tmp_path: Path, place: tuple[str, ...], value: dict[str, object], complaint: str
) -> None:
    package = shutil.copytree(folder, tmp_path / "hello-mpi")
    inventory = json.loads((package / INVENTORY).read_text())
    target = inventory
    for key in place:
        target = target[key]
    target.update(value)
    (package / INVENTORY).write_text(json.dumps(inventory))
    with pytest.raises(VerificationError) as refused, opened(package):
        pass
    assert str(refused.value).startswith(f"{package}/{INVENTORY} is not the inventory of a package: ")
    assert str(refused.value).endswith(complaint)


def test_executable_inventory_is_a_problem(folder: Path, tmp_path: Path) -> None:
    package = shutil.copytree(folder, tmp_path / "hello-mpi")
    (package / INVENTORY).chmod(0o755)
    archived = tmp_path / "p.tar.gz"
    pack(package, archived)
    for source in package, archived:
        with opened(source) as read:
            (problem,) = integrity.check(read, DEFAULT_LIMITS).problems
        assert problem.message == "expected the mode 0644, found 0755"
        assert problem.file.endswith(INVENTORY)
    (package / INVENTORY).chmod(0o664)
    with opened(package) as read:
        assert integrity.check(read, DEFAULT_LIMITS).problems == []


def test_missing_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no ") as error, opened(tmp_path / "resnet50"):
        pass
    assert error.value.hint == "`mlpack build MODEL` makes a package, and `mlpack list` shows the models"
