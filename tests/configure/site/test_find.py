"""Tests of `packager.configure.site.find`: which file is the site's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.configure.site.find import find

if TYPE_CHECKING:
    from pathlib import Path


def test_find_returns_nearest_file_above(tmp_path: Path) -> None:
    config, folder = tmp_path / "config.yaml", tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    assert find(folder, config) is None
    config.touch()
    assert find(folder, config) == config
    (tmp_path / "mlpack-site.yaml").touch()
    assert find(folder, config) == tmp_path / "mlpack-site.yaml"
    (tmp_path / "a" / "mlpack-site.yaml").touch()
    assert find(folder, config) == tmp_path / "a" / "mlpack-site.yaml"


def test_find_ignores_file_that_came_with_a_package(tmp_path: Path) -> None:
    package = tmp_path / "hello"
    (package / "quickstart").mkdir(parents=True)
    (package / "manifest.json").touch()
    (package / "mlpack-site.yaml").touch()
    (package / "quickstart" / "mlpack-site.yaml").touch()
    assert find(package / "quickstart", tmp_path / "none") is None
    (tmp_path / "mlpack-site.yaml").touch()
    assert find(package / "quickstart", tmp_path / "none") == tmp_path / "mlpack-site.yaml"
