"""The design, held: who may import what, who may print and exit, and where a kind's parts lie."""

from __future__ import annotations

import ast
import re
import typing
from functools import cache
from pathlib import Path

import pytest

import packager
from packager.kinds import AnyOverlay
from packager.render import TEMPLATES

PACKAGE = Path(packager.__file__).parent
MODULES = sorted(
    path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if "templates" not in path.parts
)

# Each library has one owner: a change of the library, or of what is safe to do with it, is a change of one module.
OWNERS = {
    "jinja2": {"render.py"},
    "tarfile": {"archive.py"},
    "subprocess": {"process.py"},
    "yaml": {"yamlio.py"},
    "typer": {"cli/"},
    "rich": {"cli/"},
}

# From the ground up; a module may import what stands on its own line or above.
LAYERS = (
    (
        "errors",
        "problems",
        "paths",
        "contents",
        "yamlio",
        "envfile",
        "quantity",
        "process",
        "fetch",
        "atomic",
        "__init__",
    ),
    ("manifest", "tree", "archive", "package", "kubectl", "components"),
    ("spec", "kinds", "selection"),
    ("plan",),
    ("render", "verify"),
    ("edits", "settings", "configure", "cluster"),
    ("image",),
    ("cli",),
    ("__main__",),
)


def parsed(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


@cache
def imports(module: str) -> set[str]:
    """Return the full names of the modules that `module` imports, wherever in it, but for its types alone."""
    found: set[str] = set()
    tree = parsed(module)
    for block in [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]:
        block.body.clear()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports by a relative path"
            assert node.module is not None
            found.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    return found


def calls(module: str) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(parsed(module)) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("library", OWNERS)
def test_a_library_has_one_owner(library: str) -> None:
    users = {module for module in MODULES if library in {name.partition(".")[0] for name in imports(module)}}
    assert {user for user in users if not user.startswith(tuple(OWNERS[library]))} == set()
    assert users != set()


def test_only_the_command_line_speaks_and_exits() -> None:
    speaking = {"print", "input", "sys.exit", "exit", "quit", "os._exit", "sys.stdout.write", "sys.stderr.write"}
    found = {module: calls(module) & speaking for module in MODULES if not module.startswith("cli/")}
    assert {module: names for module, names in found.items() if names} == {}


def layer(module: str) -> int:
    part = module.partition("/")[0].removesuffix(".py")
    levels = [level for level, parts in enumerate(LAYERS) if part in parts]
    assert levels, f"{module} is on no layer: LAYERS has to say which"
    return levels[0]


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_downwards(module: str) -> None:
    used = {
        name.removeprefix("packager.").partition(".")[0] for name in imports(module) if name.startswith("packager.")
    }
    above = {name for name in used if not name.startswith("__") and layer(name) > layer(module)}
    assert above == set()


def test_every_kind_has_a_module_and_templates() -> None:
    kinds = {kind.__name__ for kind in typing.get_args(AnyOverlay)}
    assert {path.name for path in (TEMPLATES / "kinds").iterdir()} == kinds
    modules = {Path(module).stem for module in MODULES if module.startswith("kinds/")} - {"__init__", "base"}
    assert modules == {kind.lower() for kind in kinds}
    for kind in kinds:
        assert (TEMPLATES / "kinds" / kind / "quickstart/k8s/mlops/OVERLAY/kustomization.yaml").is_file()


def test_exit_codes_are_those_of_the_documentation() -> None:
    from packager import errors

    documented = dict(re.findall(r"(\w+Error) +(\d)", errors.__doc__ or ""))
    classes = {name: each for name, each in vars(errors).items() if isinstance(each, type)}
    assert documented == {
        name: str(each.exit_code) for name, each in classes.items() if issubclass(each, errors.MlpackError)
    }


def test_every_verb_is_a_module() -> None:
    from typer.main import get_command

    from packager.cli import app

    verbs = set(getattr(get_command(app), "commands", {}))
    modules = {Path(module).stem for module in MODULES if module.startswith("cli/")}
    assert verbs - modules == {"list", "show"}  # both in models.py
