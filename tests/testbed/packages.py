"""The Debian packages that the cluster is made of."""

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
    "nfs-ganesha": "ganesha.nfsd",
    "nfs-ganesha-vfs": "/usr/share/doc/nfs-ganesha-vfs",  # what is in it lies in a folder for each architecture
    "openssl": "openssl",
    "rpcbind": "rpcbind",
    "runc": "runc",
    "util-linux": "nsenter",
}
IMAGES = {
    "buildah": "buildah",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "debootstrap": "debootstrap",
}
"""Package, and the program or file that shows it is there: how it came there is the machine's own business."""

_POLICY = Path("/usr/sbin/policy-rc.d")
_POLICY_TEXT = "#!/bin/sh\n# while tests/testbed installs packages\nexit 101\n"


def install(packages: dict[str, str]) -> None:
    """Installs those packages whose sign is missing. One process does: apt-get does not wait for another."""
    with only_one(CACHE):
        if missing := [package for package, sign in packages.items() if not _found(sign)]:
            install_missing(missing)


def install_missing(missing: list[str]) -> None:
    """Installs packages; if they cannot be installed together, those that can be.

    Raises:
        ToolError: One cannot be installed.
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
    # Half an installation is nothing to leave behind.
    run(["apt-get", "--quiet", *arguments], env=env, outlives_us=True)


def _found(sign: str) -> bool:
    return Path(sign).exists() if sign.startswith("/") else shutil.which(sign, path=PATH) is not None


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Keeps packages from starting what they bring, etcd or an NFS server, as services of the machine.

    Debian's way to say so is a program `policy-rc.d` that answers 101 (invoke-rc.d(8)). One that is there stays.
    """
    if not _POLICY.exists():
        _POLICY.write_text(_POLICY_TEXT)
        _POLICY.chmod(0o755)
    try:
        yield
    finally:
        withdraw_policy()


def withdraw_policy() -> None:
    """Removes our `policy-rc.d`; an installation that was killed may have left it."""
    if _POLICY.exists() and _POLICY.read_text() == _POLICY_TEXT:
        _POLICY.unlink()
