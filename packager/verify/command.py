"""Verifies that a package from an untrusted source can be trusted to run. Tests: verify/test_verify.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from packager import verify as stage
from packager.base.errors import UsageError
from packager.base.names import is_other_version
from packager.base.problems import Problem
from packager.base.values import replace
from packager.kubernetes.allowed import words
from packager.kubernetes.podsecurity import Level
from packager.package.opened import opened
from packager.verify import Checks, Report, objects, schema

if TYPE_CHECKING:
    from pathlib import Path


Further = Callable[[Report], tuple[Iterable[Problem], Iterable[str]]]
"""Returns the problems, and the notes, of a further check, such as a second build, from the report on a package."""


def verify(path: Path, checks: Checks, further: Sequence[Further] = (), tag: str | None = None) -> Report:
    """Verify the package at `path`, a folder or an archive, which was pulled by `tag`; None for none."""
    with opened(path, limits=checks.limits) as package:
        report = stage.verify(package, checks)
    problems, notes = [*report.problems], [*report.proofs]
    for check in further:
        found, noted = check(report)
        problems += found
        notes += noted
    if is_other_version(tag, report.version):
        message = f"the tag is {tag}, and the version of the package is {report.version}"
        problems.append(Problem(str(path), 0, 0, message, "name the package by its digest if that is meant"))
    return replace(report, problems=tuple(problems), proofs=tuple(notes))


def allowed_words(arguments: Sequence[str]) -> frozenset[str]:
    """Return the kinds, fields, labels, annotations and variables that `--allow` names."""
    made = {kind.lower(): (api, kind) for api, kind in objects.MADE}
    for word in arguments:
        if not words.is_word(word):
            raise UsageError(f"--allow {word}: {words.EXPECTED}")
        name, _, path = word.partition(".")
        if path and name in made and (complaint := schema.unknown_step(*made[name], path)):
            raise UsageError(f"--allow {word}: {complaint[0]}", hint=complaint[1])
    return frozenset(arguments)


def expected_digest(digest: str | None) -> str | None:
    """Return the digest that `--expect` names."""
    if digest is not None and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise UsageError(f"--expect {digest}: expected sha256: and 64 hexadecimal digits, as `mlpack verify -v` prints")
    return digest


def level(name: str | None) -> Level | None:
    """Return the Pod Security level that `--pod-security` names."""
    if name is not None and name not in list(Level):
        raise UsageError(f"--pod-security {name}: expected {', '.join(Level)}")
    return Level(name) if name is not None else None
