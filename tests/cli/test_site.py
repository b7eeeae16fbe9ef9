"""Tests of `mlpack site`, and of a site's defaults in `configure`, as a user calls them."""

import json
from pathlib import Path

import pytest

from tests.conftest import Mlpack
from tests.modelspec.importers.test_mxjob import WORKER


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the user's own file, which does not exist."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "mlpack" / "site.yaml"


def test_init_writes_file_that_show_accepts(mlpack: Mlpack, config: Path) -> None:
    done = mlpack("site", "init")
    assert (done.code, done.stdout) == (0, f"{config}\n")
    assert done.stderr == "edit it, then: mlpack site show\n"
    shown = mlpack("site", "show")
    assert shown.stdout == "KEY   VALUE   FROM\n"
    assert shown.stderr.endswith("mlpack/site.yaml sets no default: remove the # before those that you need\n")
    again = mlpack("site", "init")
    assert again.code == 2
    assert again.stderr == f"error: {config} already exists and was left unchanged\nhint: --force replaces it\n"
    assert mlpack("site", "init", "--force").code == 0


def test_show_says_where_values_come_from(mlpack: Mlpack, config: Path) -> None:
    config.parent.mkdir(parents=True)
    config.write_text("registry: reg.example\n", encoding="utf-8")
    done = mlpack("site", "show")
    assert done.stdout == f"KEY        VALUE         FROM\nregistry   reg.example   {config}:1\n"
    shown = json.loads(mlpack("site", "show", "-o", "json").stdout)
    assert shown["values"] == [{"key": "registry", "value": "reg.example", "from": f"{config}:1"}]


def test_show_without_file_names_init(mlpack: Mlpack, config: Path) -> None:
    done = mlpack("site", "show")
    assert (done.code, done.stderr) == (2, f"error: there is no {config}\nhint: `mlpack site init` writes one\n")


def test_configure_takes_nearest_file(
    mlpack: Mlpack, config: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.parent.mkdir(parents=True)
    config.write_text("registry: user.example\n", encoding="utf-8")
    near = package.parent / "mlpack-site.yaml"
    near.write_text("registry: folder.example\n", encoding="utf-8")
    assert registry(mlpack, package) == "folder.example"
    variable = package.parent / "variable.yaml"
    variable.write_text("registry: variable.example\n", encoding="utf-8")
    monkeypatch.setenv("MLPACK_SITE", str(variable))
    assert registry(mlpack, package) == "variable.example"
    assert registry(mlpack, package, "--site-file", near) == "folder.example"


def registry(mlpack: Mlpack, package: Path, *options: str | Path) -> str:
    """Return the registry that `configure` would set."""
    done = mlpack("configure", package, "--dry-run", *options)
    assert done.code == 0, done.stderr
    return done.stderr.split("->  REGISTRY=")[1].split("\n")[0]


def test_configure_refuses_hostile_file_and_changes_nothing(mlpack: Mlpack, config: Path, package: Path) -> None:
    config.parent.mkdir(parents=True)
    config.write_text('registry: "a\\e[2Jb"\n', encoding="utf-8")
    done = mlpack("configure", package)
    assert done.code == 2
    assert "\x1b" not in done.stderr
    assert done.stderr.startswith(f"{config}:1:11: expected a host")


def test_import_names_the_site_that_its_build_uses(mlpack: Mlpack, config: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(WORKER, encoding="utf-8")
    own = tmp_path / "own.yaml"
    own.write_text("registry: reg.example\n", encoding="utf-8")
    done = mlpack("import", "mxjob", "job.yaml", "--site-file", own)
    assert done.code == 0, done.stderr
    assert done.stderr.splitlines() == [
        f"using site defaults of {own}",
        f"build it with: mlpack build ./single --site-file {own}",
    ]
    config.parent.mkdir(parents=True)
    config.write_text("queue: team\n", encoding="utf-8")
    assert f"using site defaults of {config}\n" in mlpack("import", "mxjob", "job.yaml", "--force").stderr
