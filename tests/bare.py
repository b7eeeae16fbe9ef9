"""Runs a command in a copy of this checkout on a bare Debian 12, as root or as an ordinary user.

    python -m tests.bare root make test
    python -m tests.bare user make package test

The system has python3, make, git, certificates, what every Debian has, and nothing else. It is kept in the cache, and
each run starts from a copy. The command gets the network settings of this machine and the downloads in its cache. What
root downloads is kept there, too.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import packages
from tests.testbed.bases import mirror
from tests.testbed.errors import ToolError
from tests.testbed.places import CACHE as CLUSTER_CACHE
from tests.testbed.places import CHECKOUT, cache_entry, only_one
from tests.testbed.process import bound, run
from tests.testbed.progress import step

_CACHE = CLUSTER_CACHE.parent
_SYSTEMS = _CACHE / "bare"

_DEBOOTSTRAP = ("debootstrap", "--variant=minbase", "--include=python3,make,git,ca-certificates", "bookworm")
_USER = "mlpack:x:1000:1000::/home/mlpack:/bin/sh\n"
_RECIPE = hashlib.sha256(repr([_DEBOOTSTRAP, _USER]).encode()).hexdigest()[:8]

_DOWNLOADS = ("kubectl", "wheels")
_RENDERS = "renders"
"""The folder of the cache that an ordinary user gets; root gets the whole cache."""

_SETTINGS = ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt")
_VARIABLES = re.compile("PIP_.*|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|(HTTP|HTTPS|NO|ALL)_PROXY", re.IGNORECASE)
"""The files and environment variables with the network settings of this machine."""

_ENTER = """
mount --bind "$1" "$1"
cd "$1"
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc proc proc
[ "$3" != 0 ] || mount --bind "$2" ".$HOME/.cache/mlpack"
pivot_root . mnt
umount --lazy mnt
cd "$HOME/mlpack"
id=$3
shift 3
ended=0
setpriv --reuid="$id" --regid="$id" --clear-groups "$@" || ended=$?
exit "$ended"
"""
"""Enters the system $1 and runs a command as the user $3, root with the cache $2.

After chroot(2), no program could create a user namespace, as mlpack does; after pivot_root(2), it can. The command is
not process 1 of its namespace: after SIGTERM, make would send itself the signal, which process 1 does not receive,
without end.
"""


@dataclass(frozen=True, slots=True)
class Person:
    """The user who runs the command, and the home folder."""

    uid: int
    home: str


PEOPLE = {"root": Person(0, "/root"), "user": Person(1000, "/home/mlpack")}


def main() -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bare", description="Run a command on a bare Debian 12.")
    parser.add_argument("person", choices=PEOPLE)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="run in a copy of the checkout")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the copy is deleted
    try:
        return run_bare(PEOPLE[options.person], options.command)
    except ToolError as error:
        sys.stderr.write(f"ERROR {error}\n")
        return 6


def run_bare(person: Person, command: list[str]) -> int:
    """Run a command on a bare system, and return its exit code.

    Raises:
        ToolError: The system cannot be created.
    """
    if os.geteuid() != 0:
        raise ToolError("only root can run a command on another system")
    base = _system()
    with tempfile.TemporaryDirectory(dir=_SYSTEMS, prefix=".run-") as scratch:
        system = Path(scratch, "system")
        run(["cp", "--archive", "--reflink=auto", base, system])
        _write_settings(system)
        home = system / person.home.removeprefix("/")
        _copy_checkout(home / "mlpack")
        (home / ".cache/mlpack").mkdir(parents=True)
        run(["chown", "--recursive", f"{person.uid}:{person.uid}", home])
        if person.uid != 0:
            _share_cache(home / ".cache/mlpack", person)
        settings = {name: value for name, value in os.environ.items() if _VARIABLES.fullmatch(name)}
        environment = {
            **settings,
            "HOME": person.home,
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        }
        argv = bound("sh", "-euc", _ENTER, "sh", system, _CACHE, str(person.uid), *command)
        return subprocess.run([str(word) for word in argv], env=environment, check=False).returncode


def _system() -> Path:
    """Return the folder of the bare system; create it if the cache lacks it."""
    packages.install({name: packages.IMAGES[name] for name in ("debootstrap", "debian-archive-keyring")})
    entry = _SYSTEMS / _RECIPE
    with only_one(_SYSTEMS):
        if not entry.is_dir():
            with step("a bare Debian 12", duration="a minute"), cache_entry(entry) as folder:
                program, *options, suite = _DEBOOTSTRAP
                run(bound(program, *options, suite, folder / "system", *mirror()))
                with (folder / "system/etc/passwd").open("a", encoding="utf-8") as file:
                    file.write(_USER)
    return entry / "system"


def _write_settings(system: Path) -> None:
    for setting in _SETTINGS:
        if (source := Path("/", setting)).exists():
            shutil.copyfile(source, system / setting)
    if shutil.which("apt-config"):
        (system / "etc/apt/apt.conf.d/99machine").write_text(run(["apt-config", "dump", "Acquire"]), encoding="utf-8")


def _copy_checkout(target: Path) -> None:
    """Copy the files that git tracks or would add."""
    listed = run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=CHECKOUT)
    for name in filter(None, listed.split("\0")):
        if (CHECKOUT / name).exists():  # a deleted file is listed until the deletion is committed
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, target / name, follow_symlinks=False)


def _share_cache(target: Path, person: Person) -> None:
    """Let the user read the downloads of this machine, and add others beside them."""
    owner = f"{person.uid}:{person.uid}"
    for name in _DOWNLOADS:
        if (_CACHE / name).is_dir():
            run(["cp", "--recursive", "--link", _CACHE / name, target])
    run(["find", target, "-type", "d", "-exec", "chown", owner, "{}", "+"])
    if (_CACHE / _RENDERS).is_dir():  # only root can read these files
        (target / _RENDERS).mkdir()
        for path in (_CACHE / _RENDERS).iterdir():
            if not path.name.startswith("."):  # root's tests may be writing others now
                shutil.copy2(path, target / _RENDERS)
        run(["chown", "--recursive", owner, target / _RENDERS])


if __name__ == "__main__":
    sys.exit(main())
