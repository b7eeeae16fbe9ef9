"""The options of the build that `mlpack run` and `mlpack dev` begin with. Tests: cli/test_run.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from packager.cli.arguments import (
    Additions,
    FsGroup,
    GroupId,
    Mode,
    Precision,
    Settings,
    Site,
    SiteFile,
    UserId,
    With,
    announced_site,
    cache_folder,
)
from packager.cli.option_groups import with_options

if TYPE_CHECKING:
    from pathlib import Path

    from packager.cluster.runnable import RunRequest


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The options of a build, for a model that is run."""

    precision: Precision = None
    mode: Mode = None
    settings: Settings = field(default_factory=list)
    additions: Additions = field(default_factory=list)
    components: With = field(default_factory=list)
    site: Site = field(default_factory=list)
    site_file: SiteFile = None
    uid: UserId = None
    gid: GroupId = None
    fs_group: FsGroup = None

    def request(self, path: Path) -> RunRequest:
        """Return the request to run what is at a path."""
        from packager.builder.build import BuildRequest
        from packager.cluster.runnable import RunRequest

        build = BuildRequest(
            None,
            (),
            self.precision,
            self.mode,
            settings=tuple(self.settings),
            additions=tuple(self.additions),
            components=tuple(self.components),
            site=tuple(self.site),
            cache=cache_folder(),
        )
        return RunRequest(path, build, (self.uid, self.gid, self.fs_group), partial(announced_site, self.site_file))


with_model = with_options("build", ModelOptions)
"""Gives a verb the options of a build."""

with_code = with_options("build", ModelOptions, without=("additions",))
"""Gives a verb the options of a build, without those that add variables."""
