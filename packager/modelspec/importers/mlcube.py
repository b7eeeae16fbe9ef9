"""Reads mlcube.yaml into a Draft: a Job for each task, and the claims that hold the cube's workspace.

The format is that of mlcommons/mlcube, configuration 2.0, as runners/mlcube_docker reads it; the names of claims and
the folders below /mnt/mlcube are those of runners/mlcube_k8s and of its documentation.
"""

from __future__ import annotations

import math
import re
import shlex
from copy import deepcopy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.errors import UsageError
from packager.base.fields import ASSET_PATH
from packager.base.names import is_label
from packager.base.problems import show, similar
from packager.base.values import Value, replace
from packager.kubernetes.configmap import CODE_BYTES, encoded_size, unreadable_reason
from packager.modelspec.files import source_file, walk
from packager.modelspec.importers.cubepaths import (
    PATHS,
    WORKSPACE_FOLDER,
    WORKSPACES,
    CubeError,
    Place,
    place,
    references,
    resolved,
)
from packager.modelspec.importers.draft import Draft, DraftFile, named
from packager.modelspec.importers.pods import complaint_about
from packager.modelspec.importers.source import (
    ForeignValue,
    Given,
    Rule,
    Source,
    ValueOrigin,
    by_option,
    decided,
    invalid,
    plain_path,
    printable,
    read_bytes,
)
from packager.modelspec.settings import parse_setting, put
from packager.package.layout import SCRIPTS, WORKSPACE
from packager.package.options import KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from packager.base.yamlio import Document, Location
    from packager.modelspec.importers.source import Rules

MOUNT = "/mnt/mlcube"
"""The folder of a container below which each claim is mounted at its name."""

_KIND = "an MLCube"
_FILE = "mlcube.yaml"
_RETRIES = 4
_MOST_SEEDS = 200
_LONGEST_SEED = 200
_MOST_GIGABYTES = 1_000_000
_VENDORS = {"nvidia": "nvidia.com", "amd": "amd.com", "intel": "gpu.intel.com"}
_BUILD = Rule("is not carried over: build and push the image as the cube says, it is not in the package")
_FIELDS: Rules = MappingProxyType(
    {
        "singularity": Rule("is not carried over: Kubernetes runs the image of docker"),
        **dict.fromkeys(("build_context", "build_file", "build_args", "build_strategy"), _BUILD),
        **dict.fromkeys(("docker", "--gpus"), Rule("")),  # they do not change what runs
    }
)
_NETWORK = Rule("--network=host is the option host-network of a site", "--with host-network, if needed")
_RUN_OPTIONS: Rules = MappingProxyType(
    {
        **dict.fromkeys(("--gpus", "--rm", "--runtime", "--interactive", "--tty", "-i", "-it", "-t"), Rule("")),
        **dict.fromkeys(("--network=host", "--net=host"), _NETWORK),
    }
)
"""The reports about the options of `docker run`, beside those of variables and of shared memory."""
# For each pair of words up to `--`, copies the first path to the second, unless that exists and is not an empty folder.
# The copy is made beside the target and then renamed, so the target is never half-written. Only files with the script's
# own prefix, which no user's file has, are removed.
_SEEDS = (
    'while [ "$1" != -- ]; do rmdir "$2" 2>/dev/null || :; if [ ! -e "$2" ]; then mkdir -p "${2%/*}"; '
    'part="${2%/*}/.mlpack-seed-${2##*/}"; rm -rf "$part"; cp -RL "$1" "$part"; chmod -R u+w "$part"; '
    'mv "$part" "$2"; fi; shift 2; done; shift; '
)
# Creates the folders that the words up to `--` name, and the parent folders of the other words.
_FOLDERS = 'while [ "$1" != -- ]; do mkdir -p "$1"; shift; done; shift; for file; do mkdir -p "${file%/*}"; done'


class Choices(Value, frozen=True):
    """The user's choices for an import."""

    settings: tuple[str, ...] = ()  # other values of keys of the cube: `a.b=value`
    parameters: tuple[str, ...] = ()  # other paths of parameters: `[task.]name=path`
    tasks: tuple[str, ...] | None = None  # to import, in this order; None for all
    image: str | None = None
    claim: str | None = None  # that holds the workspace
    input_claim: str | None = None  # that holds inputs that no task makes, if it is another one
    parameter_claims: tuple[str, ...] = ()  # claims of parameters: `[task.]name=claim`
    gpus: int | None = None


class Parameter(Value, frozen=True):
    """A parameter of a task."""

    name: str
    task: str
    is_input: bool
    kind: str | None  # `file` or `directory`; None if the cube does not specify it
    place: Place
    read_only: bool
    entry: ForeignValue
    origin: ValueOrigin  # of the path


class Task(Value, frozen=True):
    """A task of a cube."""

    name: str
    overlay: str
    entry: ForeignValue
    entrypoint: list[str]
    parameters: tuple[Parameter, ...]


def overlay_of(task: str) -> str:
    """Return the name of a task's overlay."""
    return named(task, prefix="task")


def read(path: Path, name: str, choices: Choices) -> Draft:
    """Return the draft of a cube: of its file, or of the folder with `mlcube.yaml`."""
    folder = None
    if path.is_dir():
        folder, path, name = path, path / _FILE, f"{name.rstrip('/')}/{_FILE}"
    text = read_bytes(path, name, folder=folder)
    document, problems = yamlio.load(text, name)
    if problems:
        raise invalid(name, _KIND, problems)
    _check_format(document, name)
    document = replace(document, data=_with_settings(document.data, choices.settings))
    draft = Draft(name, _KIND, "mlcube")
    source = Source(document, draft, path.name)
    _CubeImport(draft, source.root, path.resolve().parent, choices).put()
    draft.check()
    source.report_unread(_FIELDS)
    return draft


def _check_format(document: Document, name: str) -> None:
    """Refuse the old formats: with `schema_type` and tasks as a list of files (2020), and with `io` in tasks (2021)."""
    data = document.data if isinstance(document.data, dict) else {}
    tasks = data.get("tasks")
    entries = tasks.items() if isinstance(tasks, dict) else ()
    old: list[Location] = [(key,) for key in ("schema_type", "schema_version") if key in data]
    old += [
        ("tasks", key, "io") for key, task in entries if isinstance(task, dict) and isinstance(task.get("io"), list)
    ]
    if not isinstance(tasks, dict) or old:
        message = "expected a cube of configuration 2.0 with a mapping of tasks"
        hint = "the formats of MLCube 0.0.x before September 2021, and with io in tasks, are not read"
        place_of = old[0] if old else ("tasks",) if tasks else ()
        raise invalid(name, _KIND, [document.problem(place_of, message, hint=hint)])


def _with_settings(data: Any, settings: Sequence[str]) -> Any:
    """Return the cube with other values for some keys."""
    data = deepcopy(data)
    for argument in settings:
        setting = parse_setting(argument, "docker.image=example/image:1", option="-P")
        if problems := put(data, setting, yamlio.scalar(setting.value), root="the cube"):
            raise UsageError(str(problems[0]))
    return data


class _CubeImport:
    """The import of one cube."""

    def __init__(self, draft: Draft, root: ForeignValue, folder: Path, choices: Choices) -> None:
        self.draft = draft
        self.root = root
        self.folder = folder
        self.choices = choices
        self.shows_workspace = False  # a text that a program gets contains the path of the workspace
        self.claim = Given("", decided(""))
        self.made: set[str] = set()  # the paths that tasks make
        self.kinds: dict[str, str] = {}  # by path
        self.seeds: dict[str, str] = {}  # the file of the package, by path

    def put(self) -> None:
        """Fill in the draft; problems and findings are in the ledger."""
        self._put_names()
        settings = {
            key: (text, entry)
            for section in ("k8s", "runner")
            for key in ("pvc", "image", "namespace")
            if (holder := self.root.at(section)) and (entry := holder.child(key)) and (text := self._text(entry))
        }
        if "namespace" in settings:
            namespace, entry = settings["namespace"]
            entry.leave("is not in a package", f"mlpack deploy -n {printable(namespace)}; mlpack run uses it")
            self.draft.namespace = namespace if is_label(namespace) else None
        self._put_image(settings["image"][1] if "image" in settings else None)
        self.claim = self._claim(settings.get("pvc"))
        tasks = self._tasks()
        self._check_choices(tasks)
        chosen = [tasks[name] for name in dict.fromkeys(self.choices.tasks or tasks) if name in tasks]
        for task in tasks.values():
            if task not in chosen:
                task.entry.leave("is not one of --task")
        self._put_docker()
        every = [parameter for task in tasks.values() for parameter in task.parameters]
        self.made = {one.place.path for one in every if not one.is_input}
        self.kinds = {one.place.path: one.kind for one in every if one.kind}
        self._put_overlays(chosen)
        self._put_platform(chosen)
        if not chosen and not self.draft.problems:
            self.root.refuse("expected at least one task")
        self.draft.put(("variants", 0, "mode"), "task", "each overlay is a task")

    def _text(self, entry: ForeignValue | None, symbols: Mapping[str, str] | None = None) -> str | None:
        """Return a scalar with its references replaced; None, with a problem, if that is not possible."""
        text = entry.text() if entry else None
        if entry is None or text is None:
            return None
        try:
            for name in references(text):
                steps = tuple(name.split("."))
                entry.source.settled.add(steps)
                entry.source.read.update(steps[:length] for length in range(1, len(steps)))
            names = {"name": text if entry.key == "name" else str(self.root.value.get("name", "")), **(symbols or {})}
            return resolved(text, self.root.value, names)
        except CubeError as error:
            entry.refuse(str(error), "write the value out, or set it with -P")
            return None

    def _program(self, entry: ForeignValue | None) -> list[str]:
        """Return the words of a program, with references to the workspace replaced by the mount of its claim."""
        folder = f"{MOUNT}/{self.claim.value}"
        text = self._text(entry, dict.fromkeys(WORKSPACES, folder))
        if entry is None or text is None:
            return []
        self.shows_workspace |= folder in text and text != entry.value
        try:
            return shlex.split(text)
        except ValueError:
            entry.refuse(f"expected words as a shell reads them, found {show(text)}", "a quote is not closed")
            return []

    def _put_names(self) -> None:
        entry = self.root.child("name")
        text = self._text(entry) or self.folder.name
        self.draft.put_name(entry, text, "mlcube", "the name of its folder", "it stays the title")
        self.draft.put(("framework",), "mlcube", "an MLCube does not name one")
        description = self.root.child("description")
        lines = [self._text(description) or ""]
        for author in self.root.items("authors"):
            if author.is_mapping():
                name_of, email, org = (self._text(author.child(key)) for key in ("name", "email", "org"))
                lines.append("Author: " + ", ".join(filter(None, (name_of, f"<{email}>" if email else None, org))))
        about = "".join(one for one in "\n".join(lines).strip() if one.isprintable() or one == "\n")
        if about:
            described = description or self.root.child("authors") or self.root
            self.draft.put(("description",), about[:20_000], described.origin)

    def _put_image(self, own: ForeignValue | None) -> None:
        entries = [own, self.root.at("docker", "image")]
        if not self.draft.put_first_image(self.choices.image, entries, self._text) and not self.draft.problems:
            self.root.refuse("the key docker.image is missing", "--image REPOSITORY:TAG sets one")

    def _claim(self, own: tuple[str, ForeignValue] | None) -> Given:
        """Return the claim that holds the workspace."""
        if self.choices.claim is not None:
            if own:
                own[1].leave("is replaced by --claim")
            return Given(self.choices.claim, by_option("--claim"))
        if own is None:
            return Given(self.draft.data["name"], decided("MLCube's default: the cube's name"))
        return Given(own[0], own[1].origin)

    def _tasks(self) -> dict[str, Task]:
        """Return the tasks by name; problems are in the ledger."""
        options = [self.root.string(key, "--mount_opts") for key in ("docker", "runner")]
        result: dict[str, Task] = {}
        overlays: dict[str, str] = {}
        for entry in self.root.children("tasks"):
            overlay = overlay_of(entry.key)
            other = overlays.setdefault(overlay, entry.key)
            if other != entry.key:
                entry.refuse(f"the tasks {other!r} and {entry.key!r} both become {overlay!r}", "rename one of them")
            elif overlay != entry.key:
                entry.note(f"becomes {overlay!r}")
            if entry.value is not None and not entry.is_mapping():
                continue
            words = self._program(entry.child("entrypoint"))
            own = [
                made
                for direction in ("inputs", "outputs")
                for parameter in (entry.children("parameters", direction) if entry.value else ())
                if (made := self._parameter(entry.key, parameter, direction == "inputs", "ro" in options))
            ]
            result[entry.key] = Task(entry.key, overlay, entry, words, tuple(own))
        return result

    def _parameter(self, task: str, entry: ForeignValue, is_input: bool, read_only: bool) -> Parameter | None:  # noqa: FBT001
        is_mapping = isinstance(entry.value, dict)
        path_entry = entry.child("default") if is_mapping else entry if entry.value is not None else None
        type_entry, options = (entry.child(key) for key in ("type", "opts"))
        kind = type_entry.text() if type_entry else None
        if type_entry and kind not in ("file", "directory", "unknown", None):
            type_entry.refuse(f"expected file or directory, found {show(kind)}")
        mode = options.text() if options else None
        if options and mode not in ("ro", "rw", None):
            options.refuse(f"expected ro or rw, found {show(mode)}")
        elif options and not is_input:
            options.leave("is not carried over: a task writes its outputs")
        text = self._text(path_entry, PATHS) if path_entry else entry.key
        origin = (path_entry or entry).origin
        if chosen := _choice(self.choices.parameters, task, entry.key):
            text, origin = chosen[1], decided(f"--param {printable(chosen[0])}")
        try:
            where = place(text) if text is not None else None
        except CubeError as error:
            (path_entry or entry).refuse(f"{error}, found {show(printable(text or ''))}")
            return None
        if where is None:
            return None
        if where.is_outside:
            shown = show(printable(text or ""))
            entry.note(f"({shown}) is outside of the workspace, and becomes {where.path} on the claim")
        is_folder = where.is_folder or str(path_entry.value if path_entry else "").endswith(("/", "\\"))
        kind = kind if kind in ("file", "directory") else "directory" if is_folder else None
        is_read_only = is_input and (mode == "ro" if mode else read_only)
        return Parameter(entry.key, task, is_input, kind, where, is_read_only, entry, origin)

    def _check_choices(self, tasks: dict[str, Task]) -> None:
        """Raise UsageError for tasks and parameters that the cube does not have."""
        for name in self.choices.tasks or ():
            if name not in self.root.value["tasks"]:
                hint = similar(name, tasks) or f"the tasks are: {', '.join(tasks)}"
                raise UsageError(f"--task {name}: the cube has no such task", hint=hint)
        if self.draft.problems:
            return
        every = [parameter for task in tasks.values() for parameter in task.parameters]
        names = {one.name for one in every} | {f"{one.task}.{one.name}" for one in every}
        choices = [("--param", "PATH", value) for value in self.choices.parameters]
        choices += [("--param-claim", "CLAIM", value) for value in self.choices.parameter_claims]
        for option, form, value in choices:
            name, equals, _ = value.partition("=")
            if not equals:
                raise UsageError(f"{option} {value}: expected [TASK.]NAME={form}")
            if name not in names:
                raise UsageError(f"{option} {value}: no task has such a parameter", hint=similar(name, names))

    def _put_docker(self) -> None:
        """Put the variables among the options of `docker run`, and report its other options."""
        for holder in filter(None, (self.root.at("docker", key) for key in ("env_args", "gpu_args", "cpu_args"))):
            for name, value in _run_options(self._program(holder)):
                key, equals, text = value.partition("=")
                option = f"{name}{f'={value}' if value else ''}"
                rule = _RUN_OPTIONS.get(option, _RUN_OPTIONS.get(name, Rule(f"{option} is not carried over")))
                is_variable = holder.key == "env_args" and name in ("-e", "--env") and equals
                if is_variable and (complaint := complaint_about(key, text)):
                    holder.leave(f"{show(key)} is not carried over: {complaint}")
                elif is_variable:
                    self.draft.put(("environment", key), text, holder.origin)
                elif name == "--shm-size":
                    size = re.sub("([kmg])b?$", lambda unit: f"{unit[1].upper()}i", value.lower())
                    message = f"--shm-size {value} is the option shared-memory of a site"
                    holder.leave(message, self.draft.option("shared-memory", SHM_SIZE=size))
                elif rule.message:
                    holder.leave(rule.message, rule.hint)
            holder.done()

    def _put_overlays(self, chosen: Sequence[Task]) -> None:
        if len(chosen) > 1 and self.choices.tasks:
            self.draft.put(("sequence",), [task.overlay for task in chosen], by_option("--task"))
        parameters = [parameter for task in chosen for parameter in task.parameters]
        self._carry_seeds(parameters)
        is_mounted = self.shows_workspace or any(self._claim_of(one).value == self.claim.value for one in parameters)
        # The package creates the claim, unless the user names one or a task has the name of that overlay.
        if self.choices.claim is None and is_mounted and WORKSPACE not in (task.overlay for task in chosen):
            self.draft.put(("workspace",), self.claim.value, self.claim.origin)
        for task in chosen:
            overlay: Location = ("overlays", task.overlay)
            self.draft.put((*overlay, "kind"), "Job", task.entry.origin)
            retries = "as MLCube's runner for Kubernetes; 0 where a task must not run twice"
            self.draft.put((*overlay, "retries"), _RETRIES, retries)
            self._put_program(overlay, task)
            self._put_claims(overlay, task)
        for parameter in [parameter for parameter in parameters if not self._kind(parameter)]:
            if parameter.is_input:
                shown = show(printable(parameter.place.path))
                parameter.entry.note(f"({shown}) is neither a file nor a directory of the cube yet")
            else:
                parameter.entry.refuse("the type of an output is missing", "type: file or directory")

    def _put_program(self, overlay: Location, task: Task) -> None:
        words = [_literal(word) for word in task.entrypoint]
        arguments = words[1:] if words else [_literal(task.name)]
        if words:
            self.draft.put((*overlay, "command"), words[:1], (task.entry.child("entrypoint") or task.entry).origin)
        variables: dict[str, str] = {}
        paths: dict[bool, list[str]] = {True: [], False: []}  # of folders, and of files
        copies: list[str] = []
        for parameter in task.parameters:
            variable = "PARAM_" + re.sub(r"[^A-Za-z0-9_]", "_", parameter.name)
            if variable in variables:
                message = f"the parameters {variables[variable]!r} and {parameter.name!r} both become {variable}"
                parameter.entry.refuse(message, "rename one of them")
            variables[variable] = parameter.name
            folder, kind = f"{MOUNT}/{self._claim_of(parameter).value}", self._kind(parameter)
            arguments.append(f"--{_literal(parameter.name)}={folder}/$({variable})")
            paths[kind == "directory"].append(f"{folder}/$({variable})")
            if parameter.is_input and (seed := self.seeds.get(parameter.place.path)):
                copies += [f"$(MODEL_DIR)/{SCRIPTS}/{seed}", f"{folder}/{parameter.place.path}"]
            described = f"{'input' if parameter.is_input else 'output'} {kind or 'path'}"
            value = {"value": parameter.place.path, "description": described}
            self.draft.put((*overlay, "environment", variable), value, parameter.origin)
        comment = f"{task.entry.origin.comment}: its name, and its parameters"
        self.draft.put((*overlay, "args"), arguments, replace(task.entry.origin, comment=comment))
        if variables:
            script, before = (_SEEDS, [*copies, "--"]) if copies else ("", [])
            words = ["/bin/sh", "-c", f"set -e; {script}{_FOLDERS}", "sh", *before, *paths[True], "--", *paths[False]]
            reason = "MLCube makes the folders of all parameters before a task"
            reason = f"copies inputs that are not there; {reason}" if copies else reason
            self.draft.put((*overlay, "init", "command"), words, reason)

    def _claim_of(self, parameter: Parameter) -> Given:
        """Return the claim of a parameter: its own, or that of inputs that no task makes, or of the workspace."""
        if chosen := _choice(self.choices.parameter_claims, parameter.task, parameter.name):
            return Given(chosen[1], by_option("--param-claim"))
        if self.choices.input_claim and parameter.is_input and parameter.place.path not in self.made:
            return Given(self.choices.input_claim, by_option("--input-claim"))
        return self.claim

    def _put_claims(self, overlay: Location, task: Task) -> None:
        """Put each claim of a task once, and read-only inputs as additional mounts at their own paths."""
        claims = [(parameter, self._claim_of(parameter)) for parameter in task.parameters]
        mounts: dict[str, tuple[dict[str, Any], ValueOrigin]] = {}
        for claim in (*(claim for _, claim in claims), *([self.claim] if self.shows_workspace else ())):
            path = f"{MOUNT}/{claim.value}"
            mounts.setdefault(path, ({"claim": claim.value, "path": path}, claim.origin))
        for parameter, claim in claims:
            if parameter.read_only and (sub_path := parameter.place.path):
                path = f"{MOUNT}/{claim.value}/{sub_path}"
                mount = {"claim": claim.value, "path": path, "sub_path": sub_path, "read_only": True}
                mounts[path] = (mount, parameter.entry.origin)
        for index, (mount, origin) in enumerate(mounts.values()):
            for key, value in mount.items():
                self.draft.put((*overlay, "claims", index, key), value, origin)

    def _kind(self, parameter: Parameter) -> str | None:
        """Return the type of a parameter: its own, that of another parameter with its path, or that on the disk."""
        known = parameter.kind or self.kinds.get(parameter.place.path)
        path = None if known or not parameter.is_input else self._on_disk(parameter)
        return known or (None if path is None else "directory" if path.is_dir() else "file")

    def _on_disk(self, parameter: Parameter) -> Path | None:
        """Return the path of a parameter's file in the cube's folder; None if it is missing or a link leads there."""
        below = parameter.place.below_root
        return None if below is None or below.startswith("..") else plain_path(self.folder, below)

    def _carry_seeds(self, parameters: Sequence[Parameter]) -> None:
        """Add the inputs that are in the cube's folder and that no task makes, if they fit into ConfigMaps."""
        room = CODE_BYTES
        inputs: dict[str, Parameter] = {}
        for parameter in parameters:
            if parameter.is_input and parameter.place.path not in self.made:
                inputs.setdefault(parameter.place.path, parameter)
        for path, parameter in inputs.items():
            below = parameter.place.below_root or ""
            if self._on_disk(parameter) is None:
                continue
            try:
                files = dict(_seed_files(self.folder, below, room))
            except CubeError as error:
                hint = f"before the first task: mlpack workspace push {shlex.quote(self.draft.source)}"
                parameter.entry.note(f"({show(printable(path))}) is not in the package: {error}", hint)
                continue
            room -= sum(encoded_size(content) for content in files.values())
            if files:
                self.seeds[path] = f"seeds/{below}"
            known = {file.path for file in self.draft.files}
            for name in [name for name in files if name not in known]:
                self.draft.files.append(DraftFile(name, files[name]))
                self.draft.put(("files", len(self.draft.files) - 1), name, parameter.origin)

    def _put_platform(self, chosen: Sequence[Task]) -> None:
        """Put the accelerators, the memory and the disk that a cube needs, or the user wants."""
        platform = self.root.at("platform")
        keys = ("accelerator_count", "host_memory_gb", "host_disk_space_gb")
        count, memory, disk = (platform.child(key) if platform else None for key in keys)
        self._put_accelerators(count, platform)
        if memory and (size := _gigabytes(memory)):
            for task in chosen:
                self.draft.put(("overlays", task.overlay, "resources", "requests", "memory"), size, memory.origin)
        if disk and (size := _gigabytes(disk)):
            if "workspace" in self.draft.data:
                self.draft.site["CLAIM_SIZE"] = size
                disk.leave("is the size of the claim", f"--site CLAIM_SIZE={size}")
            else:
                disk.leave(f"({show(disk.value)}) is not carried over", "the claim has to be as large")

    def _put_accelerators(self, entry: ForeignValue | None, platform: ForeignValue | None) -> None:
        count = (entry.whole() or 0) if entry else 0
        if self.choices.gpus is not None:
            count = self.choices.gpus
            if count and (complaint := KEYS["GPU_COUNT"].complaint(str(count))):
                raise UsageError(f"--gpus {count}: {complaint}")
        if not count:
            return
        maker = platform.child("accelerator_maker") if platform else None
        vendor = _VENDORS.get(str(maker.value).lower(), "") if maker else "nvidia.com"
        if maker and not vendor:
            maker.leave(f"is unknown: {show(maker.value)}", "--site GPU_VENDOR=… names the vendor of the resource")
        site = {"GPU_VENDOR": vendor} if vendor not in ("", "nvidia.com") else {}
        hint = self.draft.option("gpu", GPU_COUNT=str(count), **site)
        if entry:
            entry.leave("is the option gpu of a site", hint)


def _choice(values: Sequence[str], task: str, name: str) -> tuple[str, str] | None:
    """Return the last of `[TASK.]NAME=VALUE` that is for a parameter: its key, and the value."""
    pairs = [(key, value) for key, equals, value in (text.partition("=") for text in values) if equals]
    return next((pair for pair in reversed(pairs) if pair[0] in (name, f"{task}.{name}")), None)


def _run_options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of `docker run`, each with its value."""
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if not equals and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        yield name, value


def _gigabytes(entry: ForeignValue) -> str | None:
    """Return a number of gigabytes as a quantity; None for zero, and, with a problem, for an invalid value."""
    number = entry.value
    if not isinstance(number, int | float) or not 0 <= number <= _MOST_GIGABYTES:
        entry.refuse(f"expected a number of gigabytes, found {show(number)}")
        return None
    mebibytes = math.ceil(number * 1024)
    size = f"{mebibytes}Mi" if mebibytes % 1024 else f"{mebibytes // 1024}Gi"
    return size if mebibytes else None


def _seed_files(root: Path, path: str, room: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an input by their paths in the model; none for an empty folder.

    Raises CubeError if the files do not fit, are not plain files, or have names that a model cannot have.
    """
    if path == WORKSPACE_FOLDER:
        raise CubeError("it is the whole workspace")
    top = root / path
    if top.is_dir() and not any(top.iterdir()):
        return
    for number, file in enumerate(walk(root, path, set()) if top.is_dir() else [source_file(root, path)]):
        if isinstance(file, str):
            raise CubeError(printable(file))
        if len(f"seeds/{file.name}") > _LONGEST_SEED or not re.match(ASSET_PATH, file.name):
            form = f"letters, digits and - . _ + @ between the slashes, at most {_LONGEST_SEED - len('seeds/')}"
            raise CubeError(f"{show(printable(file.name))}: expected {form}")
        content = file.path.read_bytes() if file.size <= CODE_BYTES else b""
        if unreadable := unreadable_reason(content):
            raise CubeError(f"{show(file.name)} {unreadable}, which kubectl refuses or changes in a ConfigMap")
        room -= max(file.size, encoded_size(content))
        if room < 0 or number >= _MOST_SEEDS:
            raise CubeError(f"inputs in a package take at most {CODE_BYTES >> 10} KiB in {_MOST_SEEDS} files")
        yield f"seeds/{file.name}", content


def _literal(word: str) -> str:
    """Return a word escaped for Kubernetes, which replaces `$$` by `$` and expands `$(`."""
    return re.sub(r"\$(?=[$(])", "$$", word)
