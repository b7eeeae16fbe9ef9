"""Tests of which overlays are rendered without their edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.base.process import Runner
from packager.package.opened import opened
from packager.verify import Checks, verify

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.base.process import Finished

MULTI, SINGLE = "quickstart/k8s/mlops/multi-node", "quickstart/k8s/mlops/single-node"


class CountingRunner(Runner):
    """Starts programs, and lists the overlays that they render."""

    def __init__(self) -> None:
        super().__init__()
        self.rendered: list[str] = []

    def run(self, argv: Sequence[str], **options: Any) -> Finished:
        self.rendered.append(argv[-1].rpartition("/")[2])
        return super().run(argv, **options)


BOTH = ["multi-node", "single-node"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("edits", "more"),
    [
        ({}, []),
        # With the permitted edits, the overlay is as it is now.
        ({f"{SINGLE}/mlops.env": "# note\n"}, ["single-node"]),
        # With the permitted edits, the overlay is as it was sealed.
        ({f"{SINGLE}/mlops.env": "NEW=1\n"}, ["single-node"]),
        ({f"{SINGLE}/mlops.env": "NEW=1\n# note\n"}, ["single-node"] * 2),
        ({"quickstart/common/mpi/k8s/mlops/site/site.env": "# note\n"}, BOTH),
    ],
)
def test_verify_renders_sealed_content_only_of_overlays_with_edits(
    edits: dict[str, str], more: list[str], package: Path, kubectl: Path
) -> None:
    for path, text in edits.items():
        with (package / path).open("a") as file:
            file.write(text)
    runner = CountingRunner()
    with opened(package) as edited:
        report = verify(edited, Checks(kubectls=(str(kubectl),), runner=runner))
    assert len(report.edits) == len(edits)
    assert sorted(runner.rendered) == sorted([*BOTH, *more])
