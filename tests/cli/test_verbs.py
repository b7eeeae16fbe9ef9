"""Tests of the table of verbs: it is complete, help prints all of it, and only the verb that runs is imported."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import typer
from typer.main import get_command

import packager.cli
from packager.cli import verbs

if TYPE_CHECKING:
    from tests.conftest import Mlpack


def modules_of_verbs() -> set[str]:
    names = [info.name for info in pkgutil.iter_modules(packager.cli.__path__)]
    modules = {name: importlib.import_module(f"packager.cli.{name}") for name in names}
    return {name for name, module in modules.items() if str(module.__doc__).startswith("`mlpack ")}


def test_table_contains_every_module_of_a_verb() -> None:
    assert {verb.module for verb in verbs.VERBS.values()} == modules_of_verbs()


def test_verb_loads_under_its_name() -> None:
    for name in verbs.VERBS:
        command = verbs.load(name)
        assert command.name == name
        assert command.help


def test_help_prints_full_summaries_at_80_columns(mlpack: Mlpack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for title, group in verbs.GROUPS.items():
        section = mlpack("--help").stdout.partition(f"{title}:\n")[2].partition("\n\n")[0]
        rows = [line.split(maxsplit=1) for line in section.splitlines()]
        assert rows == [[name, verb.summary] for name, verb in group.items()]


def test_mlpack_imports_only_the_verb_that_runs() -> None:
    program = (
        "import sys\nfrom packager.cli import main, verbs\n"
        "try:\n    main()\nfinally:\n"
        "    modules = {f'packager.cli.{verb.module}' for verb in verbs.VERBS.values()}\n"
        "    print(*sorted(modules & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, "version"], capture_output=True, text=True, check=True)
    assert done.stderr.split() == ["packager.cli.others"]


@pytest.mark.parametrize(
    ("shell", "typed"),
    [
        ("zsh", {"_TYPER_COMPLETE_ARGS": "mlpack ver"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "mlpack ver", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_shell_completes_verbs(shell: str, typed: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['mlpack']; from packager.cli import main; main()"],
        capture_output=True,
        text=True,
        check=True,
        env={"_MLPACK_COMPLETE": f"complete_{shell}", **typed},
    )

    assert "verify" in done.stdout
    assert "version" in done.stdout
    assert "build" not in done.stdout


def test_mlpack_proposes_similar_verb_for_misspelled_verb(mlpack: Mlpack) -> None:
    done = mlpack("biuld")
    assert done.code == 2
    assert "Did you mean 'build'?" in done.stderr


DOCUMENTS = {"render", "schema", "completion", "task schema"}
"""These print a document in a form of its own."""
STREAMS = {"dev", "logs", "task logs"}
"""These print what a pod writes."""
NO_RESULT = {"task templates delete", "task definitions delete"}
"""These print nothing."""


def test_every_command_with_a_result_prints_it_in_three_forms() -> None:
    for verb in verbs.VERBS:
        for name, command in verbs.leaves(verb, verbs.load(verb)):
            forms = [getattr(option.type, "choices", ()) for option in command.params if "--output" in option.opts]
            if not forms:
                assert name in DOCUMENTS | STREAMS | NO_RESULT, name
            elif not name.startswith("import "):
                assert {"json", "yaml", "name"} <= {str(form) for form in forms[0]}, name


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["hello-mpi", "--dry-run"], ["hello-mpi", "--dry-run=client"]),
        (["--dry-run", "hello-mpi"], ["--dry-run=client", "hello-mpi"]),
        (["hello-mpi", "--dry-run", "server"], ["hello-mpi", "--dry-run", "server"]),
        (["hello-mpi", "--dry-run=server"], ["hello-mpi", "--dry-run=server"]),
        (["hello-mpi", "--", "--dry-run"], ["hello-mpi", "--", "--dry-run"]),
    ],
)
def test_deploy_takes_dry_run_without_a_side_as_client(words: list[str], expected: list[str]) -> None:
    top = get_command(packager.cli.app)
    _, _, rest = top.resolve_command(typer.Context(top, info_name="mlpack"), ["deploy", *words])  # type: ignore[attr-defined]
    assert rest == expected
