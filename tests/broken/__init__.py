"""Fifty-one packages with one fault each, made from good ones."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from packager.builder.plan import Options, choose, plan
from packager.builder.render import render
from packager.builder.selection import select
from packager.modelspec.catalog import bundled
from packager.modelspec.load import load
from packager.package import tree
from packager.package.layout import INVENTORY
from packager.package.opened import opened
from tests.broken.faults import FAULTS as FAULTS_OF_HELLO
from tests.broken.faults import Fault
from tests.broken.faults_of_kinds import FAULTS_OF_KINDS, MODEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.package.opened import Package

__all__ = ["FAULTS", "MODELS", "Fault", "build", "make", "pack", "seal"]

FAULTS = (*FAULTS_OF_HELLO, *FAULTS_OF_KINDS)

MODELS = ("hello-mpi", MODEL)
"""The models whose good packages the others are made from."""


def build(folder: Path, model: str = "hello-mpi", components: Sequence[str] = ("all",)) -> Path:
    """Write a good package that others are made from into the new `folder`, as if with `--with`; return it."""
    spec = Path(__file__).with_name("model") if model == MODEL else bundled() / model
    loaded = load(spec / "spec.yaml")
    folder.mkdir(parents=True)
    tree.write(render(plan(loaded, choose(loaded.spec, None, None), Options(site=select(components)))), folder)
    return folder


def pack(folder: Path, path: Path) -> None:
    """Pack all files of a folder as a build would, whatever they are."""
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as packed:
        for file in sorted(filter(Path.is_file, folder.rglob("*"))):
            member = tarfile.TarInfo(f"{folder.name}/{file.relative_to(folder).as_posix()}")
            status = file.stat()
            member.size, member.mode = status.st_size, 0o755 if status.st_mode & 0o100 else 0o644
            with file.open("rb") as content:
                packed.addfile(member, content)


def make(good: Path, folder: Path, *faults: Fault) -> Path:
    """Copy the package `good` to the new `folder`, put faults in, and return the folder.

    The copy is sealed again with all faults that are not of the files themselves: it is what somebody built, and no
    digest tells these faults.
    """
    shutil.copytree(good, folder)
    sealed = [fault for fault in faults if fault.sealed]
    for fault in sealed:
        fault.put_in(folder)
    if sealed:
        with opened(folder) as package:
            seal(package)
    for fault in faults:
        if not fault.sealed:
            fault.put_in(folder)
    return folder


def seal(package: Package) -> None:
    """Write the inventory again, for the current files."""
    read = tree.read(package.folder)
    work = package.folder.with_name(f".{package.folder.name}")
    work.mkdir()
    sealed = tree.write(read, work)
    assert isinstance(sealed.content, bytes)
    (package.folder / INVENTORY).write_bytes(sealed.content)
    shutil.rmtree(work)
