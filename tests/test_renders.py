"""Tests of the cache of rendered output, and of the digests of its entries."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from packager.base.process import Finished
from tests import kubectls, renders
from tests.files import replace

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(renders, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


class Counted:
    """A Runner that counts its runs, and returns prepared output."""

    def __init__(self, *, stderr: str = "", code: int = 0) -> None:
        self.count = 0
        self._stderr, self._code = stderr, code

    def run(self, argv: list[str]) -> Finished:
        self.count += 1
        return Finished(self._code, f"{argv[2]} no. {self.count}\n", self._stderr)


MULTI, SINGLE = "quickstart/k8s/mlops/multi-node", "quickstart/k8s/mlops/single-node"


def _rendered_twice(first: Path, second: Path, versions: tuple[str, str] = ("1.35", "1.35"), **outcome: Any) -> bool:
    """Render two folders, and return whether kubectl was started for both."""
    counted = Counted(**outcome)
    run = renders.remembering(counted.run)
    for folder, version in zip((first, second), versions, strict=True):
        done = run(counted, [str(kubectls.kubectl(version)), "kustomize", str(folder)])
        assert (done.returncode, done.stderr) == (outcome.get("code", 0), outcome.get("stderr", ""))
    return counted.count == 2


READ = (f"{SINGLE}/mlops.env", f"{SINGLE}/pod-patch.yaml", "quickstart/common/mpi/k8s/mlops/site/site.env")
UNREAD = (f"{MULTI}/mlops.env", "README.md")


def test_kubectl_renders_again_after_change_of_a_file_that_the_overlay_may_read(package: Path, tmp_path: Path) -> None:
    for changed in (*READ, *UNREAD):
        other = shutil.copytree(package, tmp_path / "other")
        with (other / changed).open("a") as file:
            file.write("# more\n")
        assert _rendered_twice(package / SINGLE, other / SINGLE) == (changed in READ), changed
        shutil.rmtree(other)
        shutil.rmtree(renders.CACHE)


def test_render_with_unusual_outcome_is_not_cached(package: Path) -> None:
    for outcome in ({"code": 1}, {"code": -9, "stderr": "no memory"}, {"stderr": "# Warning: 'x' is deprecated"}):
        assert _rendered_twice(package / MULTI, package / MULTI, **outcome)


def test_render_that_may_read_other_files_is_not_cached(package: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    assert _rendered_twice(tmp_path / "own", tmp_path / "own")
    replace(package / MULTI / "kustomization.yaml", "resources:\n", "resources:\n  - ../../../x/../../own\n")
    assert _rendered_twice(package / MULTI, package / MULTI)
    replace(package / MULTI / "kustomization.yaml", "  - ../../../x/../../own\n", "")
    (package / "quickstart/common/link").symlink_to(tmp_path)
    assert _rendered_twice(package / MULTI, package / MULTI)
