from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.main import get_command

from packager import cli
from packager.base import errors
from packager.cli import verbs
from tools import allowed_fields, api_reference, command_reference, option_reference, spec_reference, terminal_picture

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome

CHECKOUT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")])


@pytest.mark.parametrize(
    ("document", "reference"),
    [
        ("docs/spec.md", spec_reference.reference),
        ("docs/options.md", option_reference.reference),
        ("docs/commands.md", command_reference.reference),
        ("docs/api.md", api_reference.reference),
        ("docs/security.md", allowed_fields.reference),
    ],
)
def test_references_match_code(document: str, reference: Callable[[], str]) -> None:
    written = (CHECKOUT / document).read_text(encoding="utf-8")
    assert written == reference(), f"{document} is not what the code says: run `make docs`"


def test_documents_name_no_package_index_for_mlpack() -> None:
    """The distribution is not in a package index, so anyone could register its name there."""
    files = [*DOCUMENTS, *CHECKOUT.glob("packager/**/*.py"), *CHECKOUT.glob("packager/**/*.md")]
    assert [path for path in files if "mlpack-kubernetes" in path.read_text(encoding="utf-8")] == []


def test_missing_extra_is_installed_from_a_checkout() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    error = errors.missing_extra("mlpack serve", ModuleNotFoundError(name="litestar"), "service", "oidc")
    assert str(error) == "mlpack serve needs the Python package litestar, which is not installed"
    hint = "install mlpack with its extras 'service' and 'oidc': pip install '.[service,oidc]' in its checkout"
    assert error.hint == hint
    assert {"service", "oidc"} <= set(project["optional-dependencies"])


def test_links_of_documents_exist() -> None:
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        headings = {_anchor(heading) for heading in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)}
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if target.startswith("#"):
                assert target[1:] in headings, f"{document.name} has no heading for {target}"
            elif "://" not in target:
                assert (document.parent / target.partition("#")[0]).exists(), f"{document.name} links to {target}"


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_usage_lists_every_verb() -> None:
    text = (CHECKOUT / "docs/usage.md").read_text(encoding="utf-8")
    verbs = set(vars(get_command(cli.app))["commands"])
    listed = set(re.findall(r"`(?:mlpack )?([a-z]+)", text))
    assert verbs <= listed, verbs - listed


def test_usage_lists_every_exit_code() -> None:
    text = (CHECKOUT / "docs/usage.md").read_text(encoding="utf-8")
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", text, flags=re.MULTILINE)}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    raised = {kind.exit_code for kind in kinds if issubclass(kind, errors.MlpackError)}
    assert listed == {0, *raised, 130}


def test_architecture_has_row_for_each_folder() -> None:
    text = (CHECKOUT / "docs/architecture.md").read_text(encoding="utf-8")
    packager = CHECKOUT / "packager"
    folders = {f"{path.parent.relative_to(packager)}/" for path in packager.rglob("*.py")} - {"./"}
    alone = {path.name for path in packager.glob("*.py") if not path.name.startswith("_")}
    named = set(re.findall(r"`([a-z_/]+(?:/|\.py))`", text.partition("## The folders")[2].partition("## The rules")[0]))
    # The folder of a kind or of a foreign format is named in the row of its parent.
    shown = named | {f"{parent}{name}" for parent in ("modelspec/importers/", "workloads/") for name in named}
    hidden = {name for name in folders if re.match(r"(service/store/migrations|.*/templates)/", name)}
    assert (folders | alone) - hidden - shown == set()
    parents = (packager, packager / "modelspec/importers", packager / "workloads", CHECKOUT, CHECKOUT / "tests")
    assert {name for name in named if not any((parent / name).exists() for parent in parents)} == set()


@pytest.mark.thorough
def test_picture_of_terminal_shows_present_output(kubectl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it fails, run `make pictures`."""
    programs = (str(kubectl.parent), str(Path(sys.executable).parent))
    monkeypatch.setenv("PATH", os.pathsep.join(programs), prepend=os.pathsep)
    lines = [*terminal_picture.executed(), *terminal_picture.recorded()]
    assert (CHECKOUT / "docs/pictures/terminal.svg").read_text(encoding="utf-8") == terminal_picture.picture(lines)


def test_quick_start_has_eight_lines_and_runs_those_without_a_cluster(mlpack: Callable[..., Outcome]) -> None:
    """`tests/e2e/test_readme.py` runs all of them."""
    section = (CHECKOUT / "README.md").read_text(encoding="utf-8").partition("## Quick start")[2].partition("\n## ")[0]
    commands, printed = re.findall(r"^```(?:sh|text)\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line)[1:] for line in commands.splitlines()]
    assert len(lines) == 8
    expected = set(printed.splitlines())
    for line in (lines[0], lines[4]):
        done = mlpack(*line)
        assert done.code == 0, done.stderr
        assert expected & set(done.stdout.splitlines()), line


EXAMPLES = {
    "docs/tour.md": 10,
    "docs/index.md": 4,
    "docs/guides/storage.md": 2,
    "docs/guides/gpus.md": 2,
    "docs/guides/queues.md": 2,
    "docs/guides/mlcubes.md": 2,
    "docs/guides/kubeflow.md": 2,
}
"""Documents whose console blocks are run, and how many commands each has at least."""


@pytest.mark.parametrize(
    ("document", "number"),
    [pytest.param(*entry, marks=pytest.mark.thorough if "guides" in entry[0] else ()) for entry in EXAMPLES.items()],
)
def test_document_shows_output_of_its_commands(
    document: str,
    number: int,
    mlpack: Callable[..., Outcome],
    kubectl: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The test runs a document's examples in an empty folder, and compares stdout and stderr without their order.

    If only a digest differs, a package has changed: copy the digest from the test's failure into the document.
    """
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").symlink_to(kubectl)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    text = (CHECKOUT / document).read_text(encoding="utf-8")
    for name, content in re.findall(r"Save this as\s`([^`]+)`:\n\n```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    examples = "\n".join(re.findall(r"^```console\n(.*?)\n```$", text, flags=re.MULTILINE | re.DOTALL))
    commands = [example.partition("\n") for example in examples.removeprefix("$ ").split("\n$ ")]
    assert len(commands) >= number
    for command, _, expected in commands:
        printed = re.sub(r"(sha256:[0-9a-f]{12})[0-9a-f]+", r"\1…", _printed(mlpack, *shlex.split(command)))
        assert sorted(printed.splitlines()) == sorted(expected.splitlines()), command


def test_commands_of_documents_are_accepted() -> None:
    """Each command line of mlpack in a block has the arguments and options that its command takes."""
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        blocks = re.findall(r"^```(sh|console|text)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
        for language, block in blocks:
            lines = block.replace("\\\n", " ").splitlines()
            prompt = "" if language == "sh" else "$ "
            commands = [line.removeprefix(prompt) for line in lines if line.startswith(prompt)]
            for line in (part.strip() for command in commands for part in _SEPARATOR.split(command)):
                if line.startswith("mlpack "):
                    _parse(shlex.split(line, comments=True)[1:])


def test_commands_of_messages_are_accepted() -> None:
    """Each command of mlpack in a hint, a message, a comment or a template exists, and has the options beside it."""
    load = functools.cache(verbs.load)
    for source in [*CHECKOUT.glob("packager/**/*.py"), *CHECKOUT.glob("packager/**/templates/**/*.*")]:
        text = re.sub(r'" *\n *f?"', "", source.read_text(encoding="utf-8", errors="replace"))  # texts in several parts
        for mark, name, rest in re.findall(r"(`?)\bmlpack ([a-z]+)\b((?: [^\s`'\"()|;]+)*)", text):
            place = f"{source.name}: mlpack {name}{rest}"
            if name not in verbs.VERBS:
                assert not mark, place
                continue
            command: Any = load(name)
            words = rest.partition(" -- ")[0].split()
            while words and (inner := getattr(command, "commands", {}).get(words[0].strip(".,:"))):
                command, words = inner, words[1:]
            if mark and words and name != "serve" and hasattr(command, "commands"):
                assert not re.fullmatch("[a-z]+", words[0]), place
            options = {
                option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
            }
            assert {word for word in words if re.fullmatch(r"--[a-z-]+", word)} <= {"--help", *options}, place


_SEPARATOR = re.compile(r"\s(?:&&|\||;|>|&)\s|\$\(|\)$|^\w+=\S+\s")


def _parse(words: list[str]) -> None:
    """Parse a command line without running it."""
    command: Any = verbs.load(words[0])
    steps, rest = words[:1], words[1:]
    while rest and (inner := getattr(command, "commands", {}).get(rest[0])):
        command, steps, rest = inner, [*steps, rest[0]], rest[1:]
    with command.make_context(" ".join(steps), rest, parent=typer.Context(command, info_name="mlpack")):
        pass


def _printed(mlpack: Callable[..., Outcome], program: str, *arguments: str) -> str:
    if program == "mlpack":
        done = mlpack(*arguments)
        return done.stdout + done.stderr
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout
