"""Tests of which overlays are rendered without their edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.base.limits import DEFAULT
from packager.base.runner import SYSTEM, Runner
from packager.package import integrity
from packager.package.opened import opened
from packager.rendering import render
from packager.verify import Checks, changes, verify
from packager.verify.original import Original
from tests.broken import seal
from tests.files import replace

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


def test_overlay_that_reads_an_added_file_has_no_sealed_content(package: Path, kubectl: Path) -> None:
    """The package was sealed with the name of a file that it does not contain."""
    replace(package / SINGLE / "kustomization.yaml", "resources:\n", "resources:\n  - more.yaml\n")
    with opened(package) as incomplete:
        seal(incomplete)
    config_map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n"
    (package / SINGLE / "more.yaml").write_text(config_map)
    with (package / SINGLE / "mlops.env").open("a") as file:
        file.write("NEW=1\n")
    with opened(package) as edited:
        outcome = render.render(edited, "single-node", (str(kubectl),), SYSTEM)
        assert outcome.overlay is not None
        edits = changes.read(edited, integrity.check(edited, DEFAULT).edits)
        original = Original(edits, outcome.overlay, str(kubectl), SYSTEM)
        assert (original.sealed, original.permitted) == (None, None)
