"""Tests of the architecture: imports, owners of libraries, output, and the folders of the kinds."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
import typing
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import packager
from packager.builder import templating
from packager.builder.render import TEMPLATES
from packager.modelspec.model import AnyOverlay

PACKAGE = Path(packager.__file__).parent
TESTS = Path(__file__).parent
MODULES = tuple(
    sorted(
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "templates" not in path.parts and path.stem != templating.COMPILED
    )
)
FOLDERS = sorted({".".join(("packager", *folder.parts)) for module in MODULES for folder in Path(module).parents})

# Each library has one owner: a change of the library, or of what is safe to do with it, is a change of one module.
OWNERS = {
    "alembic": {"service/store/"},
    "cryptography": {"publish/keys.py", "service/sealing.py"},
    "ctypes": {"base/atomic.py", "service/registry/sandbox.py"},
    "fcntl": {"base/workfolder.py"},
    "gzip": {"package/archive.py"},
    "http": {"base/web.py"},
    "httpx2": {"service/callbacks/courier.py", "service/jobs/kube.py"},  # lightkube raises its errors
    # Our own templates, of packages and of the page; those of others, in a sandbox.
    "jwt": {"service/access/issuer_tokens.py"},
    "jinja2": {"builder/templating.py", "service/page/html.py", "service/registry/sandbox.py"},
    "jsonschema": {"modelspec/validation.py"},
    "lightkube": {"service/jobs/kube.py"},
    "litestar": {"service/api/", "service/page/"},
    "msgspec": {"base/values.py"},
    "prometheus_client": {"service/prometheus.py"},
    "rich": {"cli/console.py", "cli/drawing.py"},
    "ruamel": {"modelspec/importers/specfile.py"},
    "select": {"base/process.py"},
    "selectors": {"service/registry/rendering.py"},
    "sqlalchemy": {"service/store/"},
    "subprocess": {"base/process.py", "service/registry/rendering.py"},
    "tarfile": {
        "cluster/dev.py",
        "cluster/copy_from_pod.py",
        "cluster/copy_to_pod.py",
        "package/archive.py",
        "publish/bundle.py",
        "publish/layout.py",
        "publish/load.py",
    },
    "tempfile": {"base/workfolder.py"},
    # A watch and logs are read while others wait, and SQLite is written by one thread at a time.
    "threading": {
        "base/process.py",
        "cluster/logreader.py",
        "cluster/podwatch.py",
        "service/registry/rendering.py",
        "service/store/databases.py",
    },
    "typer": {"cli/"},
    "urllib": {"base/rest.py", "base/web.py", "service/api/incoming.py"},
    "urllib3": {"base/web.py"},
    "uvicorn": {"service/serving.py"},
    "yaml": {"base/yamlio.py"},
    "zlib": {"package/archive.py", "service/jobs/logs.py"},  # archives; logs in a database
}

FACES = {
    "objects": {
        "kubernetes.manifest": "Manifest at listing mapping text",
        "kubernetes.objects": "Object created labels name owners uid",
        "kubernetes.podsecurity": "Level",
        "workloads": "kueue structures",
        "workloads.kinds": "kinds",
        "workloads.pods": "Pods",
    },
    "judging": {"verify.judging": "Task judge value_faults word_fault"},
    "diagnosis": {
        "diagnosis.diagnose": "diagnose",
        "diagnosis.past": "Memory",
        "diagnosis.queued": "held",
        "kubernetes.kubectl.messages": "NOT_STARTED",
        "kubernetes.pods": "state",
        "kubernetes.remedy": "Action Remedy",
        "kubernetes.snapshot": "Queueing Snapshot",
        "kubernetes.verdict": "Finding Phase Verdict",
    },
    "curves": {
        "diagnosis.curves.figure": "figures number",
        "diagnosis.curves.points": "Curve STEP added measured",
    },
    "values": {"modelspec": "conversion", "modelspec.validation": "form validate"},
}
"""The imports of the task service from the core, beside `base/`: by face, the names in each module."""

USERS = {
    "judging": {"service/registry/policy.py"},
    "diagnosis": {f"service/jobs/{name}.py" for name in ("follower", "kube", "mirror", "user_hints")},
    "values": {"service/api/app.py", "service/config_file.py", "service/registry/bodies.py"},
}
"""The only modules of the service that import from a face; of the other faces, all may."""

# From the lowest layer up; a module may import from its own line and the lines above.
LAYERS = (
    ("base", "__init__"),
    ("kubernetes",),
    ("package",),
    ("workloads",),
    ("rendering",),
    ("modelspec",),
    ("site",),
    ("builder",),
    ("verify",),
    ("configure",),
    ("diagnosis",),
    ("cluster",),
    ("publish",),
    ("tasks",),
    ("service",),
    ("cli",),
    ("__main__",),
)


@cache
def parsed(module: str) -> ast.Module:
    """Return the syntax tree of a module; callers must not change it."""
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


@cache
def nodes(module: str) -> tuple[ast.AST, ...]:
    """Return all nodes of the syntax tree of a module."""
    return tuple(ast.walk(parsed(module)))


STAGES = ("kubernetes.kubectl", "package", "workloads", "rendering", "diagnosis")


@cache
def imports(module: str) -> set[str]:
    """Return the full names of the modules that `module` imports anywhere, also only for types."""
    names: set[str] = set()
    for node in nodes(module):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports by a relative path"
            assert node.module is not None
            names.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    return names


def dotted(module: str) -> str:
    """Return the name of a module by its path: `packager.verify` for `verify/__init__.py`."""
    return ".".join(("packager", *Path(module).with_suffix("").parts)).removesuffix(".__init__")


@cache
def dependencies() -> dict[str, set[str]]:
    """Return the modules of packager that each module imports; `from packager.modelspec import load` is `load`."""
    names = {dotted(module) for module in MODULES}
    graph: dict[str, set[str]] = {}
    for module in MODULES:
        tree = parsed(module)
        taken = {
            (f"{node.module}.{alias.name}", str(node.module))
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        used = {name if name in names else parent for name, parent in taken}
        used |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        graph[dotted(module)] = used & names - {dotted(module)}
    return graph


def circles(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Return a cycle of the graph, if there is one."""
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return [tuple(error.args[1])]
    return []


@cache
def calls(module: str) -> set[str]:
    return {ast.unparse(node.func) for node in nodes(module) if isinstance(node, ast.Call)}


def test_library_is_imported_only_by_its_owner() -> None:
    for library, owners in OWNERS.items():
        users = {module for module in MODULES if library in {name.partition(".")[0] for name in imports(module)}}
        assert {user for user in users if not user.startswith(tuple(owners))} == set(), library
        assert users != set(), library


def test_library_has_owner_and_is_declared() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    declared = {re.split(r"[\[><=]", requirement)[0] for requirement in requirements}
    imported = {name.partition(".")[0] for module in MODULES for name in imports(module)}
    libraries = imported - set(sys.stdlib_module_names) - {"packager"}
    assert libraries - set(OWNERS) == set()
    names = {"jwt": "pyjwt", "yaml": "pyyaml", "ruamel": "ruamel.yaml"}
    names["prometheus_client"] = "prometheus-client"
    assert {names.get(name, name) for name in libraries} == declared - {"psycopg"}  # which SQLAlchemy imports


def test_workfolder_alone_removes_folders() -> None:
    removing = {"tempfile.TemporaryDirectory", "tempfile.mkdtemp", "tempfile.mkstemp", "shutil.rmtree"}
    callers = {module: calls(module) & removing for module in MODULES}
    assert {module: names for module, names in callers.items() if names} == {
        "base/workfolder.py": {"shutil.rmtree", "tempfile.mkdtemp"}
    }


def test_command_line_alone_prints_and_exits() -> None:
    speaking = {"print", "input", "sys.exit", "exit", "quit", "os._exit", "sys.stdout.write", "sys.stderr.write"}
    callers = {module: calls(module) & speaking for module in MODULES if not module.startswith("cli/")}
    assert {module: names for module, names in callers.items() if names} == {}


def test_commands_import_no_stages() -> None:
    """A command parses its arguments, calls a use case of its noun, and prints the result."""
    stages = {module: _stages(module) for module in MODULES if module.startswith("cli/")}
    assert {module: names for module, names in stages.items() if names} == {}


def test_service_imports_the_names_of_five_faces_of_the_core_alone() -> None:
    """The service is a user of the core: what it needs is listed, so that a change shows what else it touches."""
    faces = {f"packager.{origin}": face for face, modules in FACES.items() for origin in modules}
    used: dict[str, set[str]] = {}
    users: dict[str, set[str]] = {}
    for module in (module for module in MODULES if module.startswith("service/")):
        for node in (node for node in nodes(module) if isinstance(node, ast.ImportFrom)):
            origin = node.module or ""
            if origin.startswith("packager.") and not origin.startswith(("packager.service", "packager.base")):
                used.setdefault(origin, set()).update(alias.name for alias in node.names)
                users.setdefault(faces.get(origin, ""), set()).add(module)
    expected = {f"packager.{origin}": set(names.split()) for part in FACES.values() for origin, names in part.items()}
    assert used == expected
    assert {face: users[face] for face in USERS} == USERS


def _stages(module: str) -> set[str]:
    """Return the modules of stages that `module` imports, except only for types."""
    blocks = [node for node in nodes(module) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    for_types = {id(node) for block in blocks for part in block.body for node in ast.walk(part)}
    imported = (node for node in nodes(module) if isinstance(node, ast.ImportFrom) and id(node) not in for_types)
    origins = {node.module or "" for node in imported}
    return {name for name in origins if name.startswith(tuple(f"packager.{stage}" for stage in STAGES))}


def test_use_case_uses_no_terminal_and_no_environment() -> None:
    """Use cases take values, because the service that calls them has no terminal and not the user's environment."""
    nouns = ("builder/", "cluster/", "configure/", "modelspec/", "publish/", "site/", "tasks/", "verify/")
    for module in (module for module in MODULES if module.startswith(nouns)):
        names = {ast.unparse(node) for node in nodes(module) if isinstance(node, ast.Attribute)}
        assert {"os.environ", "os.getenv", "os.getuid", "os.getgid"} & names == set(), module
        assert {"sys", "getpass", "platform", "signal", "typer", "rich"} & imports(module) == set(), module


def layer(module: str) -> int:
    part = module.partition("/")[0].removesuffix(".py")
    levels = [level for level, parts in enumerate(LAYERS) if part in parts]
    assert levels, f"{module} is on no layer: LAYERS has to say which"
    return levels[0]


def test_imports_point_downwards() -> None:
    above = {
        (module, name)
        for module in MODULES
        for name in imports(module)
        if name.startswith("packager.") and not name.startswith("packager.__")
        if layer(name.removeprefix("packager.").partition(".")[0]) > layer(module)
    }
    assert above == set()


def test_parts_of_folder_have_no_import_cycle() -> None:
    """No two of the folders and modules in a folder import each other."""
    for folder in FOLDERS:
        graph: dict[str, set[str]] = {}
        for module, used in dependencies().items():
            if module.startswith(f"{folder}."):
                below = {part_of(folder, name) for name in used if name.startswith(f"{folder}.")}
                graph.setdefault(part_of(folder, module), set()).update(below - {part_of(folder, module)})
        assert circles(graph) == [], folder


def part_of(folder: str, module: str) -> str:
    """Return the direct child of `folder` that is `module` or contains it."""
    return module.removeprefix(f"{folder}.").partition(".")[0]


def test_kind_has_module_and_templates() -> None:
    kinds = {kind.__name__ for kind in typing.get_args(AnyOverlay)}
    assert TEMPLATES.keys() - {""} == {kind.lower() for kind in kinds}
    modules = {Path(module).parent.name for module in MODULES if module.startswith("workloads/")} - {"workloads"}
    assert modules == {kind.lower() for kind in kinds}
    for kind in kinds:
        assert (TEMPLATES[kind.lower()] / "quickstart/k8s/mlops/OVERLAY/kustomization.yaml").is_file()


def test_documents_name_existing_files() -> None:
    for document in (PACKAGE.parent / "docs").rglob("*.md"):
        paths = re.findall(r"`((?:packager|tests|model_specs)/[\w/.-]+)`", document.read_text(encoding="utf-8"))
        assert [path for path in paths if not (PACKAGE.parent / path).exists()] == [], document
    guide = (PACKAGE.parent / "docs/change.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| .+ \| `(packager/.+)` \| `(.+)` \|$", guide, re.MULTILINE)
    assert [path for path, word in words if word not in (PACKAGE.parent / path).read_text(encoding="utf-8")] == []


def test_module_has_test_of_its_name_or_names_one() -> None:
    """`packager/x/y.py` is tested in `tests/x/test_y.py`, or its docstring ends with `Tests: ` and the test's path."""
    modules = {module for module in MODULES if Path(module).stem != "__init__" or _defines(module)}
    assert {module for module in modules if not (own_tests(module) or named_tests(module))} == set()


def test_test_that_module_names_exists() -> None:
    named = {file for module in MODULES for file in named_tests(module)}
    assert {file for file in named if not (TESTS / file).is_file()} == set()


def _defines(module: str) -> bool:
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in parsed(module).body)


def own_tests(module: str) -> list[str]:
    """Return the test files that are called after a module."""
    folder, stem = Path(module).parent, Path(module).stem
    name = re.compile(rf"test_{folder.name if stem == '__init__' else stem}(_\w+)?\.py")
    return [path.name for path in (TESTS / folder).glob("test_*.py") if name.fullmatch(path.name)]


def named_tests(module: str) -> list[str]:
    """Return the test file with which the docstring of a module ends, if it names one."""
    return re.findall(r"\sTests: (\S+\.py)\.\Z", ast.get_docstring(parsed(module)) or "")
