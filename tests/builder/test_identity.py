"""Tests of `identity.sh`, the script of a package that gives the pod's user a name."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from packager.builder.render import TEMPLATES

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = TEMPLATES[""] / "package/quickstart/common/FRAMEWORK/k8s/mlops/base/identity.sh"
UID, GID = os.getuid(), os.getgid()
ADDED = f"uid{UID}:x:{UID}:{GID}:mlops user:/h:/bin/sh\n"


def run(folder: Path, passwd: str | None, group: str | None = "") -> tuple[str, str]:
    """Return the passwd and the group that the script writes, for an image with these files."""
    script = SCRIPT.read_text()
    for name, content in (("passwd", passwd), ("group", group)):
        script = script.replace(f"/etc/{name}", str(folder / f"of-the-image-{name}"))
        if content is not None:
            (folder / f"of-the-image-{name}").write_text(content)
    subprocess.run(["/bin/sh", "-c", script, "identity.sh", str(folder), "/h"], check=True)
    return (folder / "passwd").read_text(), (folder / "group").read_text()


def test_user_and_group_are_added(tmp_path: Path) -> None:
    other = "a:x:99991:99992::/a:/bin/false\n"
    assert run(tmp_path, other, "b:x:99992:a\n") == (other + ADDED, f"b:x:99992:a\ngid{GID}:x:{GID}:\n")


def test_shell_of_the_user_is_replaced(tmp_path: Path) -> None:
    passwd, group = run(tmp_path, f"me:x:{UID}:5:Me:/me:/sbin/nologin\n", f"us:x:{GID}:me,b\n")
    assert (passwd, group) == (f"me:x:{UID}:5:Me:/me:/bin/sh\n", f"us:x:{GID}:me,b\n")


@pytest.mark.parametrize("end", ["", "\n"])
def test_last_line_may_have_no_end(tmp_path: Path, end: str) -> None:
    passwd, group = run(tmp_path, f"me:x:{UID}:5:Me:/me:/bin/sh{end}", f"us:x:{GID}:{end}")
    assert (passwd, group) == (f"me:x:{UID}:5:Me:/me:/bin/sh\n", f"us:x:{GID}:\n")


def test_backslashes_are_copied(tmp_path: Path) -> None:
    domain = "CORP\\nina:x:99991:99992:a\\tb:/a:/bin/sh\n"
    assert run(tmp_path, domain)[0] == domain + ADDED


def test_image_may_have_neither_file(tmp_path: Path) -> None:
    assert run(tmp_path, None, None) == (ADDED, f"gid{GID}:x:{GID}:\n")
