"""Tests of the use case `packager.cluster.results`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ClusterError
from packager.cluster.results import copied, has_lasting_results
from tests.cluster.test_results import member, packed
from tests.life import JOB

if TYPE_CHECKING:
    from pathlib import Path

    from packager.cluster.target import Target
    from tests.life import Life


def test_copied_returns_result_as_value(target: Target, life: Life, tmp_path: Path) -> None:
    life.deploy()
    life.start()
    life.archive = packed((member("./a.txt"), b"hello")).getvalue()
    with copied(target, tmp_path / "here", patience=60, tell=pytest.fail) as results:
        pass
    assert results.as_json() == {
        "pod": f"{JOB}-worker-0",
        "path": "/ROOT/hello-mpi/output",
        "folder": str(tmp_path / "here"),
        "files": 1,
        "bytes": 5,
        "unchanged": 0,
        "complete": True,
        "unchecked": "the image has no find, which is needed for this",
        "skipped": [],
        "skippedUnnamed": 0,
        "leftOut": [],
        "unread": [],
        "changed": [],
        "gone": [],
        "busy": [],
        "others": [],
    }
    assert (tmp_path / "here/a.txt").read_bytes() == b"hello"


def test_copied_reports_results_deleted_with_pods(target: Target, life: Life, tmp_path: Path) -> None:
    life.deploy()
    life.end()
    assert not has_lasting_results(target)
    with pytest.raises(ClusterError) as gone, copied(target, tmp_path, patience=60, tell=pytest.fail):
        pass
    assert str(gone.value).startswith(
        f"mpijob/{JOB} has ended, and its results were deleted with its pods: OUTPUT_DIR is on "
    )
