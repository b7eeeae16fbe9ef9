"""Tests that a package with links, pipes, devices or huge files is refused by every verb, without reading them."""

from __future__ import annotations

import io
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from packager.base import plainfiles
from packager.base.errors import VerificationError
from packager.configure.settings import Files
from packager.package.opened import opened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome
    from tests.life import Life

OVERLAY = "quickstart/k8s/mlops/multi-node"

VERBS = {
    "verify": ["verify", "hello-mpi"],
    "configure": ["configure", "hello-mpi", "--root", "/nfs"],
    "configure --check": ["configure", "hello-mpi", "--check"],
    "configure -y": ["configure", "hello-mpi", "-y"],
    "doctor": ["doctor", "hello-mpi"],
    "deploy": ["deploy", "hello-mpi"],
    "deploy --no-verify": ["deploy", "hello-mpi", "--no-verify"],
    "run": ["run", "hello-mpi"],
    "status": ["status", "hello-mpi"],
    "logs": ["logs", "hello-mpi"],
    "results": ["results", "hello-mpi", "out"],
    "delete": ["delete", "hello-mpi"],
    "history": ["history", "hello-mpi"],
    "diff": ["diff", "hello-mpi"],
    "options": ["options", "hello-mpi"],
    "configure --set": ["configure", "hello-mpi", "--set", "A=b"],
    "deploy --dry-run": ["deploy", "hello-mpi", "--dry-run", "client"],
    "workspace push": ["workspace", "push", "hello-mpi", "."],
    "workspace ls": ["workspace", "ls", "hello-mpi"],
    "workspace pull": ["workspace", "pull", "hello-mpi", "out"],
    "image build": ["image", "build", "hello-mpi"],
    "image push": ["image", "push", "hello-mpi"],
}


def to_link(path: str, target: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        file = folder / path
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        file.symlink_to(target)

    return harm


def to_pipe(path: str) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        (folder / path).unlink(missing_ok=True)
        os.mkfifo(folder / path)

    return harm


def to_device(folder: Path) -> None:
    (folder / OVERLAY / "mlops.env").unlink()
    # The device 0, 0 is the only one that Linux lets an unprivileged user create.
    os.mknod(folder / OVERLAY / "mlops.env", 0o20644, os.makedev(0, 0))


def elsewhere(folder: Path) -> None:
    (folder / "quickstart").rename(folder.parent / "moved")
    (folder / "quickstart").symlink_to("../moved")


HARMS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a value's file leads out": (
        to_link(f"{OVERLAY}/mlops.env", "/etc/passwd"),
        f"hello-mpi: {OVERLAY}/mlops.env is a link, not a plain file",
    ),
    "a value's file without end": (
        to_link(f"{OVERLAY}/mlops.env", "/dev/zero"),
        f"hello-mpi: {OVERLAY}/mlops.env is a link, not a plain file",
    ),
    "a pipe for values": (
        to_pipe(f"{OVERLAY}/mlops.env"),
        f"hello-mpi: {OVERLAY}/mlops.env is a pipe, not a plain file",
    ),
    "a device for values": (to_device, f"hello-mpi: {OVERLAY}/mlops.env is a device, not a plain file"),
    "an overlay that is everything": (to_link(OVERLAY, "/"), f"hello-mpi: {OVERLAY} is a link, not a plain file"),
    "a patch is a link": (
        to_link(f"{OVERLAY}/mlops-job-patch.yaml", "mpi-job.yaml"),
        f"hello-mpi: {OVERLAY}/mlops-job-patch.yaml is a link, not a plain file",
    ),
    "all of it is elsewhere": (elsewhere, "hello-mpi: quickstart is a link, not a plain file"),
    "a pipe where nobody looks": (to_pipe("notes"), "hello-mpi: notes is a pipe, not a plain file"),
    "a pipe for the inventory": (to_pipe("manifest.json"), "hello-mpi/manifest.json is not a plain file"),
    "a link for the inventory": (to_link("manifest.json", "/dev/zero"), "hello-mpi/manifest.json is not a plain file"),
    "a folder that holds itself": (to_link("again", "."), "hello-mpi: again is a link, not a plain file"),
    "a name with a new line": (
        lambda folder: (folder / "new\nline").touch(),
        r"hello-mpi: 'new\nline': the name contains control characters",
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_package_with_irregular_file_is_refused(
    harm: str, life: Life, mlpack: Callable[..., Outcome], tmp_path: Path
) -> None:
    change, message = HARMS[harm]
    change(tmp_path / "hello-mpi")
    done = mlpack("deploy", "hello-mpi", "--no-verify")
    assert (done.code, done.stdout, done.stderr) == (5, "", f"error: {message}\n")
    assert life.calls == []


def test_each_verb_refuses_package_with_link(life: Life, mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    change, message = HARMS["a value's file leads out"]
    change(tmp_path / "hello-mpi")
    for verb, arguments in VERBS.items():
        done = mlpack(*arguments)
        assert (done.code, done.stdout, done.stderr) == (5, "", f"error: {message}\n"), verb
    assert life.calls == []


@pytest.mark.parametrize("verb", ["configure", "configure --check", "image build", "logs", "run", "workspace ls"])
def test_verb_refuses_env_file_of_one_gigabyte(
    verb: str, life: Life, mlpack: Callable[..., Outcome], tmp_path: Path
) -> None:
    os.truncate(tmp_path / "hello-mpi" / OVERLAY / "mlops.env", 1 << 30)
    done = mlpack(*VERBS[verb])
    assert (done.code, done.stdout) == (5, "")
    assert f"{OVERLAY}/mlops.env" in done.stderr
    assert "is larger than 1,024 KiB" in done.stderr
    assert not any("kustomize" in call for call in life.calls)


def test_package_opens_through_symlink(package: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(package)
    with opened(tmp_path / "link") as current:
        assert current.name == "hello-mpi"


@pytest.mark.parametrize("part", ["quickstart/k8s/mlops", OVERLAY, f"{OVERLAY}/mlops.env"])
def test_package_refuses_path_replaced_by_symlink_after_opening(part: str, package: Path, tmp_path: Path) -> None:
    with opened(package) as current:
        (package / part).rename(tmp_path / "moved")
        (package / part).symlink_to(tmp_path / "moved")
        with pytest.raises(VerificationError) as refused:
            Files(current).read(f"{OVERLAY}/mlops.env")
    assert str(refused.value) == f"{package}/{OVERLAY}/mlops.env is not a plain file"


@pytest.mark.parametrize("name", ["link", "pipe", "folder", "folder/link/file", "plain/below"])
def test_open_below_opens_only_plain_files(name: str, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"content")
    (tmp_path / "link").symlink_to("plain")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/link").symlink_to(".")
    (tmp_path / "folder/file").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(plainfiles.NotPlainError):
        plainfiles.open_below(tmp_path, name)
    with plainfiles.open_below(tmp_path, "plain") as stream:
        assert isinstance(stream, io.BufferedReader)
        assert stream.read() == b"content"


def test_status_refuses_overlay_that_includes_file_of_git_folder(
    life: Life, mlpack: Callable[..., Outcome], tmp_path: Path
) -> None:
    """No inventory lists files of .git, so no overlay may include them."""
    folder = tmp_path / "hello-mpi"
    (folder / ".git").mkdir()
    (folder / OVERLAY / "mpi-job.yaml").rename(folder / ".git/mpi-job.yaml")
    file = folder / OVERLAY / "kustomization.yaml"
    file.write_text(file.read_text().replace("- mpi-job.yaml", "- ../../../../.git/mpi-job.yaml"))
    done = mlpack("status", "hello-mpi")
    assert done.code == 5
    assert "there is no ../../../../.git/mpi-job.yaml" in done.stderr
    assert life.calls == []
