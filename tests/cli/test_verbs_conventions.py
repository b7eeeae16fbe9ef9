"""The conventions in docs/usage.md, held by every command: those of a new one are tested without a change here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from packager.cli import verbs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Mlpack

COMMANDS: dict[str, Any] = {
    name: command for verb in verbs.VERBS for name, command in verbs.leaves(verb, verbs.load(verb))
}


def groups() -> Iterator[str]:
    """Yield the name of each group of commands."""
    for name in COMMANDS:
        steps = name.split(" ")
        yield from (" ".join(steps[:length]) for length in range(1, len(steps)))


def options(name: str) -> dict[str, Any]:
    """Return the options of a command by their flags."""
    return {flag: parameter for parameter in COMMANDS[name].params for flag in parameter.opts if flag.startswith("-")}


READ = {
    *("completion", "diff", "doctor", "history", "inspect", "lint", "list", "logs", "operator status", "options"),
    *("render", "schema", "serve check", "show", "site check", "site show", "status"),
    *("task definitions show", "task list", "task logs", "task schema", "task status", "task templates show"),
    *("verify", "version", "workspace ls"),
}
"""These change nothing."""
WRITE_FILES = {
    *(
        "build",
        "bundle",
        "import intel",
        "import jobset",
        "import kubeflow",
        "import mlcube",
        "import mxjob",
        "init",
        "key new",
        "pull",
        "results",
    ),
    *("serve backup", "site init", "task export"),
}
"""These only write files of their own, and replace none without --force."""
INTERACTIVE = {"dev", "serve migrate", "serve token", "task cancel", "task rerun"}
"""These change what is named on their command line at once."""
REFUSED_BY_SERVER = {"task definitions delete", "task templates delete"}
"""These ask, and the server refuses them for what is in use."""


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
            assert [option.opts for option in COMMANDS[name].params if not option.help] == [], name
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


def test_each_command_has_the_common_options() -> None:
    exempt = READ | WRITE_FILES | INTERACTIVE | REFUSED_BY_SERVER
    for name in COMMANDS:
        assert options(name)["-q"] is options(name)["--quiet"], name
        assert ("--dry-run" in options(name)) is (name not in exempt), name
        if name.split(" ")[-1] in {"delete", "uninstall"}:
            assert options(name)["-y"] is options(name)["--yes"], name


@pytest.mark.parametrize("name", ["deploy", "run"])
def test_command_with_a_value_for_dry_run_may_have_no_argument(name: str, mlpack: Mlpack) -> None:
    done = mlpack(*name.split(" "))
    assert (done.code, done.stderr.startswith("error: ")) == (2, True), done.stderr
