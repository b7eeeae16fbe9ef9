"""The script of packages that gives the pod's user a name, with the files of an image."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from packager.builder.render import TEMPLATES
from tests import tools

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = TEMPLATES[""] / "package/quickstart/common/FRAMEWORK/k8s/mlops/base/identity.sh"
UID, GID = os.getuid(), os.getgid()
OTHERS = (pytest.param(shell, marks=pytest.mark.thorough) for shell in ("bash", "busybox"))
SHELLS = pytest.mark.parametrize("shell", ["sh", *OTHERS])


def identity(folder: Path, shell: str, passwd: str | None, group: str | None) -> tuple[str, str]:
    """Run the script in an image with these files, and return those that it has made."""
    text = SCRIPT.read_text()
    for name, content in (("passwd", passwd), ("group", group)):
        if content is not None:
            (folder / f"image-{name}").write_text(content)
        text = text.replace(f"/etc/{name}", str(folder / f"image-{name}"))
    script = folder / "identity.sh"
    script.write_text(text)
    argv = [tools.require("busybox"), "sh"] if shell == "busybox" else [shell]
    subprocess.run([*argv, script, folder, "/home/mlpack"], check=True)
    return (folder / "passwd").read_text(), (folder / "group").read_text()


@SHELLS
def test_user_and_group_of_the_image_keep_their_names(tmp_path: Path, shell: str) -> None:
    passwd, group = f"a:x:77:7:A:/a:/bin/a\nme:x:{UID}:{GID}:Me:/me:/sbin/nologin", f"us:x:{GID}:me,a"
    made = identity(tmp_path, shell, passwd, group)
    assert made == (f"a:x:77:7:A:/a:/bin/a\nme:x:{UID}:{GID}:Me:/me:/bin/sh\n", f"us:x:{GID}:me,a\n")


@SHELLS
@pytest.mark.parametrize("files", [(None, None), ("a:x:77:7:A:/a:/bin/a", "b:x:7:")])
def test_user_and_group_that_the_image_lacks_get_names(
    tmp_path: Path, shell: str, files: tuple[str | None, str | None]
) -> None:
    passwd, group = identity(tmp_path, shell, *files)
    others = [f"{file}\n" if file else "" for file in files]
    assert passwd == f"{others[0]}uid{UID}:x:{UID}:{GID}:mlops user:/home/mlpack:/bin/sh\n"
    assert group == f"{others[1]}gid{GID}:x:{GID}:\n"


@SHELLS
def test_backslashes_of_the_image_are_copied(tmp_path: Path, shell: str) -> None:
    domain = "CORP\\nina:x:77:7:a\\tb:/a:/bin/a\n"
    passwd, _ = identity(tmp_path, shell, domain, "")
    assert passwd == f"{domain}uid{UID}:x:{UID}:{GID}:mlops user:/home/mlpack:/bin/sh\n"
