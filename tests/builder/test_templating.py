"""A compiled template is used only if it was compiled from the current template by the current Jinja2."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hatch_build import module
from packager.builder import templating
from packager.builder.render import TEMPLATES, scalar
from packager.builder.templating import Templates, roots
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILTERS: dict[str, Callable[..., str]] = dict.fromkeys(templating.FILTERS, str) | {"yaml": scalar}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder `packager` with a template that every package has and one of a kind `sub`."""
    (tmp_path / "workloads/sub/templates").mkdir(parents=True)
    (tmp_path / "workloads/sub/templates/x").write_text(
        "{% import 'macros' as m %}{{ m.twice(name) }} {{ 'yes' | yaml }}\n"
    )
    (tmp_path / "builder/templates").mkdir(parents=True)
    (tmp_path / "builder/templates/macros").write_text("{% macro twice(a) %}{{ a }}{{ a }}{% endmacro %}\n")
    return tmp_path


def use(monkeypatch: pytest.MonkeyPatch, source: str) -> list[str]:
    """Have `source` be the module of the compiled templates, and return which of them are filled."""
    values: dict[str, Any] = {}
    exec(source, values)  # noqa: S102 - as Python does it with a module
    used: list[str] = []

    def seen(name: str, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def made(environment: object) -> Any:
            used.append(name)
            return make(environment)

        return made

    templates = {name: (digest, seen(name, make)) for name, (digest, make) in values["TEMPLATES"].items()}
    compiled = SimpleNamespace(VERSION=values["VERSION"], TEMPLATES=templates)
    monkeypatch.setitem(sys.modules, f"packager.builder.{templating.COMPILED}", compiled)
    return used


def filled(folder: Path) -> str:
    return Templates(roots(folder), FILTERS).fill("sub/x", {"name": "a"})


def test_templates_use_compiled_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = use(monkeypatch, module(roots(folder)))
    assert filled(folder) == 'aa "yes"\n'
    assert used == ["sub/x", "macros"]


def test_changed_template_is_compiled_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = use(monkeypatch, module(roots(folder)))
    (folder / "builder/templates/macros").write_text("{% macro twice(a) %}{{ a }}+{{ a }}{% endmacro %}\n")
    assert filled(folder) == 'a+a "yes"\n'
    assert used == ["sub/x"]


@pytest.mark.thorough
def test_compiled_module_is_reproducible_and_complete() -> None:
    source = module(TEMPLATES)
    assert source == module(TEMPLATES)
    for root, folder in TEMPLATES.items():
        for path in folder.rglob("*"):
            name = f"{root}/{path.relative_to(folder).as_posix()}".removeprefix("/")
            assert not path.is_file() or f"    {name!r}: (" in source


def test_build_reads_and_writes_no_cache(tmp_path: Path) -> None:
    """Others may be able to write there."""
    home = tmp_path / "home"
    home.mkdir()
    variables = {"HOME": str(home), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(demo.CHECKOUT)}
    argv = [sys.executable, "-m", "packager", "build", "hello-mpi", "-d", str(tmp_path / "out"), "-q"]
    os.mkfifo(tmp_path / "cache")
    done = subprocess.run(
        argv, cwd=tmp_path, env=os.environ | variables, capture_output=True, text=True, timeout=600, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "home", "out"]
    assert list(home.iterdir()) == []
