"""Files that cannot be read, or change while they are: neither good nor bad, and never applied unseen."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base import paths
from packager.base.errors import ToolError
from packager.package.opened import Reader
from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from tests.conftest import Outcome
    from tests.life import Life

    Run = Callable[..., Outcome]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Lets the system refuse to open files of a name, as it does with mode 000 for everybody but root."""
    names: set[str] = set()
    system = os.open

    def refusing(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if Path(path).name in names:
            raise PermissionError(errno.EACCES, "Permission denied")
        return system(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refusing)
    return lambda path: names.add(path.name)


@pytest.fixture
def change(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, str, str], None]:
    """Changes a file each time when it has been opened: to something else, back, and so on."""
    changes: dict[Path, tuple[str, str]] = {}
    opened = paths.open_below

    def opening(folder: Path, path: str) -> IO[bytes]:
        file = (folder / path).resolve()
        stream = opened(folder, path)
        if file in changes:
            text, changes[file] = changes[file][0], changes[file][::-1]
            new = file.with_name(f"new-{threading.get_ident()}")  # several threads may open it at once
            new.write_text(text)
            new.chmod(file.stat().st_mode)
            new.replace(file)  # an open file keeps its content
        return stream

    monkeypatch.setattr(paths, "open_below", opening)

    def register(path: Path, old: str, new: str) -> None:
        before = path.read_text()
        assert old in before
        changes[path.resolve()] = (before.replace(old, new), before)

    return register


def test_verify_reports_unreadable_file_as_not_checked(
    mlpack: Run, package: Path, kubectl: Path, refuse: Callable[[Path], None]
) -> None:
    file = "quickstart/scripts/hello.sh"
    refuse(package / file)
    done = mlpack("verify", package, "--kubectl", kubectl)
    unread = f"not checked: {package}/{file} cannot be read: permission denied"
    so = [f"{unread}, so {name} was not rendered" for name in ("multi-node", "single-node") if "scripts" in file]
    assert (done.code, done.stdout, done.stderr.splitlines()) == (6, "", [unread, *so])
    answer = mlpack("verify", package, "--kubectl", kubectl, "-o", "json").json
    assert (answer["valid"], answer["exit_code"]) == (None, 6)


def test_verify_reports_problems_beside_an_unreadable_file(
    mlpack: Run, package: Path, kubectl: Path, refuse: Callable[[Path], None]
) -> None:
    refuse(package / "Dockerfile")
    (package / "extra").touch()
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (5, f"{package}/extra: the package was not sealed with this file\n")
    assert done.stderr == f"not checked: {package}/Dockerfile cannot be read: permission denied\n1 problem\n"


@pytest.mark.parametrize("verb", ["configure --root /nfs", "deploy"])
def test_verb_exits_with_6_for_an_unreadable_file(
    verb: str, life: Life, mlpack: Run, tmp_path: Path, refuse: Callable[[Path], None]
) -> None:
    refuse(tmp_path / "hello-mpi/manifest.json")
    words, option, value = verb.partition(" --")
    done = mlpack(*words.split(), "hello-mpi", *(option + value).split())
    assert (done.code, done.stdout) == (6, "")
    assert "hello-mpi/manifest.json cannot be read: permission denied" in done.stderr
    assert not any("apply" in call or "delete" in call for call in life.calls)


CHANGING = [
    ("quickstart/common/mpi/k8s/mlops/base/kustomization.yaml", "kind: Kust", "kind:  Kust"),
    ("quickstart/scripts/hello.sh", "#!", "#! "),
]


@pytest.mark.parametrize(("file", "old", "new"), CHANGING, ids=[case[0] for case in CHANGING])
def test_verify_reports_file_changed_during_verification(
    file: str, old: str, new: str, mlpack: Run, package: Path, kubectl: Path, change: Callable[[Path, str, str], None]
) -> None:
    change(package / file, old, new)
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (6, "")
    assert f"{package}/{file} changed while the package was read" in done.stderr


@pytest.mark.parametrize(("file", "old", "new"), CHANGING[::2], ids=[case[0] for case in CHANGING[::2]])
def test_deploy_judges_the_rendered_bytes(
    file: str, old: str, new: str, mlpack: Run, package: Path, kubectl: Path, change: Callable[[Path, str, str], None]
) -> None:
    """The bytes read first are rendered: the file's content before and after that does not count."""
    sealed = package.joinpath(file).read_text()
    replace(package / file, old, new)
    change(package / file, new, old)
    done = mlpack("deploy", package, "--kubectl", kubectl)
    assert package.joinpath(file).read_text() == sealed, "it was read once"
    assert (done.code, done.stdout) == (5, "")
    assert done.stderr.startswith(f"{package}/{file}: the content differs from what the package was sealed with\n")


def test_reader_refuses_file_changed_since_it_was_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    reader = Reader(tmp_path, str)
    assert reader.read("file", 3) == b"old"
    file.write_bytes(b"new")
    with pytest.raises(ToolError) as refused:
        reader.read("file", 3)
    assert str(refused.value) == "file changed while the package was read"
    assert refused.value.hint == "try again when no program is writing to it"
    assert reader.digest("file") == hashlib.sha256(b"old").hexdigest()
    assert reader.read("file", 2) == b"new", "longer than was asked for, it is only the start of something"


def test_deploy_reports_full_disk(life: Life, mlpack: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_path: Path, _content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    done = mlpack("deploy", "hello-mpi")
    message = "error: the overlay cannot be copied: no space left on device\nhint: set TMPDIR\n"
    assert (done.code, done.stdout, done.stderr, life.calls) == (6, "", message, [])
