"""Malicious archives and folders: opened, read and edited in this process.

Every stage that reads a package runs on the archives and folders that can be opened, except kubectl, which the subject
"packages" starts or replaces.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from packager.base.errors import MlpackError
from packager.base.paths import DEFAULT_LIMITS, Limits
from packager.configure import changes as configure
from packager.package import integrity as files
from packager.package.opened import opened
from packager.rendering import kustomization
from tests.fuzz import mutate, packages, tars
from tests.fuzz.inputs import Seeds

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from packager.package.opened import Package
    from tests.fuzz.runner import Judge

_LIMITS = Limits(size=8 << 20, files=2_000, ratio=200)

_TARGETS = ("/etc/passwd", "/dev/zero", "/", "..", ".", "nothing", "manifest.json", "../outside")
_NAMES = ("new\nline", "\udcff", "e\u0301", "README.MD", "-rf", " ", "a" * 255, "\u202etxt", "*", "$(id)", ".git", "~")


def subject(work: Path) -> Judge:
    """Return the judge of archives and folders."""
    seeds = Seeds(work / "seeds")

    def judge(random: Random) -> str | None:
        with packages.emptied(work) as (folder, _):
            make = random.choice((_archive, _folder))
            return _opened(make(random, seeds, folder))

    return judge


def _archive(random: Random, seeds: Seeds, folder: Path) -> Path:
    tar = tars.harmed(random, _items(random, seeds))
    if random.random() < 0.2:
        tar = mutate.raw(random, tar)
    content = tars.zipped(random, tar)
    if random.random() < 0.1:
        content = mutate.raw(random, content)
    path = folder / "package.tar.gz"
    path.write_bytes(content)
    return path


def _items(random: Random, seeds: Seeds) -> list[tars.Item | bytes]:
    files = _files(random, seeds)
    return [tars.Item(f"package/{name}".encode(), b"0", content, mode) for name, (content, mode) in files.items()]


def _files(random: Random, seeds: Seeds) -> dict[str, tuple[bytes, int]]:
    """Return the files of a package: mostly only a few, which are enough to find a fault in one."""
    files = random.choice(list(seeds.packages.values()))
    if random.random() < 0.15:
        return files
    names = {"manifest.json", *random.sample(sorted(files), random.randint(1, 5))}
    return {name: files[name] for name in sorted(names)}


def _folder(random: Random, seeds: Seeds, folder: Path) -> Path:
    """Write a package with a file that is not plain, has an odd name or is far too large."""
    top = folder / "package"
    for name, (content, mode) in _files(random, seeds).items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(mutate.raw(random, content) if random.random() < 0.02 else content)
        path.chmod(mode)
    for _ in range(random.choice((0, 1, 1, 2))):
        if victims := sorted(path for path in top.rglob("*") if not path.is_symlink()):
            _harm(random, random.choice(victims))
    return top


def _harm(random: Random, victim: Path) -> None:
    if random.random() < 0.3:
        name = random.choice(_NAMES)
        (victim if victim.is_dir() else victim.parent).joinpath(name).touch()
        return
    if random.random() < 0.2 and victim.is_file():
        os.truncate(victim, random.choice((0, 1 << 20, 1 << 30, 1 << 40)))
        return
    shutil.rmtree(victim) if victim.is_dir() else victim.unlink()
    match random.randrange(4):
        case 0:
            os.mkfifo(victim)
        case 1:
            victim.mkdir()
        case 2:
            os.mknod(victim, 0o20644, os.makedev(0, 0))
        case _:
            victim.symlink_to(random.choice(_TARGETS))


def _opened(path: Path) -> str | None:
    try:
        with opened(path, limits=_LIMITS) as package:
            links = [path for path in package.folder.rglob("*") if path.is_symlink()]
            if odd := [path for path in links if path != package.folder / ".git"]:
                return f"there are links in what was opened: {odd}"
            _read(package)
    except MlpackError as error:
        return _unclear(error)
    return None


def _read(package: Package) -> None:
    """Read the package in every stage."""
    problems = files.check(package, DEFAULT_LIMITS).problems
    for overlay in package.overlays:
        sources = kustomization.read(package, f"quickstart/k8s/mlops/{overlay}")
        if not sources.refused:
            with sources.copied():
                pass
    edited = configure.configure(package, package.overlays, configure.Answers(root="/nfs", uid=4711))
    list(configure.changes(edited))
    assert all(str(problem) for problem in problems)


def _unclear(error: MlpackError) -> str | None:
    text = str(error)
    return None if text and "\n" not in text and text.isprintable() else f"the message is {text!r}"
