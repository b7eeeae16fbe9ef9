"""Mutated specs of other people's models, checked and built into an archive in memory."""

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
from packager.package import archive
from tests import demo
from tests.fuzz import inputs, mutate
from tests.fuzz.demands import CODES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from random import Random

    from tests.fuzz.runner import Judge


def subject(work: Path) -> Judge:
    """Return the judge of mutated specs."""
    for path in bundled().glob("*/spec.yaml"):
        shutil.copytree(path.parent, work / "models" / path.parent.name)
    demo.write(work / "models/demo", demo.changed(*demo.VARIANTS))
    originals = {path: path.read_bytes() for path in sorted((work / "models").glob("*/spec.yaml"))}

    def judge(random: Random) -> str | None:
        spec, text = random.choice(list(originals.items()))
        if random.random() < 0.6:
            spec.write_bytes(inputs.dump(mutate.value(random, yaml.load(text, yaml.CSafeLoader))))
        else:
            spec.write_bytes(mutate.raw(random, text))
        return next(_faults(spec, random), None)

    return judge


def _faults(spec: Path, random: Random) -> Iterator[str]:
    """Lint and build a spec, and yield the faults of the outcome; exceptions that are not ours are raised."""
    stream = io.BytesIO()
    try:
        loaded = load(spec)
        archive.write(render(plan(loaded, random.choice(loaded.spec.variants), Options())), stream)
    except MlpackError as error:
        yield from bad_messages(error)
        if isinstance(error, SpecError) and not error.problems and error.hint is None and ": " not in str(error):
            yield f"a SpecError without a problem: {error}"
    else:
        if not stream.getvalue():
            yield "an empty archive"


def bad_messages(error: MlpackError) -> Iterator[str]:
    """Yield the faults of an error, which must have a documented exit code and a message that fits on a terminal."""
    if error.exit_code not in CODES or not str(error).strip():
        yield f"{type(error).__name__} {error} with the exit code {error.exit_code}"
    for line in (str(error), error.hint or "-", *map(str, error.problems)):
        if not printable(line).strip() or len(line) > 100_000:
            yield f"a message that nobody can read: {line[:200]!r}"
    json.dumps(error.as_json())
