"""Tests of what a site's file sets, and of the search for a site's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import UsageError
from packager.configure.site_answers import show
from packager.site.example import create
from packager.site.read import find, read
from tests.site.test_read import COMPLETE

if TYPE_CHECKING:
    from pathlib import Path


def test_create_refuses_invalid_answer(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    with pytest.raises(UsageError, match="is not valid"):
        create(path, {"registry": "a b"}, force=False)
    assert not path.exists()


def test_show_takes_overrides_of_package_into_account(tmp_path: Path, package: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(COMPLETE, encoding="utf-8")
    everywhere, for_package = show(read(path), None).as_json(), show(read(path), package).as_json()
    assert (everywhere["package"], everywhere["overrides"]) == (None, 2)
    assert (for_package["package"], for_package["overrides"]) == ("hello-mpi", 0)
    assert {"key": "queue", "value": "user-queue", "from": f"{path}:6"} in everywhere["values"]
    assert {"key": "queue", "value": "small", "from": f"{path}:15"} in for_package["values"]


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
