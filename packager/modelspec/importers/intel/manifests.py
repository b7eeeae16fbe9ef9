"""Reads the Kubernetes manifests of a package: Pods, MPIJobs, Deployments, and the containers of Argo's Workflows.

IntelAI/models, k8s/<use case>/<framework>/<model>/<mode>/<precision>/mlops/<use>/<storage>/.

Tests: modelspec/importers/intel/test_read.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.problems import Problem, show
from packager.modelspec.importers.container import complaint_about, escaped, gpu_option, resources
from packager.modelspec.importers.draft import Sketch, named
from packager.modelspec.importers.images import put_image
from packager.modelspec.importers.intel.code import plain_path
from packager.modelspec.importers.source import (
    ForeignValue,
    Ledger,
    Source,
    ValueOrigin,
    decided,
    oversized,
    read_bytes,
)
from packager.package.layout import KUSTOMIZATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location
    from packager.modelspec.importers.intel.checkout import Checkout

_STORAGES = ("user-mounted-nfs", "user-allocated-pvc")
_MOST_FILES = 50
_CONTAINERS = {
    "Pod": ("spec", "containers"),
    "MPIJob": ("spec", "mpiReplicaSpecs", "Launcher", "template", "spec", "containers"),
    "Deployment": ("spec", "template", "spec", "containers"),
}
"""The location of the containers of each kind, in the order of preference for the package's image."""
_SITE = {
    "serviceAccountName": "--with service-account, if it needs one",
    "securityContext": "mlpack configure --uid, --gid",
    "volumes": "--with nfs, or --with pvc",
    "volumeMounts": "--with nfs, or --with pvc",
}
"""The fields of a pod and its container that a site decides, each with a hint to the option."""

# Values that the package sets by other means.
_IDS = ("USER_ID", "GROUP_ID", "FS_ID", "USER_NAME", "GROUP_NAME")
_START = 'MODEL_DIR="$0" && export MODEL_DIR && cd "$0" && exec "$@"'
"""Starts a program in a folder of the image and sets MODEL_DIR to the folder; a spec has no keys for these."""


def image(folder: str, zoo: Checkout) -> ForeignValue | None:
    """Return the image in a folder's manifests: that of a Pod or an MPIJob, else of a Deployment; None without any."""
    images: dict[str, ForeignValue] = {}
    for source in _sources(folder, zoo, Ledger()):
        kind = source.root.child("kind")
        path = _CONTAINERS.get(str(kind.value)) if kind else None
        listed = source.root.at(*path) if path else None
        if kind and listed and isinstance(listed.value, list) and listed.value:
            entry = listed.items()[0].at("image")
            if entry:
                images.setdefault(str(kind.value), entry)
    return next((images[kind] for kind in _CONTAINERS if kind in images), None)


def put(sketch: Sketch, folder: str, zoo: Checkout, ledger: Ledger, own: ForeignValue) -> None:
    """Put an overlay for each use below `folder`; add a problem if no manifest makes one."""
    top = plain_path(zoo.root, folder)
    uses = sorted(path.name for path in top.iterdir() if path.is_dir() and not path.is_symlink()) if top else []
    for use in uses:
        below = f"{folder}/{use}"
        storages = [storage for storage in _STORAGES if plain_path(zoo.root, f"{below}/{storage}")]
        chosen = f"{below}/{storages[0]}" if storages else below
        for other in storages[1:]:
            message = "is not carried over: storage is an option of a site"
            ledger.findings.append(Problem(f"{zoo.shown}{below}/{other}", 0, 0, message, "--with nfs, or --with pvc"))
        reader = _Use(sketch, use, ledger)
        for source in _sources(chosen, zoo, ledger):
            reader.add(source)
        reader.finish()
    if "overlays" not in sketch.data and not ledger.problems:
        own.refuse(f"expected a Pod, an MPIJob or a Deployment below {folder}, found none", at_key=True)


def _sources(folder: str, zoo: Checkout, ledger: Ledger) -> Iterator[Source]:
    """Yield the documents of the manifests in a folder, deepest first by name."""
    top = plain_path(zoo.root, folder)
    if top is None:
        return
    paths = sorted(path for path in top.rglob("*.yaml") if not path.is_symlink() and path.is_file())
    for path in [path for path in paths if path.name not in KUSTOMIZATIONS][:_MOST_FILES]:
        shown = path.relative_to(zoo.root).as_posix()
        text = ledger.count(read_bytes(path, zoo.shown + shown), zoo.shown + shown)
        documents, problems = yamlio.load_all(text, zoo.shown + shown)
        ledger.problems.extend((*problems, *oversized(documents)))
        for document in documents:
            if isinstance(document.data, dict):
                yield Source(document, ledger, shown)


class _Use:
    """The manifests of one use."""

    def __init__(self, sketch: Sketch, use: str, ledger: Ledger) -> None:
        self.sketch = sketch
        self.use = use
        self.ledger = ledger
        self.variables: dict[str, tuple[str, ValueOrigin]] = {}
        self.model_dir: str | None = None
        self.overlays: list[str] = []

    def add(self, source: Source) -> None:
        """Carry over one manifest."""
        root = source.root
        kind_entry = root.child("kind")
        kind = str(kind_entry.value) if kind_entry else None
        readers = {
            "ConfigMap": self._config_map,
            "Pod": self._pod,
            "MPIJob": self._mpi_job,
            "Deployment": self._deployment,
            "Workflow": self._workflow,
        }
        if kind in readers:
            root.child("apiVersion")
            if metadata := root.child("metadata"):
                metadata.at("name")
            readers[kind](root)
            source.report_unread()
        elif kind == "Service":
            self._leave(root, "is not carried over: a Deployment has one", "--with expose opens it to the outside")
        else:
            self._leave(root, f"({show(kind)}) is not carried over")

    def finish(self) -> None:
        """Put the variables of the use into its overlays, and escape references to other variables."""
        self._fill_in()
        for overlay in self.overlays:
            self._keep_references(self.sketch.data["overlays"][overlay])

    def _keep_references(self, overlay: dict[str, Any]) -> None:
        """Replace $(MODEL_DIR), which is another folder in a package, and escape references to missing variables."""
        known = {"REGISTRY", "IMAGE", "MODEL_DIR", "OUTPUT_DIR", "DATASET_DIR", "HOME"}
        known |= {*self.sketch.data.get("environment", {}), *overlay.get("environment", {})}
        for holder in (overlay, overlay.get("init", {})):
            for key in ("command", "args"):
                folder = "$(MODEL_DIR)" if self.model_dir is None else self.model_dir.replace("$(", "$$(")
                if key in holder:
                    words = [word.replace("$(MODEL_DIR)", folder) for word in holder[key]]
                    holder[key] = [escaped(word, known) for word in words]

    def _fill_in(self) -> None:
        for overlay in self.overlays:
            own = self.sketch.data["overlays"][overlay].get("environment", {})
            for name, (value, origin) in self.variables.items():
                if name in own:
                    continue
                if name == "CHECKPOINT_DIR":  # either all overlays of a package have this folder, or none
                    common = self.sketch.data.get("environment", {}).get(name)
                    if common is None:
                        self.sketch.put(("environment", name), value, origin)
                    if common in (None, value):
                        continue
                self.sketch.put(("overlays", overlay, "environment", name), value, origin)

    def _leave(self, entry: ForeignValue, message: str, hint: str | None = None) -> None:
        """Add a finding about an entry that is not carried over unchanged."""
        entry.done()
        self.ledger.findings.append(entry.problem(message if entry.path == "" else f"{entry.path} {message}", hint))

    def _config_map(self, root: ForeignValue) -> None:
        data = root.at("data")
        for entry in data.children() if data else ():
            text = entry.text()
            if text is None:
                continue
            if entry.key in _IDS:
                self._leave(entry, "is not carried over", "mlpack configure --uid, --gid")
            elif entry.key in ("LD_LIBRARY_PATH", "MODEL_DIR"):
                self.model_dir = text if entry.key == "MODEL_DIR" else self.model_dir
                self._leave(entry, "is not carried over: the image and the command have it")
            elif complaint := complaint_about(entry.key, text):
                self._leave(entry, f"is not carried over: {complaint}")
            else:
                shortened = re.sub(rf":\$\{{?{re.escape(entry.key)}\}}?$", "", text)
                if shortened != text:
                    self._leave(entry, f"loses ':${entry.key}', which nothing expands")
                self.variables[entry.key] = (shortened, entry.origin)
                if entry.key == "CHECKPOINT_DIR":
                    hint = "--with checkpoint-pvc, checkpoint-nfs or checkpoint-host-path keeps its files"
                    self._leave(entry, "is a folder of the pod, deleted with it", hint)

    def _overlay(self, name: str, kind: str, origin: ValueOrigin) -> Location:
        known = self.sketch.data.get("overlays", {})
        short = named(name, prefix="use", longest=20).name
        candidates = [short, named(f"{self.use}-{short}", prefix="use", longest=30).name]
        numbered = (f"{candidates[-1]}-{number}" for number in range(2, len(known) + 3))
        overlay = next(candidate for candidate in (*candidates, *numbered) if candidate not in known)
        self.overlays.append(overlay)
        self.sketch.put(("overlays", overlay, "kind"), kind, origin)
        return ("overlays", overlay)

    def _pod(self, root: ForeignValue) -> None:
        spec = root.at("spec")
        listed = spec.at("containers") if spec else None
        containers = listed.items() if listed else []
        if spec is None or not containers:
            root.refuse("expected spec.containers")
            return
        place = self._overlay(self.use, "Pod", spec.origin)
        self._site(spec)
        self._init(place, spec, containers[0])
        self._program(place, containers[0])

    def _site(self, pod: ForeignValue) -> None:
        """Report the fields of a pod that options or the package's patch replace, and additional containers."""
        listed = pod.child("containers")
        for other in listed.items()[1:] if listed else ():
            self._leave(other, "is not carried over: a pod of a package has one container")
        for key, hint in _SITE.items():
            if entry := pod.child(key):
                self._leave(entry, "is not carried over", hint)

    def _init(self, place: Location, pod: ForeignValue, main: ForeignValue) -> None:
        """Put the first init container if it has the image of the main container; report the others."""
        listed = pod.child("initContainers")
        for position, container in enumerate(listed.items() if listed else ()):
            image, own = container.at("image"), main.at("image")
            words = self._command(container) if position == 0 else []
            names = {str(entry.value).removeprefix("docker.io/") for entry in (image, own) if entry}
            if not words or image is None or own is None or len(names) > 1:
                hint = "do in the image, or in the command, what it prepares"
                self._leave(container, "is not carried over", hint)
                continue
            self._settle(container)
            self.sketch.put((*place, "init", "command"), words, container.origin)

    def _program(self, place: Location, container: ForeignValue, words: list[str] | None = None) -> None:
        """Put the image, resources, variables and command of a container; it starts in a folder of the image."""
        self._image(place, container)
        words = self._command(container, words)
        if words:
            self.sketch.put((*place, "command"), words, container.origin)
        self._settle(container)
        requests, limits, gpus = resources(container.child("resources"))
        gpu_option(gpus, self.sketch)
        for part, quantities in (("requests", requests), ("limits", limits)):
            for name, given in quantities.items():
                self.sketch.put((*place, "resources", part, name), given.value, given.origin)
        listed = container.child("env")
        for variable in listed.items() if listed else ():
            name_entry, value = variable.at("name"), variable.at("value")
            key, text = str(name_entry.value) if name_entry else "", (value.text() if value else None) or ""
            if variable.at("valueFrom") is not None:
                self._leave(variable, f"{show(key)} is not carried over: a package has values only")
            elif complaint := complaint_about(key, text):
                self._leave(variable, f"{show(key)} is not carried over: {complaint}")
            else:
                self.sketch.put((*place, "environment", key), text, (value or variable).origin)

    def _settle(self, container: ForeignValue) -> None:
        """Report the fields of a container that a site decides; its name and the use's ConfigMap need no report."""
        container.at("name")
        listed = container.child("envFrom")
        for source in listed.items() if listed else ():
            if source.at("configMapRef"):
                source.done()
        for key, hint in _SITE.items():
            if entry := container.child(key):
                self._leave(entry, "is not carried over", hint)

    def _command(self, container: ForeignValue, words: list[str] | None = None) -> list[str]:
        """Return the command of a container, started in its folder; add a finding for a folder without a command."""
        if words is None:
            words = [word for key in ("command", "args") for word in self._words(container, key)]
        directory = container.at("workingDir")
        folder = directory.text() if directory else None
        if directory and folder and words:
            return ["/bin/sh", "-c", _START, folder, *words]
        if directory and folder:
            self._leave(directory, f"is not carried over: it starts in the image's own folder, not in {show(folder)}")
        return words

    def _words(self, container: ForeignValue, key: str) -> list[str]:
        entry = container.at(key)
        return (entry.words() or []) if entry else []

    def _image(self, place: Location, container: ForeignValue) -> None:
        """Put the image of a container if it differs from the package's."""
        entry = container.at("image")
        text = (entry.text() if entry else None) or ""
        own = self.sketch.data.get("image", {})
        if entry and text and text.removeprefix("docker.io/") != f"{own.get('name')}:{own.get('tag')}":
            put_image(self.sketch, text, entry.origin, self.ledger, (*place, "image"))

    def _mpi_job(self, root: ForeignValue) -> None:
        spec = root.at("spec")
        roles = spec.at("mpiReplicaSpecs") if spec else None
        listed = roles.at("Launcher", "template", "spec", "containers") if roles else None
        containers = listed.items() if listed else []
        if spec is None or roles is None or not containers:
            root.refuse("expected spec.mpiReplicaSpecs.Launcher.template.spec.containers")
            return
        place = self._overlay(self.use, "MPIJob", spec.origin)
        workers = roles.at("Worker", "replicas")
        count = workers.whole(1, 10_000) if workers else 1
        if workers:
            self.sketch.put((*place, "workers"), count, workers.origin)
        slots = spec.at("slotsPerWorker")
        if slots and (number := slots.whole(1, 1_000)):
            self.sketch.put((*place, "slots_per_worker"), number, slots.origin)
        container = containers[0]
        if pod := roles.at("Launcher", "template", "spec"):
            self._site(pod)
            self._init(place, pod, container)
        if entry := roles.at("Launcher", "replicas"):
            entry.done()
        if template := roles.at("Worker", "template"):
            template.leave("is not carried over: workers run the launcher's image")
        words = [word for key in ("command", "args") for word in self._words(container, key)]
        self._program(place, container, self._mpirun(place, words, container))

    def _mpirun(self, place: Location, words: list[str], entry: ForeignValue) -> list[str]:
        """Return the program that each rank runs: the words without mpirun, whose options are put or reported."""
        rest = words[1:] if words[:1] == ["mpirun"] else list(words)
        if words[:1] != ["mpirun"]:
            return rest
        while rest and rest[0].startswith("-"):
            option = rest.pop(0)
            name = option.lstrip("-")
            if name == "allow-run-as-root":
                continue
            value = rest.pop(0) if rest else ""
            if name in ("np", "n") and value.isdigit():
                self.sketch.put((*place, "processes"), int(value), entry.origin)
            elif name == "mca" and rest:
                self.sketch.put((*place, "environment", f"OMPI_MCA_{value}"), rest.pop(0), entry.origin)
            elif name not in ("x", "bind-to"):
                self._leave(entry, f"of mpirun, {option} {value} is not carried over")
        return rest

    def _deployment(self, root: ForeignValue, name: str = "") -> None:
        spec = root.at("spec")
        listed = spec.at("template", "spec", "containers") if spec else None
        containers = listed.items() if listed else []
        if spec is None or not containers:
            root.refuse("expected spec.template.spec.containers")
            return
        place = self._overlay(name or self.use, "Deployment", spec.origin)
        replicas = spec.at("replicas")
        if replicas and (count := replicas.whole(1, 1_000)):
            self.sketch.put((*place, "replicas"), count, replicas.origin)
        ports = containers[0].at("ports")
        numbers = [port.at("containerPort") for port in ports.items()] if ports else []
        entries = [number for number in numbers if number is not None]
        for index, entry in enumerate(entries[:10]):
            if port_number := entry.whole(1024, 65_535):
                name = "grpc" if port_number == 8500 else "http" if index == 0 else f"port-{index}"
                self.sketch.put((*place, "ports", name, "port"), port_number, entry.origin)
                if name == "grpc":
                    self.sketch.put((*place, "ports", name, "protocol"), "grpc", entry.origin)
        if not entries:
            self.sketch.put(
                (*place, "ports", "grpc"), {"port": 8500, "protocol": "grpc"}, decided("TensorFlow Serving's")
            )
        if pod := spec.at("template", "spec"):
            self._site(pod)
            self._init(place, pod, containers[0])
        self._program(place, containers[0])

    def _made(self, template: ForeignValue, root: ForeignValue) -> ForeignValue | None:
        """Return the Deployment that a step of a Workflow makes, with the workflow's parameters filled in, or None."""
        manifest = template.at("resource", "manifest")
        text = (manifest.text() if manifest else None) or ""
        listed = root.at("spec", "arguments", "parameters")
        for parameter in listed.items() if listed else ():
            name, value = parameter.at("name"), parameter.at("value")
            if name and value and (filled := value.text()) is not None and "\n" not in filled:
                word = f"{{{{workflow.parameters.{name.value}}}}}"
                if len(text) + text.count(word) * len(filled) > yamlio.MAX_BYTES:
                    return None
                text = text.replace(word, filled)
        # With these line breaks before it, each line of the block of text has its number in the file.
        above = manifest.problem("").line if manifest else 0
        document, problems = yamlio.load(b"\n" * above + text.encode(), template.source.document.name)
        if problems or not isinstance(document.data, dict) or document.data.get("kind") != "Deployment":
            return None
        return Source(document, self.ledger, template.source.shown).root

    def _workflow(self, root: ForeignValue) -> None:
        """Put a Job for each container of a Workflow, and an overlay for each Deployment; report other templates."""
        templates = root.at("spec", "templates")
        made: dict[str, str] = {}
        for template in templates.items() if templates else ():
            name_entry = template.at("name")
            name = (name_entry.text() if name_entry else None) or "step"
            container = template.at("container")
            if container is None:
                if not isinstance(template.value, dict) or "steps" in template.value:
                    continue
                if deployment := self._made(template, root):
                    for key in ("apiVersion", "kind"):
                        deployment.child(key)
                    before = len(self.overlays)
                    self._deployment(deployment, "serving")
                    deployment.source.report_unread()
                    template.done()
                    if len(self.overlays) > before:
                        made[name] = self.overlays[-1]
                else:
                    self._leave(template, f"({show(name)}) is not carried over: a package makes its own objects")
                continue
            short = next((word for word in ("preprocess", "train", "accuracy") if word in name), name)
            place = self._overlay(short, "Job", template.origin)
            made[name] = self.overlays[-1]
            limit = template.at("retryStrategy", "limit")
            if limit and (retries := limit.whole(0, 100)) is not None:
                self.sketch.put((*place, "retries"), retries, limit.origin)
            self._site(template)
            self._program(place, container)
        self._order(root, made)

    def _order(self, root: ForeignValue, made: dict[str, str]) -> None:
        """Put the overlays of a workflow in the order of its steps."""
        entrypoint = root.at("spec", "entrypoint")
        listed = root.at("spec", "templates")
        order: list[str] = []
        for template in listed.items() if listed else ():
            name, steps = template.at("name"), template.at("steps")
            if steps is None or (entrypoint and name and name.value != entrypoint.value):
                continue
            for group in steps.items():
                for step in group.items():
                    target = step.at("template")
                    step.at("name")
                    overlay = made.get((target.text() if target else None) or "")
                    if overlay and overlay not in order:
                        order.append(overlay)
            if len(order) > 1 and "sequence" not in self.sketch.data:
                self.sketch.put(("sequence",), order, steps.origin)
                order = []
        if len(order) > 1:
            names = ", ".join(order)
            self._leave(root, "the order of its steps is not carried over: a package has one", f"run them so: {names}")
