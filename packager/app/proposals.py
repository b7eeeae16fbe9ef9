"""Proposes values to a user who configures a package, and validates the user's answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.errors import UsageError
from packager.base.problems import Problem
from packager.build.plan import Options, check_options
from packager.configure import settings
from packager.configure.changes import Answers
from packager.kubernetes.mountpath import ROOT
from packager.package.ids import LARGEST_ID
from packager.package.layout import env

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packager.package.opened import Package

_DELIVERED_ID = 1000


@dataclass(frozen=True, slots=True)
class Proposal:
    """The proposed values.

    Attributes:
        answers: The package's own values as far as they are valid, else values that suit the user.
        problems: What the package says now and nothing can run with.
    """

    answers: Answers
    problems: tuple[Problem, ...]


def proposal(package: Package, overlays: tuple[str, ...], *, uid: int, gid: int) -> Proposal:
    """Return the values to propose for a package to a user with this user and group id."""
    files = settings.Files(package)
    problems = tuple(problem for overlay in overlays for problem in _invalid_values(files, overlay))
    ids = {key: value for key, value in settings.ids(files, overlays[0]).items() if _is_id(value)}
    root, registry = settings.root(files, overlays[0]), settings.value(files, overlays[0], "REGISTRY")
    group = _proposed_id(ids.get("runAsGroup"), gid)
    answers = Answers(
        root=root if root and not _complaint(parse_root, root) else str(package.source.resolve().parent),
        registry=registry if registry and not _complaint(parse_registry, registry) else "docker.io",
        uid=_proposed_id(ids.get("runAsUser"), uid),
        gid=group,
        fs_group=_proposed_id(ids.get("fsGroup"), group),
    )
    return Proposal(answers, problems)


def parse_root(answer: str) -> str:
    """Return the folder in the user's answer. Raises UsageError when a package cannot be there."""
    check_options(Options(root=answer))
    return answer


def parse_registry(answer: str) -> str:
    """Return the registry in the user's answer. Raises UsageError when it is not valid."""
    check_options(Options(registry=answer))
    return answer


def parse_id(answer: str) -> int:
    """Return the id in the user's answer. Raises UsageError when it is not valid."""
    if not re.fullmatch("[0-9]{1,10}", answer) or int(answer) > LARGEST_ID:
        raise UsageError("expected a number, as `id -u` prints it")
    return int(answer)


def _invalid_values(files: settings.Files, overlay: str) -> Iterator[Problem]:
    """Yield what the package says now and nothing can run with."""
    path = env(overlay)
    for line in envfile.lines(files.read(path)):
        root = line.value.removesuffix(f"/{files.package.name}")
        known = {"MODEL_DIR": (root, parse_root), "REGISTRY": (line.value, parse_registry)}
        value, parse = known.get(line.key, ("", None))
        if parse and value != ROOT and (complaint := _complaint(parse, value)):
            message = f"{line.key}: {complaint}, found {line.value!r}"
            yield Problem(files.package.shown(path), line.number, len(line.key) + 2, message)
    yield from settings.invalid_ids(files, overlay)


def _complaint(parse: Callable[[str], object], value: str) -> str | None:
    """Return what is expected in place of `value`; None when it will do."""
    try:
        parse(value)
    except UsageError as error:
        return str(error).rpartition(": ")[2]
    return None


def _is_id(value: object) -> bool:
    return isinstance(value, int) and _complaint(parse_id, str(value)) is None


def _proposed_id(now: object, own: int) -> int:
    """Return the id to propose: the one that has replaced the delivered id, else the user's own.

    A package as delivered refuses root, so the ids of a user who is root here are not proposed.
    """
    return own if own and now in (None, _DELIVERED_ID) else int(str(now or _DELIVERED_ID))
