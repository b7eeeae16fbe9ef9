"""Opens the target of a verb for the user of this machine; see `packager.app.target`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.app.target import open_target as open_for_person
from packager.cli.console import say
from packager.cli.host import host

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    import typer

    from packager.app.target import Target
    from packager.kubectl.client import Kubectl


def open_target(
    context: typer.Context, path: Path, overlay: str | None, kubectl: Kubectl, workload: str | None = None
) -> AbstractContextManager[Target]:
    """Open the package at `path` and render its overlay; raises the errors of `packager.app.target.open_target`."""
    return open_for_person(path, overlay, kubectl, workload=workload, person=host(context).person, tell=say)
