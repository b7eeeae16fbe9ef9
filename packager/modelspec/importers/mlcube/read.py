"""Reads mlcube.yaml into a Draft: a Job for each task, and the claims that hold the cube's workspace.

The format is that of mlcommons/mlcube, configuration 2.0, as runners/mlcube_docker reads it; the names of claims and
the folders below /mnt/mlcube are those of runners/mlcube_k8s and of its documentation.
"""

from __future__ import annotations

import re
import shlex
import stat
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.errors import UsageError
from packager.base.names import is_label
from packager.base.problems import show, similar
from packager.base.values import Value, replace
from packager.kubernetes.configmap import CODE_BYTES, encoded_size
from packager.modelspec.importers.draft import Draft, DraftFile, Sketch, named
from packager.modelspec.importers.images import put_image
from packager.modelspec.importers.mlcube import docker, seeds
from packager.modelspec.importers.mlcube.platform import put_platform
from packager.modelspec.importers.mlcube.tasks import CubeParameter, CubeTask, TaskReader
from packager.modelspec.importers.mlcube.texts import MOUNT, Texts
from packager.modelspec.importers.source import (
    ForeignValue,
    Ledger,
    Source,
    ValueOrigin,
    decided,
    invalid,
    oversized,
    printable,
    read_bytes,
    template,
)
from packager.package.layout import MAX_OVERLAYS, SCRIPTS, WORKSPACE

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from pathlib import Path

    from packager.base.yamlio import Document, Location

_KIND = "an MLCube"
_FILE = "mlcube.yaml"
_REWRITE = "write it as configuration 2.0"
_RETRIES = 4
_RUNNER = ("pvc", "image", "namespace")
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
# Settings of docker and its build that do not change what runs.
_SILENT = ("docker", "gpu_args", "cpu_args", "env_args", "image")


class Choices(Value, frozen=True):
    """The user's choices for an import.

    Attributes:
        settings: Other values of keys of the cube: `a.b=value`.
        parameters: Other paths of parameters: `[task.]name=path`.
        tasks: The tasks to import, in this order; None for all.
        image: The image, in place of the cube's.
        claim: The claim that holds the workspace.
        input_claim: The claim that holds inputs that no task makes, if it is another one.
        gpus: The number of GPUs, in place of the cube's.
    """

    settings: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    tasks: tuple[str, ...] | None = None
    image: str | None = None
    claim: str | None = None
    input_claim: str | None = None
    gpus: int | None = None


def overlay_of(task: str) -> str:
    """Return the name of a task's overlay."""
    return named(task, prefix="task").name


def read(path: Path, name: str, choices: Choices) -> Draft:
    """Return the draft of a cube.

    Args:
        path: The cube's file, or the folder with `mlcube.yaml`.
        name: The name of the path in messages.
        choices: The user's choices.

    Raises:
        SpecError: The file is not a valid cube of configuration 2.0.
        UsageError: A choice names a task or a parameter that the cube does not have.
    """
    folder = None
    if path.is_dir():
        folder, path, name = path, path / _FILE, f"{name.rstrip('/')}/{_FILE}"
    text = read_bytes(path, name, folder=folder)
    document, problems = yamlio.load(text, name)
    problems.extend(oversized([document]))
    if problems:
        hint = "make a project of it first: cookiecutter"
        raise invalid(name, _KIND, template(text, name, "cookiecutter", hint) or problems)
    if not isinstance(document.data, dict):
        raise invalid(name, _KIND, [document.problem((), f"expected a mapping, found {show(document.data)}")])
    _check_format(document, name)
    document = _with_settings(document, choices.settings)
    ledger = Ledger()
    source = Source(document, ledger, path.name)
    reader = _CubeImport(source, path.resolve().parent, choices)
    sketch = reader.draft()
    ledger.check(name, _KIND)
    source.report_unread()
    return Draft(
        sketch.data["name"],
        f"Imported from {printable(path.name)} by `mlpack import mlcube`.",
        sketch.data,
        sketch.origins,
        tuple(sketch.files),
        tuple(ledger.findings),
        tuple(sketch.options),
        tuple(sketch.site.items()),
        name,
        _KIND,
        reader.namespace,
    )


def _check_format(document: Document, name: str) -> None:
    """Refuse the old formats: with `schema_type` and tasks as a list of files (2020), and with `io` in tasks (2021)."""
    data = document.data
    for key in ("schema_type", "schema_version"):
        if key in data:
            message = f"found {key}: this is the format of MLCube 0.0.x before September 2021, which is not read"
            raise invalid(name, _KIND, [document.problem((key,), message, hint=_REWRITE)])
    if not isinstance(data.get("tasks"), dict):
        shown = "a list of files" if isinstance(data.get("tasks"), list) else show(data.get("tasks"))
        message = f"expected tasks as a mapping, found {shown}"
        hint = "MLCube 0.0.x before September 2021 had another format" if "tasks" in data else None
        raise invalid(name, _KIND, [document.problem(("tasks",), message, hint=hint)])
    for task, values in data["tasks"].items():
        if isinstance(values, dict) and isinstance(values.get("io"), list):
            message = "found io: this is a format of MLCube 0.0.x of 2021, which is not read"
            problem = document.problem(("tasks", task, "io"), message, hint=f"{_REWRITE}: parameters, inputs, outputs")
            raise invalid(name, _KIND, [problem])


def _with_settings(document: Document, settings: Sequence[str]) -> Document:
    """Return the document with other values for some keys."""
    if not settings:
        return document
    data = deepcopy(document.data)
    for setting in settings:
        key, equals, value = setting.partition("=")
        steps = key.split(".")
        if not equals or not all(steps):
            raise UsageError(f"-P {setting}: expected KEY=VALUE, such as docker.image=example/image:1")
        node = data
        for step in steps[:-1]:
            if step not in node:
                node[step] = {}
            node = node[step]
            if not isinstance(node, dict):
                raise UsageError(f"-P {setting}: {step!r} is not a mapping")
        node[steps[-1]] = yamlio.scalar(value)
    return replace(document, data=data)


class _CubeImport:
    """The import of one cube."""

    def __init__(self, source: Source, root: Path, choices: Choices) -> None:
        self.source = source
        self.ledger = source.ledger
        self.folder = root
        self.choices = choices
        self.sketch = Sketch()
        self.root = source.root
        self.texts = Texts(source.root)
        self.kinds: dict[str, str] = {}
        self.seeds: dict[str, str] = {}
        self.namespace: str | None = None

    def draft(self) -> Sketch:
        """Fill in the sketch; problems and findings are in the ledger."""
        self._names()
        settings = self._settings()
        self._image(settings.get("image"))
        claim = self._claim(settings)
        pairs = [parameter.partition("=") for parameter in self.choices.parameters]
        paths = {name: path for name, _, path in pairs}
        tasks = TaskReader(self.root, self.texts, paths).tasks(claim[0])
        self._check_choices(tasks)
        chosen = [tasks[name] for name in dict.fromkeys(self.choices.tasks or tasks) if name in tasks]
        if len(chosen) > MAX_OVERLAYS:
            message = f"expected at most {MAX_OVERLAYS} tasks, found {len(chosen):,}"
            chosen[MAX_OVERLAYS].entry.refuse(message, "choose some with --task", at_key=True)
            del chosen[MAX_OVERLAYS:]
        for name, task in tasks.items():
            if task not in chosen:
                task.entry.leave("is not one of --task")
                task.entry.source.mark(("tasks", name), whole=True)
        self._docker(claim[0])
        self._overlays(chosen, list(tasks.values()), *claim)
        put_platform(self.sketch, self.root, self.choices.gpus, chosen)
        if not chosen and not self.ledger.problems:
            self.root.refuse("expected at least one task")
        self.sketch.put(("variants", 0, "mode"), "task", decided("each overlay is a task"))
        return self.sketch

    def _names(self) -> None:
        entry = self.root.child("name")
        text = self.texts.text(entry) or self.folder.name
        naming = named(text, prefix="mlcube")
        origin = entry.origin if entry else decided("the name of its folder")
        self.sketch.put(("name",), naming.name, origin)
        if entry and naming.changes:
            entry.leave(f"{naming.changes}, found {show(text)}", "it stays the title")
        title = "".join(character for character in text if character.isprintable())[:200].strip()
        self.sketch.put(("title",), title or naming.name, origin)
        self.sketch.put(("framework",), "mlcube", decided("an MLCube does not name one"))
        lines = []
        description = self.root.child("description")
        if description and (about := self.texts.text(description)):
            lines.append(_plain(about))
        authors = self.root.child("authors")
        for author in authors.items() if authors else ():
            if not author.is_mapping():
                continue
            values = {key: self.texts.text(author.child(key)) for key in ("name", "email", "org")}
            parts = (values["name"], f"<{values['email']}>" if values["email"] else None, values["org"])
            lines.append("Author: " + _plain(", ".join(part for part in parts if part)))
        if lines:
            origin = (description or authors or self.root).origin
            self.sketch.put(("description",), "\n".join(lines).strip()[:20_000], origin)

    def _settings(self) -> dict[str, tuple[str, ForeignValue]]:
        """Return `pvc`, `image` and `namespace` of the section k8s, or of `-P runner.…`."""
        values: dict[str, tuple[str, ForeignValue]] = {}
        for section in ("k8s", "runner"):
            holder = self.root.at(section)
            for key in _RUNNER if holder else ():
                entry = holder.child(key) if holder else None
                if entry and (text := self.texts.text(entry)):
                    values[key] = (text, entry)
        if "namespace" in values:
            namespace, entry = values["namespace"]
            entry.leave("is not in a package", f"mlpack deploy -n {printable(namespace)}; mlpack run uses it")
            self.namespace = namespace if is_label(namespace) else None
        if singularity := self.root.child("singularity"):
            singularity.leave("is not carried over: Kubernetes runs the image of docker")
        return values

    def _image(self, own: tuple[str, ForeignValue] | None) -> None:
        entry = self.root.at("docker", "image")
        if self.choices.image is not None:
            put_image(self.sketch, self.choices.image, ValueOrigin("--image", "--image"), self.ledger)
            for replaced in (entry, own[1] if own else None):
                if replaced:
                    replaced.leave("is replaced by --image")
        elif own is not None:
            put_image(self.sketch, own[0], own[1].origin, self.ledger)
            if entry:
                entry.leave("is replaced by k8s.image")
        elif entry is None:
            holder = self.root.child("docker") or self.root
            holder.refuse("the key 'image' is missing", "--image REPOSITORY:TAG sets one")
        elif text := self.texts.text(entry):
            put_image(self.sketch, text, entry.origin, self.ledger)

    def _docker(self, claim: str) -> None:
        section = self.root.at("docker")
        if section is None or not isinstance(section.value, dict):
            return
        for entry in section.children():
            if entry.value is None or entry.key in _SILENT:
                continue
            if entry.key in ("build_context", "build_file", "build_args", "build_strategy"):
                entry.leave("is not carried over: build and push the image as the cube says, it is not in the package")
            elif entry.key not in ("--mount_opts", "--gpus"):
                entry.leave()
        if env_args := self.texts.program(section.child("env_args"), claim):
            docker.variables(env_args, self.sketch)
        for key in ("gpu_args", "cpu_args"):
            if arguments := self.texts.program(section.child(key), claim):
                docker.run_options(arguments, self.sketch)

    def _check_choices(self, tasks: dict[str, CubeTask]) -> None:
        """Raise UsageError for tasks and parameters that the cube does not have."""
        for name in self.choices.tasks or ():
            if name not in self.root.value["tasks"]:
                hint = similar(name, tasks) or f"the tasks are: {', '.join(tasks)}"
                raise UsageError(f"--task {name}: the cube has no such task", hint=hint)
        if self.ledger.problems:
            return
        names = {parameter.name for task in tasks.values() for parameter in task.parameters}
        names |= {f"{task.name}.{parameter.name}" for task in tasks.values() for parameter in task.parameters}
        for parameter in self.choices.parameters:
            name, equals, _ = parameter.partition("=")
            if not equals:
                raise UsageError(f"--param {parameter}: expected [TASK.]NAME=PATH")
            if name not in names:
                raise UsageError(f"--param {parameter}: no task has such a parameter", hint=similar(name, names))

    def _overlays(self, chosen: Sequence[CubeTask], tasks: Sequence[CubeTask], claim: str, origin: ValueOrigin) -> None:
        made = {parameter.place.path for task in tasks for parameter in task.parameters if not parameter.is_input}
        self.kinds = {one.place.path: one.kind for task in tasks for one in task.parameters if one.kind}
        if len(chosen) > 1 and self.choices.tasks:
            self.sketch.put(("sequence",), [task.overlay for task in chosen], ValueOrigin("--task", "--task"))
        self._carry_seeds([parameter for task in chosen for parameter in task.parameters], made)
        self._workspace(chosen, claim, origin, made)
        for task in chosen:
            overlay: Location = ("overlays", task.overlay)
            self.sketch.put((*overlay, "kind"), "Job", task.entry.origin)
            reason = decided("as MLCube's runner for Kubernetes; 0 where a task must not run twice")
            self.sketch.put((*overlay, "retries"), _RETRIES, reason)
            self._program(overlay, task, claim, made)
            self._claims(overlay, task, (claim, origin), made)
            for parameter in task.parameters:
                self._type(parameter)

    def _claim(self, settings: dict[str, tuple[str, ForeignValue]]) -> tuple[str, ValueOrigin]:
        """Return the claim that holds the workspace."""
        if self.choices.claim is not None:
            if "pvc" in settings:
                settings["pvc"][1].leave("is replaced by --claim")
            return self.choices.claim, ValueOrigin("--claim", "--claim")
        if "pvc" in settings:
            text, entry = settings["pvc"]
            naming = named(text, prefix="mlcube", longest=63)
            if naming.changes:
                entry.leave(f"{naming.changes}, found {show(text)}", "--claim names another one")
            return naming.name, entry.origin
        return self.sketch.data["name"], decided("MLCube's default: the cube's name")

    def _workspace(self, chosen: Sequence[CubeTask], claim: str, origin: ValueOrigin, made: set[str]) -> None:
        """Let the package create the claim, unless the user names one or a task has the name of that overlay."""
        parameters = (parameter for task in chosen for parameter in task.parameters)
        is_mounted = self.texts.show_workspace or any(
            self._claim_of(parameter, claim, made) == claim for parameter in parameters
        )
        is_free = WORKSPACE not in (task.overlay for task in chosen)
        if self.choices.claim is None and is_mounted and is_free:
            self.sketch.put(("workspace",), claim, origin)

    def _program(self, overlay: Location, task: CubeTask, claim: str, made: set[str]) -> None:
        words = [_literal(word) for word in task.entrypoint]
        arguments = words[1:] if words else [_literal(task.name)]
        entrypoint = task.entry.child("entrypoint")
        if words and entrypoint:
            self.sketch.put((*overlay, "command"), words[:1], entrypoint.origin)
        variables: dict[str, str] = {}
        folders: list[str] = []
        files: list[str] = []
        copies: list[str] = []
        for parameter in task.parameters:
            variable = "PARAM_" + re.sub(r"[^A-Za-z0-9_]", "_", parameter.name)
            other = variables.setdefault(variable, parameter.name)
            if other != parameter.name:
                message = f"the parameters {other!r} and {parameter.name!r} both become {variable}"
                parameter.entry.refuse(message, "rename one of them")
                continue
            folder = f"{MOUNT}/{self._claim_of(parameter, claim, made)}"
            arguments.append(f"--{_literal(parameter.name)}={folder}/$({variable})")
            (folders if self._kind(parameter) == "directory" else files).append(f"{folder}/$({variable})")
            if parameter.is_input and (seed := self.seeds.get(parameter.place.path)):
                copies += [f"$(MODEL_DIR)/{SCRIPTS}/{seed}", f"{folder}/{parameter.place.path}"]
            direction = "input" if parameter.is_input else "output"
            value = {"value": parameter.place.path, "description": f"{direction} {self._kind(parameter) or 'path'}"}
            self.sketch.put((*overlay, "environment", variable), value, parameter.origin)
        task_origin = task.entry.origin
        comment = f"{task_origin.comment}: its name, and its parameters"
        origin = ValueOrigin(comment, task_origin.file, task_origin.line, task_origin.column)
        self.sketch.put((*overlay, "args"), arguments, origin)
        if variables:
            reason = "MLCube makes the folders of all parameters before a task"
            made_before = decided(f"copies inputs that are not there; {reason}" if copies else reason)
            script, before = (_SEEDS, [*copies, "--"]) if copies else ("", [])
            words = ["/bin/sh", "-c", f"set -e; {script}{_FOLDERS}", "sh", *before, *folders, "--", *files]
            self.sketch.put((*overlay, "init", "command"), words, made_before)

    def _claim_of(self, parameter: CubeParameter, claim: str, made: set[str]) -> str:
        """Return the claim of a parameter: inputs that no task makes may be on a separate claim."""
        if self.choices.input_claim and parameter.is_input and parameter.place.path not in made:
            return self.choices.input_claim
        return claim

    def _claims(self, overlay: Location, task: CubeTask, workspace: tuple[str, ValueOrigin], made: set[str]) -> None:
        """Put each claim of a task once, and read-only inputs as additional mounts at their own paths."""
        claim, origin = workspace
        names = (self._claim_of(parameter, claim, made) for parameter in task.parameters)
        used = dict.fromkeys([*names, *([claim] if self.texts.show_workspace else ())])
        mounts: dict[str, tuple[dict[str, Any], ValueOrigin]] = {}
        for name in used:
            given = origin if name == claim else ValueOrigin("--input-claim", "--input-claim")
            mounts[f"{MOUNT}/{name}"] = ({"claim": name, "path": f"{MOUNT}/{name}"}, given)
        for parameter in task.parameters:
            name = self._claim_of(parameter, claim, made)
            path = f"{MOUNT}/{name}/{parameter.place.path}"
            if parameter.read_only and parameter.place.path:
                mount = {"claim": name, "path": path, "sub_path": parameter.place.path, "read_only": True}
                mounts[path] = (mount, parameter.entry.origin)
        for index, (mount, given) in enumerate(mounts.values()):
            for key, value in mount.items():
                self.sketch.put((*overlay, "claims", index, key), value, given)

    def _type(self, parameter: CubeParameter) -> None:
        """Report a parameter whose type is unknown: an input as a finding, an output as a problem."""
        if parameter.kind:
            return
        path = parameter.place.path
        if self._kind(parameter):
            return
        if parameter.is_input:
            message = f"({show(printable(path))}) is neither a file nor a directory of the cube yet"
            self.ledger.findings.append(parameter.entry.problem(f"{parameter.entry.path} {message}", at_key=True))
        else:
            parameter.entry.refuse("the type of an output is missing", "type: file or directory")

    def _kind(self, parameter: CubeParameter) -> str | None:
        """Return the type of a parameter: its own, that of another parameter with its path, or that on the disk."""
        known = parameter.kind or self.kinds.get(parameter.place.path)
        info = None if known or not parameter.is_input else self._on_disk(parameter)
        return known or (None if info is None else "directory" if stat.S_ISDIR(info.st_mode) else "file")

    def _on_disk(self, parameter: CubeParameter) -> os.stat_result | None:
        """Return the status of a parameter's file in the cube's folder; None if it is missing or a link leads there."""
        below = parameter.place.below_root
        if below is None or below.startswith(".."):
            return None
        path = self.folder
        try:
            for step in below.split("/"):
                path = path / step
                if path.is_symlink():
                    return None
            return path.stat()
        except (OSError, ValueError):
            return None

    def _carry_seeds(self, parameters: Sequence[CubeParameter], made: set[str]) -> None:
        """Add the inputs that are in the cube's folder and that no task makes, if they fit into ConfigMaps."""
        room = CODE_BYTES
        known: dict[str, CubeParameter] = {}
        for parameter in parameters:
            if parameter.is_input and parameter.place.path not in made:
                known.setdefault(parameter.place.path, parameter)
        for path, parameter in known.items():
            info = self._on_disk(parameter)
            if info is None or parameter.place.below_root is None:
                continue
            try:
                files = seeds.files(self.folder, parameter.place.below_root, room)
            except seeds.SeedError as error:
                message = f"({show(printable(path))}) is not in the package: {error}"
                hint = f"before the first task: mlpack workspace push {shlex.quote(self.source.document.name)}"
                entry = parameter.entry
                self.ledger.findings.append(entry.problem(f"{entry.path} {message}", hint, at_key=True))
                continue
            room -= sum(encoded_size(content) for content in files.values())
            if files:
                self.seeds[path] = f"{seeds.FOLDER}/{parameter.place.below_root}"
            for name, content in files.items():
                if name not in (file.path for file in self.sketch.files):
                    self.sketch.files.append(DraftFile(name, content))
                    self.sketch.put(("files", len(self.sketch.files) - 1), name, parameter.origin)


def _literal(word: str) -> str:
    """Return a word escaped for Kubernetes, which replaces `$$` by `$` and expands `$(`."""
    return re.sub(r"\$(?=[$(])", "$$", word)


def _plain(text: str) -> str:
    return "".join(character for character in text if character.isprintable() or character == "\n")
