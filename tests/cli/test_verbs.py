"""Tests of the table of verbs, of the examples of each command, and of the conventions in docs/usage.md."""

import importlib
import json
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.main import get_command

import packager.cli
from packager.cli import verbs
from packager.cli.verbs import EXAMPLES, examples
from tests.conftest import Mlpack


def modules_of_verbs() -> set[str]:
    names = [info.name for info in pkgutil.iter_modules(packager.cli.__path__)]
    modules = {name: importlib.import_module(f"packager.cli.{name}") for name in names}
    return {name for name, module in modules.items() if str(module.__doc__).startswith("`mlpack ")}


def test_table_contains_every_module_of_a_verb() -> None:
    assert {verb.module for verb in verbs.VERBS.values()} == modules_of_verbs()


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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["hello-mpi", "--dry-run"], ["hello-mpi", "--dry-run=client"]),
        (["--dry-run", "hello-mpi"], ["--dry-run=client", "hello-mpi"]),
        (["hello-mpi", "--dry-run", "server"], ["hello-mpi", "--dry-run", "server"]),
        (["hello-mpi", "--dry-run=server"], ["hello-mpi", "--dry-run=server"]),
    ],
)
def test_deploy_takes_dry_run_without_a_side_as_client(words: list[str], expected: list[str]) -> None:
    top = get_command(packager.cli.app)
    _, _, rest = top.resolve_command(typer.Context(top, info_name="mlpack"), ["deploy", *words])  # type: ignore[attr-defined]
    assert rest == expected


COMMANDS = {name: command for verb in verbs.VERBS for name, command in verbs.leaves(verb, verbs.load(verb))}


NAMES = {line.partition(": ")[0] for line in EXAMPLES.splitlines() if line}


def test_every_command_has_an_example() -> None:
    assert set(COMMANDS) <= NAMES
    assert NAMES - set(COMMANDS) == {"serve"}


def test_example_is_accepted_by_its_command() -> None:
    for name, line in [(command, line) for command in NAMES for line, _ in examples(command)]:
        words = shlex.split(re.sub(r"^source <\((.*)\)$", r"\1", line).partition(" | ")[0].partition(" > ")[0])
        command: Any = COMMANDS[name] if name in COMMANDS else verbs.load(name)
        path = name.split(" ")
        assert words[: len(path) + 1] == ["mlpack", *path]
        with command.make_context(name, words[len(path) + 1 :], parent=typer.Context(command, info_name="mlpack")):
            pass


def groups() -> Iterator[str]:
    """Yield the name of each group of commands."""
    for name in COMMANDS:
        steps = name.split(" ")
        yield from (" ".join(steps[:length]) for length in range(1, len(steps)))


def options(name: str) -> dict[str, Any]:
    """Return the options of a command by their flags."""
    return {flag: parameter for parameter in COMMANDS[name].params for flag in parameter.opts if flag.startswith("-")}


def test_help_of_each_command_is_complete_and_plain(mlpack: Mlpack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    for name in (*COMMANDS, *dict.fromkeys(groups())):
        done = mlpack(*name.split(" "), "-h")
        assert (done.code, done.stderr) == (0, ""), name
        assert done.stdout.startswith(f"Usage: mlpack {name} "), name
        assert "\x1b" not in done.stdout, name
        assert max(map(len, done.stdout.splitlines())) <= 100, name
        if name in COMMANDS:
            assert "\n  Examples:\n" in done.stdout, name
            assert [option.opts for option in COMMANDS[name].params if not getattr(option, "help", None)] == [], name
            arguments = [one for one in COMMANDS[name].params if one.param_type_name == "argument"]
            assert [one.name for one in arguments if not one.metavar or one.metavar != one.metavar.upper()] == [], name
            assert "<int" not in done.stdout, name
            assert "<text>" not in done.stdout, name


def test_each_command_refuses_an_unknown_option_as_all_others_do(mlpack: Mlpack) -> None:
    for name in COMMANDS:
        done = mlpack(*name.split(" "), "--no-such-option")
        assert (done.code, done.stdout) == (2, ""), name
        assert done.stderr.startswith("error: no such option: --no-such-option"), name
        if "--output" in options(name):
            done = mlpack(*name.split(" "), "-o", "json", "--no-such-option")
            assert (done.code, json.loads(done.stdout)["error"]["exit_code"]) == (2, 2), name
        if "--dry-run" in options(name):  # which needs no value
            done = mlpack(*name.split(" "), "--dry-run", "--no-such-option")
            assert (done.code, done.stderr.splitlines()[0]) == (2, "error: no such option: --no-such-option"), name


@pytest.mark.parametrize("name", ["deploy", "run"])
def test_command_with_a_value_for_dry_run_may_have_no_argument(name: str, mlpack: Mlpack) -> None:
    done = mlpack(*name.split(" "))
    assert (done.code, done.stderr.startswith("error: ")) == (2, True), done.stderr
