"""Mutated specs, checked and built into an archive in memory; some of them on the command line."""

from __future__ import annotations

import io
import json
import shutil
from typing import TYPE_CHECKING

import yaml

from packager.base.errors import MlpackError, SpecError
from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.cli.printable import printable
from packager.modelspec.catalog import bundled
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from packager.package import archive
from tests import demo
from tests.fuzz import inputs, mutate, packages
from tests.fuzz.demands import CODES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from random import Random

    from packager.modelspec.load import LoadedSpec
    from tests.fuzz.runner import Judge

_BY_COMMAND = 0.02
"""The share of the inputs that run on the command line, which takes five times as long."""


class Model:
    """A model whose spec is mutated, in a folder where only the spec changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spec = folder / "spec.yaml"
        self.text = self.spec.read_bytes()
        self.document = yaml.load(self.text, yaml.CSafeLoader)


def subject(work: Path) -> Judge:
    """Return the judge of mutated specs."""
    for path in bundled().glob("*/spec.yaml"):
        shutil.copytree(path.parent, work / "models" / path.parent.name)
    demo.write(work / "models/demo", demo.changed(*demo.VARIANTS))
    models = [Model(folder) for folder in sorted((work / "models").iterdir())]
    by_command = packages.by_command(inputs.spec, inputs.Seeds(work / "seeds"), work)

    def judge(random: Random) -> str | None:
        if random.random() < _BY_COMMAND:
            return by_command(random)
        model = random.choice(models)
        model.spec.write_bytes(mutated(random, model))
        return wrong(model.spec, _settings(random), random)

    return judge


def mutated(random: Random, model: Model) -> bytes:
    """Return the model's spec with mutations."""
    if random.random() < 0.6:
        return inputs.dump(mutate.value(random, model.document))
    return mutate.raw(random, model.text)


def _settings(random: Random) -> list[str]:
    if random.random() < 0.9:
        return []
    paths = (
        "environment.STEPS",
        "overlays.multi-node.workers",
        "package",
        "variants.0.mode",
        "image",
        inputs.word(random),
    )
    return [f"{random.choice(paths)}={inputs.word(random)}"]


def wrong(spec: Path, settings: list[str], random: Random) -> str | None:
    """Lint and build a spec, and return a message about a fault, or None; exceptions that are not ours are raised."""
    try:
        loaded = load(spec, [parse_setting(setting) for setting in settings])
    except MlpackError as error:
        return next(_bad_refusals(error), None)
    return next(_built(loaded, random), None)


def _built(loaded: LoadedSpec, random: Random) -> Iterator[str]:
    try:
        planned = plan(loaded, random.choice(loaded.spec.variants), Options())
        stream = io.BytesIO()
        archive.write(render(planned), stream)
    except MlpackError as error:
        yield from _bad_refusals(error)
    else:
        if not stream.getvalue():
            yield "an empty archive"


def _bad_refusals(error: MlpackError) -> Iterator[str]:
    """Yield the faults of the error for a refused spec, which must name problems."""
    yield from bad_messages(error)
    if isinstance(error, SpecError) and not error.problems and error.hint is None and ": " not in str(error):
        yield f"a SpecError without a problem: {error}"


def bad_messages(error: MlpackError) -> Iterator[str]:
    """Yield the faults of an error, which must have a documented exit code and a message that fits on a terminal."""
    if error.exit_code not in CODES or not str(error).strip():
        yield f"{type(error).__name__} {error} with the exit code {error.exit_code}"
    for line in (str(error), error.hint or "-", *map(str, error.problems)):
        if not printable(line).strip() or len(line) > 100_000:
            yield f"a message that nobody can read: {line[:200]!r}"
    json.dumps(error.as_json())
