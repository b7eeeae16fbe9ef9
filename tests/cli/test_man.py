from __future__ import annotations

from typing import TYPE_CHECKING

from packager.cli import verbs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Mlpack


def test_man_writes_a_page_for_every_command(mlpack: Mlpack, tmp_path: Path) -> None:
    done = mlpack("man", "-d", "share/man1")
    commands = {name for verb in verbs.VERBS for name, _ in verbs.leaves(verb, verbs.load(verb))}
    written = {path.stem for path in (tmp_path / "share/man1").iterdir()}
    assert (done.code, done.stderr) == (0, "")
    assert {f"mlpack-{name.replace(' ', '-')}" for name in commands} <= written
    assert done.stdout.splitlines()[0] == "share/man1/mlpack.1"
    assert len(done.stdout.splitlines()) == len(written)


def test_man_prints_one_page(mlpack: Mlpack) -> None:
    page = mlpack("man", "operator", "install").stdout
    assert page.startswith('.TH "MLPACK-OPERATOR-INSTALL" 1 ')
    for title in ("NAME", "SYNOPSIS", "OPTIONS", "EXAMPLES"):
        assert f".SH {title}\n" in page
    assert ".B \\-\\-from FILE\nThe manifest to use instead of upstream's.\n" in page
