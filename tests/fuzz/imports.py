"""Mutated files of MLCube, Intel's Model Zoo and MXNet operators, imported as by the commands."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from packager.base.errors import MlpackError
from packager.cli.printable import printable
from packager.modelspec.importers.mlcube import Choices
from packager.modelspec.importing import (
    Imported,
    ModelDestination,
    import_intel,
    import_mlcube,
    import_mxjob,
)
from tests.fuzz import inputs, mutate, packages
from tests.fuzz.specs import bad_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from random import Random

    from tests.fuzz.runner import Judge

    Import = Callable[[Path, ModelDestination], Iterable[Imported | MlpackError]]

_GOLDEN = Path(__file__).resolve().parents[1] / "golden/import"

_MAX_BYTES = 8 << 20
"""The most bytes that an import of a file of less than 200 KB may write and report."""


class Seed:
    """A workload of another system: its files, those to mutate preferably, and the function that imports it."""

    def __init__(self, files: dict[str, str], main: list[str], path: str, read: Import) -> None:
        self.files = {name: text.encode() for name, text in files.items()}
        self.main = main
        self.path = path
        self.read = read


def subject(work: Path) -> Judge:
    """Return the judge of mutated workloads of other systems."""
    seeds = [*_mxjobs(), *_mlcubes(), *_zoos()]

    def judge(random: Random) -> str | None:
        with packages.emptied(work) as (folder, _):
            return next(_faults(random, random.choice(seeds), folder), None)

    return judge


def _golden(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = yaml.load(path.read_bytes(), yaml.CSafeLoader)
    return values


def _mxjobs() -> Iterator[Seed]:
    for path in sorted(_GOLDEN.glob("mxjob/*.yml")):
        if text := _golden(path).get("input"):
            yield Seed({"job.yaml": text}, ["job.yaml"], "job.yaml", _one(import_mxjob))


def _mlcubes() -> Iterator[Seed]:
    for path in sorted(_GOLDEN.glob("mlcube/*.yml")):
        values = _golden(path)
        if text := values.get("input"):
            read = _one(partial(import_mlcube, choices=Choices(**_choices(values))))
            disk = {f"cube/{name}": "x" for name in values.get("disk", ())}
            yield Seed({"cube/mlcube.yaml": text, **disk}, ["cube/mlcube.yaml"], "cube", read)


def _choices(values: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values["choices"].items()}


def _zoos() -> Iterator[Seed]:
    tree = _golden(_GOLDEN / "intel/zoo.yml")["tree"]
    specs = [name for name in tree if name.endswith((".yml", ".yaml"))]
    yield Seed(tree, specs, "tools/docker/specs", partial(import_intel, downloads=True))


def _one(read: Callable[[Path, ModelDestination], Imported]) -> Import:
    def outcomes(path: Path, destination: ModelDestination) -> Iterator[Imported | MlpackError]:
        yield read(path, destination)

    return outcomes


def _faults(random: Random, seed: Seed, folder: Path) -> Iterator[str]:
    """Yield the faults in the result of importing a mutated workload."""
    _write(random, seed, folder / "source")
    models = folder / "models"
    made: list[Imported] = []
    try:
        for outcome in seed.read(folder / "source" / seed.path, ModelDestination(models)):
            if isinstance(outcome, MlpackError):
                yield from bad_messages(outcome)
            else:
                made.append(outcome)
    except MlpackError as error:
        yield from bad_messages(error)
    if models.exists() and {path.name for path in models.iterdir()} != {result.folder.name for result in made}:
        yield f"there are other models than were reported: {sorted(path.name for path in models.iterdir())}"
    for result in made:
        yield from _faults_of(result)


def _faults_of(result: Imported) -> Iterator[str]:
    written = sum(path.stat().st_size for path in result.files)
    reported = sum(len(str(finding)) for finding in result.findings)
    if max(written, reported) > _MAX_BYTES:
        yield f"{written} bytes were written, {reported} characters reported"
    if odd := [path for path in result.folder.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())]:
        yield f"there is something else than files and folders: {odd}"
    if any(not printable(str(finding)).strip() for finding in result.findings):
        yield "a finding says nothing"


def _write(random: Random, seed: Seed, folder: Path) -> None:
    """Write the files of a workload, and mutate one or two."""
    files = dict(seed.files)
    for _ in range(random.choice((1, 1, 2))):
        name = random.choice(seed.main if random.random() < 0.8 else sorted(files))
        files[name] = _mutated(random, name, files[name])
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o755 if content.startswith(b"#!") else 0o644)
    if random.random() < 0.05:
        _harm(random, random.choice(sorted(path for path in folder.rglob("*") if path.is_file())))


def _mutated(random: Random, name: str, content: bytes) -> bytes:
    values = inputs.values(name, content) if random.random() < 0.7 else []
    if not values:
        return mutate.raw(random, content)
    return b"---\n".join(inputs.dump(mutate.value(random, value)) for value in values)


def _harm(random: Random, victim: Path) -> None:
    victim.unlink()
    match random.randrange(3):
        case 0:
            victim.symlink_to(random.choice(("/etc/passwd", "..", victim.name, "nothing", "/dev/zero")))
        case 1:
            victim.mkdir()
        case _:
            victim.write_bytes(b"x" * 3_000_000)
