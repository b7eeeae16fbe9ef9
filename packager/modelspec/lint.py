"""Finds every problem of model specs without building packages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.errors import SpecError
from packager.base.problems import Problem
from packager.modelspec import environments, programs
from packager.modelspec.catalog import find
from packager.modelspec.load import UnreadableSpecError, load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.base.process import Tell


@dataclass(frozen=True, slots=True)
class Lint:
    """The problems of some specs."""

    problems: tuple[Problem, ...]  # the problems, each with its place
    warnings: tuple[Problem, ...] = ()  # valid values that may be mistakes

    @property
    def exit_code(self) -> int:
        """3 when there is a problem, else 0."""
        return SpecError.exit_code if self.problems else 0

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        problems = [problem.as_json() for problem in self.problems]
        warnings = [warning.as_json() for warning in self.warnings]
        return {"valid": not problems, "exit_code": self.exit_code, "problems": problems, "warnings": warnings}


def lint(models: Sequence[str], folders: Sequence[Path], *, tell: Tell) -> Lint:
    """Check specs."""
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for model in models:
        path = find(model, folders)
        try:
            loaded = load(path, may_mount=True)
        except UnreadableSpecError as error:
            problems.append(Problem(str(path), 0, 0, error.why, error.hint))
            continue
        except SpecError as error:
            problems.extend(error.problems)
            continue
        for omitted, note in loaded.sources.notes:
            tell(f"note: {loaded.path.parent / omitted} {note}")
        warnings.extend(loaded.too_large)
        document, _ = yamlio.load(loaded.text, str(path))
        for index, download in enumerate(loaded.spec.downloads):
            if download.sha256 is None:
                hint = "`mlpack build --record` adds the digest that it has seen"
                message = "a build refuses this download: the key 'sha256' is missing"
                warnings.append(document.problem(("downloads", index), message, hint=hint))
        spec = loaded.spec
        for overlay, values in spec.overlays.items():
            if values.unproven:
                tell(f"note: {overlay}: {values.unproven}")
        for fault in (*environments.warnings(spec), *programs.warnings(spec)):
            warning = document.problem(fault.location, fault.message, hint=fault.hint, at_key=fault.at_key)
            warnings.append(warning)
    return Lint(tuple(problems), tuple(warnings))
