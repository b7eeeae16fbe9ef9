"""Shows what was edited in a package since it was built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.configure.upgrade import diff as stage
from packager.package.opened import opened

if TYPE_CHECKING:
    from pathlib import Path

    from packager.configure.upgrade.diff import PackageDiff


@dataclass(frozen=True, slots=True)
class PackageEdits:
    """The edits of one package."""

    package: str
    digest: str  # the digest of the package as it was built
    content: PackageDiff  # the edits

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints; values that may be secret are masked."""
        return {
            "package": self.package,
            "digest": self.digest,
            "edits": [
                {
                    "file": edit.path,
                    "kind": edit.kind,
                    "key": edit.key,
                    "before": edit.shown(edit.before),
                    "after": edit.shown(edit.after),
                }
                for edit in self.content.edits
            ],
            "other_changes": self.content.others.decode(errors="replace"),
            "not_in_patch": self.content.not_in_patch,
        }


def diff(path: Path) -> PackageEdits:
    """Return the edits of the package at `path`, a folder or an archive.

    Raises:
        UsageError: There is no such package.
        VerificationError: The package has files that no package has.
        ToolError: A file cannot be read.
    """
    with opened(path) as package:
        return PackageEdits(package.name, package.digest, stage.read(package))
