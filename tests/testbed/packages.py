"""Installs the Debian packages that the cluster needs."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.testbed.errors import ToolError
from tests.testbed.places import CACHE, only_one
from tests.testbed.process import PATH, run
from tests.testbed.progress import step

NODE = {
    "containerd": "containerd",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "etcd-server": "etcd",
    "iproute2": "ip",
    "openssl": "openssl",
    "runc": "runc",
    "util-linux": "nsenter",
}
IMAGES = {
    "buildah": "buildah",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "debootstrap": "debootstrap",
}
"""The packages, each with a program or file that shows that it is installed, in whatever way."""

_POLICY = Path("/usr/sbin/policy-rc.d")
_POLICY_TEXT = "#!/bin/sh\n# while tests/testbed installs packages\nexit 101\n"


def install(packages: dict[str, str]) -> None:
    """Install the packages whose program or file is missing, in one process: apt-get does not wait for another."""
    with only_one(CACHE):
        if missing := [package for package, sign in packages.items() if not _found(sign)]:
            install_missing(missing)


def install_missing(missing: list[str]) -> None:
    """Install packages; if this fails, install them one by one.

    Raises:
        ToolError: A package cannot be installed.
    """
    if not shutil.which("apt-get"):
        raise ToolError(f"this machine lacks {', '.join(missing)} (Debian's names) and has no apt-get to install them")
    with step(f"installed Debian's {', '.join(missing)}", duration="a minute"), _no_service_starts():
        try:
            _apt_get_install(missing)
        except ToolError:  # the machine has no package lists yet, or old ones
            with suppress(ToolError):  # the list of one archive of several
                _apt_get("update")
            try:
                _apt_get_install(missing)
            except ToolError:
                _install_one_by_one(missing)


def _install_one_by_one(missing: list[str]) -> None:
    errors = []
    for package in missing:
        try:
            _apt_get_install([package])
        except ToolError as error:
            errors.append(str(error))
    if errors:
        raise ToolError("\n".join(errors))


def _apt_get_install(missing: list[str]) -> None:
    _apt_get("install", "--yes", "--no-install-recommends", *missing)


def _apt_get(*arguments: str) -> None:
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    # An interrupted installation must not be left behind.
    run(["apt-get", "--quiet", *arguments], env=env, outlives_us=True)


def _found(sign: str) -> bool:
    return Path(sign).exists() if sign.startswith("/") else shutil.which(sign, path=PATH) is not None


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Prevent packages from starting their services, such as etcd, on the machine.

    For this, Debian uses a program `policy-rc.d` that exits with 101 (invoke-rc.d(8)). An existing program is kept.
    """
    if not _POLICY.exists():
        _POLICY.write_text(_POLICY_TEXT)
        _POLICY.chmod(0o755)
    try:
        yield
    finally:
        withdraw_policy()


def withdraw_policy() -> None:
    """Remove the program `policy-rc.d` that a killed installation may have left."""
    if _POLICY.exists() and _POLICY.read_text() == _POLICY_TEXT:
        _POLICY.unlink()
