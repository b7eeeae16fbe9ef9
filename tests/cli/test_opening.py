"""Tests that every command that reads a package refuses hostile folders and archives in the same way."""

import io
import os
import shutil
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest

from packager.base import paths
from packager.cli import verbs
from tests.conftest import Mlpack
from tests.life import Life
from tests.test_hostile import ARCHIVES

OVERLAY = "quickstart/k8s/mlops/multi-node"

VERBS = {
    "verify": ["verify", "hello-mpi"],
    "configure": ["configure", "hello-mpi", "--root", "/nfs"],
    "doctor": ["doctor", "hello-mpi"],
    "deploy": ["deploy", "hello-mpi"],
    "deploy --no-verify": ["deploy", "hello-mpi", "--no-verify"],
    "run": ["run", "hello-mpi"],
    "status": ["status", "hello-mpi"],
    "logs": ["logs", "hello-mpi"],
    "results": ["results", "hello-mpi", "out"],
    "delete": ["delete", "hello-mpi"],
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


def elsewhere(folder: Path) -> None:
    (folder / "quickstart").rename(folder.parent / "moved")
    (folder / "quickstart").symlink_to("../moved")


HARMS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a value's file leads out": (
        to_link(f"{OVERLAY}/mlops.env", "/etc/passwd"),
        f"hello-mpi: {OVERLAY}/mlops.env is a link, not a plain file",
    ),
    "all of it is elsewhere": (elsewhere, "hello-mpi: quickstart is a link, not a plain file"),
    "a pipe for the inventory": (to_pipe("manifest.json"), "hello-mpi/manifest.json is not a plain file"),
    "a name with a new line": (
        lambda folder: (folder / "new\nline").touch(),
        r"hello-mpi: 'new\nline': the name contains control characters",
    ),
}


@pytest.mark.parametrize("harm", HARMS)
def test_package_with_irregular_file_is_refused(harm: str, life: Life, mlpack: Mlpack, tmp_path: Path) -> None:
    change, message = HARMS[harm]
    change(tmp_path / "hello-mpi")
    done = mlpack("deploy", "hello-mpi", "--no-verify")
    assert (done.code, done.stdout, done.stderr) == (5, "", f"error: {message}\n")
    assert life.calls == []


def test_each_verb_refuses_package_with_link(life: Life, mlpack: Mlpack, tmp_path: Path) -> None:
    change, message = HARMS["a value's file leads out"]
    change(tmp_path / "hello-mpi")
    for verb, arguments in VERBS.items():
        done = mlpack(*arguments)
        assert (done.code, done.stdout, done.stderr) == (5, "", f"error: {message}\n"), verb
    assert life.calls == []


@pytest.mark.parametrize("verb", ["configure", "logs"])
def test_verb_refuses_env_file_of_one_gigabyte(verb: str, life: Life, mlpack: Mlpack, tmp_path: Path) -> None:
    os.truncate(tmp_path / "hello-mpi" / OVERLAY / "mlops.env", 1 << 30)
    done = mlpack(*VERBS[verb])
    assert (done.code, done.stdout) == (5, "")
    assert f"{OVERLAY}/mlops.env" in done.stderr
    assert "is larger than 1,024 KiB" in done.stderr
    assert not any("kustomize" in call for call in life.calls)


@pytest.mark.parametrize("name", ["link", "pipe", "folder", "folder/link/file", "plain/below"])
def test_open_below_opens_only_plain_files(name: str, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"content")
    (tmp_path / "link").symlink_to("plain")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/link").symlink_to(".")
    (tmp_path / "folder/file").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(paths.NotPlainError):
        paths.open_below(tmp_path, name)
    with paths.open_below(tmp_path, "plain") as stream:
        assert isinstance(stream, io.BufferedReader)
        assert stream.read() == b"content"


def test_status_refuses_overlay_that_includes_file_of_git_folder(life: Life, mlpack: Mlpack, tmp_path: Path) -> None:
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


NAMES = ("PACKAGE", "TARGET")
"""The names of an argument or an option that is a package."""

COMMANDS = {
    **VERBS,
    "bundle": ["bundle", "hello-mpi"],
    "inspect": ["inspect", "hello-mpi"],
    "lock": ["lock", "hello-mpi"],
    "task export": ["task", "export", "hello-mpi"],
    "push": ["push", "hello-mpi", "oci://localhost:1/hello-mpi:1"],
}


def test_table_has_every_command_that_reads_a_package() -> None:
    commands = [leaf for verb in verbs.VERBS for leaf in verbs.leaves(verb, verbs.load(verb))]
    readers = {name for name, command in commands if any(param.metavar in NAMES for param in command.params)}
    assert len(readers) > 15
    names = (takewhile(lambda word: word != "hello-mpi" and word[0] != "-", words) for words in COMMANDS.values())
    in_table = {" ".join(name) for name in names}
    assert readers == in_table


@pytest.fixture
def refused(life: Life, mlpack: Mlpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """A function that runs a command for one of the archives, which must refuse it and write nothing."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    (tmp_path / "site.yaml").write_text("registry: r.example\n", encoding="utf-8")
    archive = tmp_path / "p.tar.gz"
    archive.touch()
    before = sorted(tmp_path.iterdir())

    def refuse(command: str, name: str) -> None:
        content, reason = ARCHIVES[name]
        archive.write_bytes(content)
        done = mlpack(*("p.tar.gz" if word == "hello-mpi" else word for word in COMMANDS[command]))
        assert (done.code, done.stdout) == (5, ""), (command, name)
        assert done.stderr.count("\n") == 1 or "hint" in done.stderr, (command, name)
        assert done.stderr.startswith("error: p.tar.gz"), (command, name)
        assert reason in done.stderr, (command, name)
        assert life.calls == []
        assert sorted(tmp_path.iterdir()) == before
        assert not any(path.is_file() for path in temporary.rglob("*"))

    return refuse


def test_verify_refuses_each_hostile_archive(refused: Callable[[str, str], None]) -> None:
    for name in ARCHIVES:
        refused("verify", name)


def test_each_command_refuses_a_hostile_archive(refused: Callable[[str, str], None]) -> None:
    for command in COMMANDS:
        refused(command, next(iter(ARCHIVES)))
