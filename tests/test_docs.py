from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from packager import cli, errors
from tools.spec_reference import reference

CHECKOUT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/*.md")])


def test_the_reference_of_the_spec_is_made_of_its_types() -> None:
    written = (CHECKOUT / "docs/spec.md").read_text(encoding="utf-8")
    assert written == reference(), "docs/spec.md is not what the types say: run `make docs`"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
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


def test_the_readme_lists_every_verb() -> None:
    text = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Commands")[2].partition("\n## ")[0]
    verbs = set(vars(get_command(cli.app))["commands"])
    listed = set(re.findall(r"`(?:mlpack )?([a-z]+)", section))
    assert verbs <= listed, verbs - listed


def test_the_readme_lists_every_exit_code() -> None:
    text = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", text, flags=re.MULTILINE)}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    raised = {kind.exit_code for kind in kinds if issubclass(kind, errors.MlpackError)}
    assert listed == {0, *raised, 130}


def test_the_architecture_draws_every_module() -> None:
    drawing = (CHECKOUT / "docs/architecture.md").read_text(encoding="utf-8").partition("## The modules")[2]
    packager = CHECKOUT / "packager"
    modules = [path for folder in (packager, packager / "spec") for path in folder.iterdir()]
    names = {f"{path.name}/" if path.is_dir() else path.name for path in modules if not path.name.startswith("_")}
    assert {name for name in names if not re.search(rf"^ +{re.escape(name)} ", drawing, flags=re.MULTILINE)} == set()
    drawn = set(re.findall(r"\b[a-z_]+\.py\b", drawing.partition("## The rules")[0]))
    assert drawn == {name for name in drawn if any(packager.rglob(name))}
