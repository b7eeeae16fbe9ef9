"""Results of imports as data, and checks of them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import SpecError
from packager.builder.build import BuildRequest, Built, Destination, build
from packager.modelspec.catalog import lint
from packager.verify import Checks
from packager.verify.command import verify

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.modelspec.importing import Imported


def imported(result: Imported, models: Path) -> dict[str, Any]:
    """Return the files that an import wrote below `models`, its findings, and the command that builds the model."""
    return {
        "files": {
            path.relative_to(models).as_posix(): path.read_text(encoding="utf-8").rstrip("\n") + "\n"
            for path in result.files
        },
        "findings": [str(finding) for finding in result.findings],
        "build": [word.replace(str(models), "MODELS") for word in result.build],
    }


def refused(run: Callable[[], Imported], root: Path | None = None) -> dict[str, Any]:
    """Return the message and the problems of a refused import; the path `root` is replaced in the problems."""
    with pytest.raises(SpecError) as error:
        run()
    assert error.value.exit_code == 3
    return {
        "message": str(error.value),
        "problems": [str(problem).replace(str(root), "ROOT") for problem in error.value.problems],
    }


def check_package(result: Imported, folder: Path, kubectl: Path) -> None:
    """Check that `lint`, `build` and `verify` pass with the options that the import names."""
    assert lint([str(result.folder / "spec.yaml")], [], tell=lambda _note: None).problems == ()
    request = BuildRequest(
        str(result.folder / "spec.yaml"),
        (),
        every=True,
        components=result.options,
        site=tuple(f"{key}={value}" for key, value in result.site),
    )
    outcomes = list(
        build(
            request,
            Destination(folder),
            tell=lambda _: None,
            progress=_no_progress,
        )
    )
    assert outcomes
    for outcome in outcomes:
        assert isinstance(outcome, Built), outcome
        report = verify(outcome.path, Checks(kubectls=(str(kubectl),), level=None))
        assert report.exit_code == 0, report


def _no_progress(*_arguments: object, **_options: object) -> nullcontext[Callable[[int], None]]:
    return nullcontext(lambda _steps: None)
