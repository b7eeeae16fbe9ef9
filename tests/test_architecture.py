"""Tests of the architecture: imports, owners of libraries, output, names, and the folders of the kinds."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
import typing
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import packager
from packager.builder import templating
from packager.builder.render import TEMPLATES
from packager.workloads.anyoverlay import AnyOverlay
from tests import prose

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
    "cryptography": {"publish/signer.py", "service/sealing.py"},
    "ctypes": {"base/systemcalls.py"},
    "fcntl": {"base/locks.py"},
    "gzip": {"package/archive.py"},
    # Downloads; requests with a token, which go to one host alone; registries of packages.
    "http": {"base/fetch.py", "base/rest.py", "publish/transport.py"},
    "httpx2": {"service/callbacks/transport.py", "service/jobs/kube.py"},  # lightkube raises its errors
    "isal": {"package/archive.py"},
    # Our own templates, of packages and of the page; those of others, in a sandbox.
    "jwt": {"service/access/oidc.py"},
    "jinja2": {"builder/templating.py", "service/page/html.py", "service/registry/sandbox.py"},
    "jsonschema": {"modelspec/validation.py"},
    "lightkube": {"service/jobs/kube.py"},
    "markdown_it": {"base/markdown.py"},
    "pickle": {"base/parallel.py"},  # between processes of one run; what comes from elsewhere may run any code
    "litestar": {"service/api/", "service/page/"},
    "msgspec": {"base/values.py"},
    "multiprocessing": {"base/parallel.py"},
    "prometheus_client": {"service/prometheus.py"},
    "psycopg": {"service/store/replicas.py"},
    "rich": {"cli/drawing.py"},
    "ruamel": {"modelspec/importers/specfile.py"},
    "select": {"base/process.py"},
    "selectors": {"base/process.py"},
    "sqlalchemy": {"service/store/"},
    "subprocess": {"base/process.py"},
    "tempfile": {"base/workfolder.py"},
    # A watch and logs are read while others wait, digests during a copy, and SQLite is written by one thread at a time.
    "threading": {
        "base/process.py",
        "cluster/livelogs.py",
        "cluster/podwatch.py",
        "cluster/resumable.py",
        "service/store/databases.py",
    },
    "typer": {"cli/"},
    "urllib": {"base/fetch.py", "base/rest.py", "publish/transport.py", "service/api/incoming.py"},
    "uvicorn": {"service/connections.py", "service/serving.py"},
    "yaml": {"base/yamlio.py"},
    "zlib": {"package/archive.py", "service/jobs/kept_logs.py"},  # archives; logs in a database
}

# Names that do not describe a value: a variable is named after its content.
VAGUE_NAMES = {"each", "found", "said", "there", "wanted"}

# From the lowest layer up; a module may import from its own line and the lines above.
LAYERS = (
    ("base", "__init__"),
    ("kubernetes",),
    ("package",),
    ("publish",),
    ("workloads",),
    ("modelspec",),
    ("builder",),
    ("rendering",),
    ("verify",),
    ("configure",),
    ("diagnosis",),
    ("cluster",),
    ("app",),
    ("service",),
    ("cli",),
    ("__main__",),
)


@cache
def parsed(module: str, package: Path = PACKAGE) -> ast.Module:
    """Return the syntax tree of a module; callers must not change it."""
    return ast.parse((package / module).read_text(encoding="utf-8"))


@cache
def nodes(module: str) -> tuple[ast.AST, ...]:
    """Return all nodes of the syntax tree of a module."""
    return tuple(ast.walk(parsed(module)))


# The test modules about more than one module, each with its subject.
TESTS_OF_MANY = {
    "builder/test_determinism.py": "a whole build",
    "builder/test_everything.py": "the package of a model with every key for code",
    "builder/test_packages.py": "the packages of the bundled models, built and rendered",
    "cli/test_elsewhere.py": "all verbs",
    "cli/test_no_temporary_folder.py": "all verbs",
    "cli/test_opening.py": "all verbs",
    "cli/test_serving.py": "all verbs, of a workload that serves",
    "cli/test_session.py": "docs/session.md, which shows several verbs",
    "cli/test_several.py": "all verbs, of an overlay with two workloads",
    "cli/test_terminal.py": "the command as a program of its own",
    "cli/test_usage_messages.py": "the arguments of all verbs",
    "cli/test_values.py": "all verbs that take values of mlops.env",
    "base/test_download.py": "fetch, from servers that may send anything",
    "configure/test_agreement.py": "configure and verify",
    "configure/test_messages.py": "all that it says of files that people have edited",
    "modelspec/test_messages.py": "all that it says of specs",
    "verify/test_broken.py": "all checks, each on a package that is broken",
    "verify/test_components.py": "all checks of components that a site adds",
    "verify/test_edits.py": "all checks of what an edit may bring",
    "verify/test_finds.py": "all checks, on what the fuzzer made",
    "verify/test_manifests.py": "all checks of manifests",
    "verify/test_messages.py": "all that it says besides",
    "verify/test_yaml_forms.py": "YAML as kubectl reads it",
    "service/registry/packages/test_attacks.py": "reading, filling and the policy, on packages of hostile developers",
    "service/test_refusals.py": "every route of the API and of the page",
    "service/test_killed.py": "the whole service, killed while jobs are created",
    "workloads/job/test_verbs.py": "all verbs, of a Job",
    "cli/test_hostile_archives.py": "every command that reads a package",
    "cli/test_signals.py": "every command that calls kubectl",
    "service/page/test_hostile_views.py": "every view of the page in a real browser",
    "service/page/test_wrong_inputs.py": "the fields of every form of the page",
}
STAGES = (
    "kubernetes.kubectl",
    "package",
    "publish",
    "workloads",
    "modelspec",
    "builder",
    "rendering",
    "verify",
    "configure",
    "diagnosis",
    "cluster",
)


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
def dependencies(modules: tuple[str, ...] = MODULES, package: Path = PACKAGE) -> dict[str, set[str]]:
    """Return the modules of packager that each module imports; `from packager.modelspec import load` is `load`."""
    names = {dotted(module) for module in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        tree = parsed(module, package)
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


def bound_names(tree: ast.AST) -> set[str]:
    """Return the names of the variables, parameters, attributes and functions that a module defines."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                names.add(name)
    return names


@pytest.mark.parametrize("library", OWNERS)
def test_library_is_imported_only_by_its_owner(library: str) -> None:
    users = {module for module in MODULES if library in {name.partition(".")[0] for name in imports(module)}}
    assert {user for user in users if not user.startswith(tuple(OWNERS[library]))} == set()
    assert users != set()


def test_pyyaml_is_imported_only_by_yamlio() -> None:
    """Imports only for types count, too."""
    users = {
        module
        for module in MODULES
        for node in nodes(module)
        if isinstance(node, ast.Import | ast.ImportFrom) and re.match(r"(import|from) yaml\b", ast.unparse(node))
    }
    assert users == {"base/yamlio.py"}


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
    names = {"jwt": "pyjwt", "yaml": "pyyaml", "ruamel": "ruamel.yaml", "markdown_it": "markdown-it-py"}
    names["prometheus_client"] = "prometheus-client"
    assert {names.get(name, name) for name in libraries} == declared


def test_modules_import_only_public_names_of_libraries() -> None:
    private = {
        module: names
        for module in MODULES
        if (names := {name for name in imports(module) if re.search(r"(^|\.)_[a-z]", name)})
    }
    assert private == {}


def test_modules_read_archives_without_tarfile() -> None:
    """tarfile accepts more than other tars do, and spends minutes on a header of digits (CVE-2024-6232)."""
    assert {module for module in MODULES if {"tarfile", "shutil.unpack_archive"} & imports(module)} == set()


def test_workfolder_alone_removes_folders() -> None:
    removing = {"tempfile.TemporaryDirectory", "tempfile.mkdtemp", "tempfile.mkstemp", "shutil.rmtree"}
    callers = {module: calls(module) & removing for module in MODULES}
    assert {module: names for module, names in callers.items() if names} == {"base/workfolder.py": {"shutil.rmtree"}}


def test_command_line_alone_prints_and_exits() -> None:
    speaking = {"print", "input", "sys.exit", "exit", "quit", "os._exit", "sys.stdout.write", "sys.stderr.write"}
    callers = {module: calls(module) & speaking for module in MODULES if not module.startswith("cli/")}
    # A forked process must end without the cleanup of its parent.
    assert {module: names for module, names in callers.items() if names} == {"base/parallel.py": {"os._exit"}}


def test_server_messages_are_recognized_in_one_module() -> None:
    """Messages of kubelets about pods are recognized in `diagnosis/obstacles.py`."""
    pattern = r"(?<!_)forbidden|NotFound|\" not found|a resource type|unable to connect|no matches for|precondition"
    users = {
        module
        for module in MODULES
        for node in nodes(module)
        if (isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re."))
        or (isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn))
        if re.search(pattern, ast.unparse(node), re.IGNORECASE)
    }
    assert users == {"diagnosis/obstacles.py", "kubernetes/kubectl/messages.py"}


# The modules that read a message, and why. Texts of other programs have other names in the code: `answer`, `output`.
READERS_OF_MESSAGES = {
    "app/task_registry.py": "the place in a template is a part of the server's message",
    "modelspec/importers/intel/pool.py": "one of the zoo's specs has a duplicate key",
    "kubernetes/verdict.py": "equal messages about several pods, which contain the pods' names, become one",
}


def test_modules_do_not_read_messages() -> None:
    """A fact travels as a value beside its message: a kind, a type of error, a remedy; see `tests/prose.py`."""
    errors = prose.own_errors(map(parsed, MODULES))
    readers = {module for module in MODULES if any(prose.readings(parsed(module), errors))}
    assert readers - READERS_OF_MESSAGES.keys() == set()


@pytest.mark.parametrize(
    "reading",
    [
        "'secret' in problem.message",
        "'secret' not in finding.message.lower()",
        "'secret' in messages",
        "problem.message == 'no secret'",
        "problem.message in ('no secret', 'no claim')",
        "_SECRET != finding.hint",
        "message.startswith('the')",
        "problem.message.endswith((' Secret', ' claim'))",
        "finding.message[4:].removeprefix('x')",
        "problem.hint.replace('overlay', 'template')",
        "message.strip().partition(': ')",
        "re.search('secret', problem.message)",
        "_SECRET.fullmatch(message)",
        "_SECRET.sub('', f'{message}')",
        "'secret' in str(error)",
        "str(error).rpartition(': ')",
        "'secret' in error.args[0]",
        "re.match('secret', str(self.error or ''))",
        "'secret' in ' '.join(messages)",
        "any('secret' in line for line in message.split())",
        "(text := str(error)) and 'secret' in text",
    ],
)
def test_reading_of_message_is_detected(reading: str) -> None:
    function = f"def f(error: OwnError, problem: Problem, message: str) -> object:\n    return {reading}\n"
    assert any(prose.readings(ast.parse(function), {"OwnError"}))
    assert any(prose.readings(ast.parse(f"try: ...\nexcept m.OwnError as error:\n    {reading}\n"), {"OwnError"}))


@pytest.mark.parametrize(
    "statements",
    [
        "text = problem.message\nshown = text.strip()\nprint(shown.split(': '))",
        "match problem.message:\n case 'secret': ...",
        "match problem:\n case Problem(message='secret'): ...",
        "for text in messages:\n if text.startswith('secret'): ...",
        "error = OwnError()\nif 'secret' in str(error): ...",
        "def f(why: OwnError | None):\n def g(): return 'secret' in str(why)",
    ],
)
def test_reading_of_message_is_detected_over_several_statements(statements: str) -> None:
    assert any(prose.readings(ast.parse(statements), {"OwnError"}))


@pytest.mark.parametrize(
    "statements",
    [
        "if problem.kind == 'secret': ...",
        "if message: print(f'{message}: {message[:9]}')",
        "messages.append(message)\nif message not in messages: ...",
        "if finding.message != verdict.summary or message == '': ...",
        "try: ...\nexcept OSError as error:\n print(str(error).split())",
        "answer.startswith('error: ') and 'secret' in answer",
        "message['type'] == 'http.request'",
    ],
)
def test_other_use_of_message_is_accepted(statements: str) -> None:
    assert not any(prose.readings(ast.parse(statements), {"OwnError"}))


def test_own_errors_include_indirect_bases() -> None:
    tree = ast.parse("class OneError(ValueError): ...\nclass TwoError(m.OneError): ...\nclass Other(Value): ...")
    assert prose.own_errors([tree]) == {"OneError", "TwoError"}


def test_commands_import_no_stages() -> None:
    """A command parses its arguments, calls a use case of `packager.app`, and prints the result."""
    stages = {module: _stages(module) for module in MODULES if module.startswith("cli/")}
    assert {module: names for module, names in stages.items() if names} == {}


def _stages(module: str) -> set[str]:
    """Return the modules of stages that `module` imports, except only for types."""
    blocks = [node for node in nodes(module) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    for_types = {id(node) for block in blocks for part in block.body for node in ast.walk(part)}
    imported = (node for node in nodes(module) if isinstance(node, ast.ImportFrom) and id(node) not in for_types)
    origins = {node.module or "" for node in imported}
    return {name for name in origins if name.startswith(tuple(f"packager.{stage}" for stage in STAGES))}


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith("app/")])
def test_use_case_uses_no_terminal_and_no_environment(module: str) -> None:
    """Use cases take values, because the service that calls them has no terminal and not the user's environment."""
    names = {ast.unparse(node) for node in nodes(module) if isinstance(node, ast.Attribute)}
    assert {"os.environ", "os.getenv", "os.getuid", "os.getgid"} & names == set()
    assert {"sys", "getpass", "platform", "signal", "typer", "rich"} & imports(module) == set()


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


def test_modules_have_no_import_cycle() -> None:
    assert circles(dependencies()) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_parts_of_folder_have_no_import_cycle(folder: str) -> None:
    """No two of the folders and modules in a folder import each other."""
    graph: dict[str, set[str]] = {}
    for module, used in dependencies().items():
        if module.startswith(f"{folder}."):
            below = {part_of(folder, name) for name in used if name.startswith(f"{folder}.")}
            graph.setdefault(part_of(folder, module), set()).update(below - {part_of(folder, module)})
    assert circles(graph) == []


def part_of(folder: str, module: str) -> str:
    """Return the direct child of `folder` that is `module` or contains it."""
    return module.removeprefix(f"{folder}.").partition(".")[0]


def test_dependencies_include_imports_for_types(tmp_path: Path) -> None:
    texts = {
        "one.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from packager.two import Two\n",
        "two.py": "def late():\n    from packager import one\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert [set(circle) for circle in circles(dependencies(tuple(sorted(texts)), tmp_path))] == [
        {"packager.one", "packager.two"}
    ]


def test_types_have_unique_names() -> None:
    """The classes of a kind's folder are exceptions, because they are looked up by the kind's name."""
    homes: dict[str, set[str]] = {}
    for module in MODULES:
        for node in nodes(module):
            if isinstance(node, ast.ClassDef) and Path(module).parent.as_posix() != f"workloads/{node.name.lower()}":
                homes.setdefault(node.name, set()).add(module)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_modules_have_no_vague_names() -> None:
    vague = {module: names for module in MODULES if (names := bound_names(parsed(module)) & VAGUE_NAMES)}
    assert vague == {}


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "found: int",
        "x.found = 1",
        "def found(): ...",
        "def f(*, found): ...",
        "(found := 1)",
        "[found for found in ()]",
        "with x as found: ...",
        "try: ...\nexcept OSError as found: ...",
        "match 1:\n case found: ...",
    ],
)
def test_bound_names_include_every_kind_of_binding(source: str) -> None:
    assert "found" in bound_names(ast.parse(source))


# The facts that one module defines, each as a pattern of texts, because two definitions would diverge.
DEFINED_ONCE = {
    r"\[-a-z0-9\]\*|\[-A-Za-z0-9_\.\]\*|__\|-\+": {"base/names.py"},  # a DNS label, a label's value, an image
    r"^\[A-Za-z_\]\[A-Za-z0-9_\]\*$": {"base/envfile.py"},  # a variable that a shell can read
    r"^(restricted|baseline|privileged)$": {"kubernetes/podsecurity.py", "verify/security.py"},  # a field is called so
    r"^ROOT$": {"kubernetes/mountpath.py"},
    r"^(manifest\.json|spec\.yaml|mlops\.env|/?kustomization\.ya?ml|patch\.yaml)$": {"package/layout.py"},
    r"^Kustomization$": {"package/layout.py", "publish/gitops.py"},  # an object of Flux is called so
    r"^site$": {"package/layout.py", "cli/verbs.py"},  # the verb has the name of the folder
    # The packages of Intel's zoo have the same layout.
    r"^(quickstart/?|/scripts|/k8s/mlops|/common/\*/k8s/mlops)$|quickstart/(scripts|k8s|common)": {
        "modelspec/importers/intel/read.py",
        "package/layout.py",
    },
}


@pytest.mark.parametrize("form", DEFINED_ONCE)
def test_fact_is_defined_in_one_module(form: str) -> None:
    assert {module for module in MODULES if any(re.search(form, text) for text in texts(module))} == DEFINED_ONCE[form]


@cache
def texts(module: str) -> set[str]:
    """Return the strings in the code of `module`, except docstrings and descriptions of fields."""
    tree = parsed(module)
    prose = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    prose += [node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "description"]
    in_prose = {id(node) for part in prose for node in ast.walk(part) if isinstance(node, ast.Constant)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in in_prose)
    return {node.value for node in constants if isinstance(node.value, str)}


# The modules of the service that may use Any, where a library leaves a type open.
WITH_ANY = {
    "service/access/oidc.py",  # the claims of a token, as pyjwt returns them
    "service/api/access.py",  # an answer, whose type its route documents
    "service/api/app.py",  # messages of ASGI, also about the start and the end of the server
    "service/api/jobs.py",  # filled values: msgspec has no recursive types
    "service/jobs/kube.py",  # the client of lightkube
}


def test_service_uses_any_only_for_types_of_libraries() -> None:
    assert {module for module in MODULES if "typing.Any" in imports(module) and module[:8] == "service/"} == WITH_ANY


# The modules outside of the kind's folder that may use terms of MPI, and why.
WORDS_OF_MPI = {
    "app/init.py": {"mpi"},  # the default kind of a new model
    "base/fields.py": {"mpi"},  # the example of an image's name
    "cli/examples.py": {"mpi"},  # the example of a package, and of an operator
    "modelspec/importers/intel/manifests.py": {"launcher", "mpi"},  # imported manifests for the operator
    "modelspec/importers/intel/read.py": {"mpi"},  # imported scripts that start mpirun
    "kubernetes/environment.py": {"mpi"},  # variables that would break mpirun are refused in every kind
    "package/options.py": {"launcher"},  # the description of the option gpu, which is the same for every kind
    "workloads/anyoverlay.py": {"mpi"},  # the table of kinds
}
# A worker is a pod beside the main one, in every kind, as in the options `--worker` and `--workers`.
WITH_WORKERS = {
    *(f"app/{name}.py" for name in ("logs", "results", "status")),
    *(f"cli/{name}.py" for name in ("cluster_arguments", "configure", "logs", "results")),
    "configure/amounts.py",
    *(f"diagnosis/{name}.py" for name in ("diagnose", "losses", "past")),
    "workloads/amounts.py",
    "workloads/workload.py",
}


def test_mpi_terms_appear_only_in_mpijob() -> None:
    """Other modules ask the kind."""
    terms = {module: words_of_mpi(module) for module in MODULES if not module.startswith("workloads/mpijob/")}
    with_workers = {module for module in terms if "worker" in terms[module] and module.count("/") < 2}
    assert with_workers == WITH_WORKERS
    other_terms = {module: terms[module] - {"worker"} for module in terms}
    assert {module: remaining for module, remaining in other_terms.items() if remaining} == WORDS_OF_MPI


def words_of_mpi(module: str) -> set[str]:
    """Return the terms of MPI in the code of `module`: in its strings, and in the names that it defines or uses."""
    names = {ast.unparse(node) for node in nodes(module) if isinstance(node, ast.Name | ast.Attribute)}
    names |= {
        str(getattr(node, attribute))
        for node in nodes(module)
        for attribute in ("name", "arg")
        if hasattr(node, attribute)
    }
    written = " ".join((*texts(module), *names))
    return {word.lower() for word in re.findall(r"(?<![a-z])(mpi|launcher|worker)", written, re.IGNORECASE)}


def test_kind_has_module_and_templates() -> None:
    kinds = {kind.__name__ for kind in typing.get_args(AnyOverlay)}
    assert TEMPLATES.keys() - {""} == {kind.lower() for kind in kinds}
    modules = {Path(module).parent.name for module in MODULES if module.startswith("workloads/")} - {"workloads"}
    assert modules == {kind.lower() for kind in kinds}
    for kind in kinds:
        assert (TEMPLATES[kind.lower()] / "quickstart/k8s/mlops/OVERLAY/kustomization.yaml").is_file()


def test_exit_codes_are_those_of_the_documentation() -> None:
    from packager.base import errors

    documented = dict(re.findall(r"(\w+Error) +(\d)", errors.__doc__ or ""))
    classes = [item for item in vars(errors).values() if isinstance(item, type)]
    assert documented == {
        error.__name__: str(error.exit_code) for error in classes if issubclass(error, errors.MlpackError)
    }


def test_contributing_names_existing_files_for_tasks() -> None:
    guide = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tasks = re.findall(r"^\| .+ \| `(packager/.+)` \| `(.+)` \|$", guide, re.MULTILINE)
    assert len(tasks) == 12
    assert [path for path, word in tasks if word not in (PACKAGE.parent / path).read_text(encoding="utf-8")] == []


def test_test_modules_have_names_of_modules() -> None:
    """`tests/<folder>/test_<module>.py` or `test_<module>_<aspect>.py`; `test_<folder>.py` tests its `__init__.py`."""
    folders = [path for path in PACKAGE.rglob("*") if path.is_dir() and path.name != "__pycache__"]
    mirrored = [TESTS / folder.relative_to(PACKAGE) for folder in folders]
    files = [path.relative_to(TESTS).as_posix() for folder in mirrored for path in folder.glob("test_*.py")]
    assert len(files) > 50
    assert {file for file in files if not _is_called_after_a_module(file)} == TESTS_OF_MANY.keys()


def _is_called_after_a_module(file: str) -> bool:
    folder = Path(file).parent
    modules = {Path(module).stem for module in MODULES if Path(module).parent == folder} | {folder.name, "templates"}
    subfolders = {path.name for path in (PACKAGE / folder).iterdir() if path.is_dir()}
    return re.match(rf"test_({'|'.join(modules | subfolders)})(_\w+)?\.py$", Path(file).name) is not None


def test_module_has_test_of_its_name_or_names_one() -> None:
    """`packager/x/y.py` is tested in `tests/x/test_y.py`, or its docstring ends with `Tests: ` and the test's path."""
    modules = {module for module in MODULES if Path(module).stem != "__init__" or _defines(module)}
    assert {module for module in modules if not (own_tests(module) or named_tests(module))} == set()


def test_test_that_module_names_uses_it() -> None:
    named = {(module, file) for module in MODULES for file in named_tests(module)}
    assert {file for _, file in named if not (TESTS / file).is_file()} == set()
    assert {(module, file) for module, file in named if dotted(module) not in used_by(file)} == set()


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


# Modules that import others by names which they make.
IMPORTING_BY_NAME = {
    "packager.cli.verbs": "packager.cli.",
    "packager.workloads": "packager.workloads.",
    "packager.service.store.migration": "packager.service.store.migrations.",
}


@cache
def used_by(file: str) -> set[str]:
    """Return the modules that a test file imports: itself, through others, and by running the command."""
    fixtures = [folder / "conftest.py" for folder in (TESTS / file).parents if TESTS in folder.parents]
    waiting = {_module_of_tests(path) for path in (TESTS / file, *fixtures) if path.is_file()}
    text = (TESTS / file).read_text(encoding="utf-8")
    if "mlpack:" in text:  # the fixture that runs the command
        waiting.add("packager.cli.verbs")
    if '"-m", "packager"' in text:
        waiting.add("packager.__main__")
    graph, used = imports_of_all(), set[str]()
    while waiting:
        name = waiting.pop()
        used.add(name)
        waiting |= graph.get(name, set()) - used
        if by_name := IMPORTING_BY_NAME.get(name):
            waiting |= {other for other in graph if other.startswith(by_name)} - used
    return used


def _module_of_tests(path: Path) -> str:
    return ".".join(("tests", *path.relative_to(TESTS).with_suffix("").parts))


@cache
def imports_of_all() -> dict[str, set[str]]:
    """Return the modules of packager and of its tests that each of them imports."""
    graph = dict(dependencies())
    for path in TESTS.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        origins = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names = {
            name for node in origins for alias in node.names for name in (node.module, f"{node.module}.{alias.name}")
        }
        graph[_module_of_tests(path)] = {str(name) for name in names}
    return graph


def test_verb_has_module() -> None:
    from typer.main import get_command

    from packager.cli import app

    verbs = set(getattr(get_command(app), "commands", {}))
    modules = {Path(module).stem for module in MODULES if module.startswith("cli/")}
    assert verbs - modules == {
        "list",
        "show",
        "import",
    }  # list and show are in models.py; import is a keyword of Python
