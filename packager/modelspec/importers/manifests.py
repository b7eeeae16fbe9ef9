"""Reads the Kubernetes manifests of a package of Intel's zoo: Pods, MPIJobs, Deployments, Argo's Workflows.

IntelAI/models, k8s/<use case>/<framework>/<model>/<mode>/<precision>/mlops/<use>/<storage>/.

Tests: modelspec/importers/test_zoo.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.problems import Problem, show
from packager.modelspec.importers import jobs, pods
from packager.modelspec.importers.draft import named
from packager.modelspec.importers.pods import complaint_about, escaped
from packager.modelspec.importers.source import ForeignValue, Ledger, Source, ValueOrigin, read_bytes
from packager.package.layout import KUSTOMIZATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from packager.base.yamlio import Location
    from packager.modelspec.importers.draft import Draft

_STORAGES = ("user-mounted-nfs", "user-allocated-pvc")
_MOST_FILES = 50
_POD_OF = {
    "Pod": ("spec",),
    "MPIJob": ("spec", "mpiReplicaSpecs", "Launcher", "template", "spec"),
    "Deployment": ("spec", "template", "spec"),
}
"""The location of the pod of each kind, in the order of preference for the package's image."""
_SITE = {
    "serviceAccountName": ("is not carried over", "--with service-account, if it needs one"),
    "securityContext": ("is not carried over", "mlpack configure --uid, --gid"),
    "volumes": ("is not carried over", "--with nfs, or --with pvc"),
    "volumeMounts": ("is not carried over", "--with nfs, or --with pvc"),
}
"""The fields of a pod and its container that a site decides."""
_IDS = ("USER_ID", "GROUP_ID", "FS_ID", "USER_NAME", "GROUP_NAME")
_START = 'MODEL_DIR="$0" && export MODEL_DIR && cd "$0" && exec "$@"'
"""Starts a program in a folder of the image and sets MODEL_DIR to the folder; a spec has no keys for these."""


def plain_path(root: Path, path: str) -> Path | None:
    """Return the path of the file or folder at `path` below `root`; None if there is none, or a link is on the way."""
    current = root
    try:
        for step in path.split("/"):
            current = current if step == "." else current / step
            if current != root and current.is_symlink():
                return None
        current.lstat()
    except (OSError, ValueError):
        return None
    return current


def image(folder: str, root: Path, shown: str) -> ForeignValue | None:
    """Return the image in a folder's manifests: that of a Pod or an MPIJob, else of a Deployment; None without any."""
    images: dict[str, ForeignValue] = {}
    for source in _sources(folder, root, shown, Ledger()):
        kind = source.root.string("kind")
        for container in source.root.items_at(*_POD_OF[kind], "containers")[:1] if kind in _POD_OF else ():
            if entry := container.at("image"):
                images.setdefault(kind, entry)
    return next((images[kind] for kind in _POD_OF if kind in images), None)


def put(draft: Draft, folder: str, root: Path, shown: str, own: ForeignValue) -> None:
    """Put an overlay for each use below `folder`; add a problem if no manifest makes one."""
    top = plain_path(root, folder)
    uses = sorted(path.name for path in top.iterdir() if path.is_dir() and not path.is_symlink()) if top else []
    for use in uses:
        below = f"{folder}/{use}"
        storages = [storage for storage in _STORAGES if plain_path(root, f"{below}/{storage}")]
        for other in storages[1:]:
            message = "is not carried over: storage is an option of a site"
            draft.ledger.findings.append(Problem(f"{shown}{below}/{other}", 0, 0, message, "--with nfs, or --with pvc"))
        reader = _Use(draft, use)
        for source in _sources("/".join((below, *storages[:1])), root, shown, draft.ledger):
            reader.put(source)
        reader.finish()
    if "overlays" not in draft.data and not draft.ledger.problems:
        own.refuse(f"expected a Pod, an MPIJob or a Deployment below {folder}, found none", at_key=True)


def _sources(folder: str, root: Path, shown: str, ledger: Ledger) -> Iterator[Source]:
    """Yield the documents of the manifests in a folder, by their paths."""
    top = plain_path(root, folder)
    paths = sorted(path for path in top.rglob("*.yaml") if not path.is_symlink() and path.is_file()) if top else []
    for path in [path for path in paths if path.name not in KUSTOMIZATIONS][:_MOST_FILES]:
        name = path.relative_to(root).as_posix()
        documents, problems = yamlio.load_all(read_bytes(path, shown + name), shown + name)
        ledger.problems.extend(problems)
        yield from (Source(document, ledger, name) for document in documents if isinstance(document.data, dict))


class _Use:
    """The manifests of one use."""

    def __init__(self, draft: Draft, use: str) -> None:
        self.draft = draft
        self.use = use
        self.variables: dict[str, tuple[str, ValueOrigin]] = {}
        self.model_dir: str | None = None
        self.overlays: list[str] = []

    def put(self, source: Source) -> None:
        """Carry over one manifest."""
        root = source.root
        kind = root.string("kind")
        readers: dict[str, Callable[[ForeignValue], None]] = {
            "ConfigMap": self._put_config_map,
            "Pod": self._put_pod,
            "MPIJob": self._put_mpi_job,
            "Deployment": self._put_deployment,
            "Workflow": self._put_workflow,
        }
        if kind in readers:
            root.child("apiVersion")
            root.at("metadata", "name")
            readers[kind](root)
            source.report_unread()
        elif kind == "Service":
            root.done()
            root.note("is not carried over: a Deployment has one", "--with expose opens it to the outside")
        else:
            root.done()
            root.note(f"({show(kind)}) is not carried over")

    def finish(self) -> None:
        """Put the variables of the use into its overlays, and escape references to other variables."""
        for name in self.overlays:
            overlay = self.draft.data["overlays"][name]
            for key, (value, origin) in self.variables.items():
                common = self.draft.data.get("environment", {}).get(key)
                if key in overlay.get("environment", {}):
                    continue
                # Either all overlays of a package have the folder of checkpoints, or none.
                if key == "CHECKPOINT_DIR" and common in (None, value):
                    if common is None:
                        self.draft.put(("environment", key), value, origin)
                    continue
                self.draft.put(("overlays", name, "environment", key), value, origin)
            known = {"REGISTRY", "IMAGE", "MODEL_DIR", "OUTPUT_DIR", "DATASET_DIR", "HOME"}
            known |= {*self.draft.data.get("environment", {}), *overlay.get("environment", {})}
            # $(MODEL_DIR) is another folder in a package.
            folder = "$(MODEL_DIR)" if self.model_dir is None else self.model_dir.replace("$(", "$$(")
            for holder in (overlay, overlay.get("init", {})):
                for key in holder.keys() & {"command", "args"}:
                    holder[key] = [escaped(word.replace("$(MODEL_DIR)", folder), known) for word in holder[key]]

    def _put_config_map(self, root: ForeignValue) -> None:
        for entry in root.children_at("data"):
            text = entry.text()
            if text is None:
                continue
            if entry.key in _IDS:
                entry.leave(hint="mlpack configure --uid, --gid")
            elif entry.key in ("LD_LIBRARY_PATH", "MODEL_DIR"):
                self.model_dir = text if entry.key == "MODEL_DIR" else self.model_dir
                entry.leave("is not carried over: the image and the command have it")
            elif complaint := complaint_about(entry.key, text):
                entry.leave(f"is not carried over: {complaint}")
            else:
                shortened = re.sub(rf":\$\{{?{re.escape(entry.key)}\}}?$", "", text)
                if shortened != text:
                    entry.leave(f"loses ':${entry.key}', which nothing expands")
                self.variables[entry.key] = (shortened, entry.origin)
                if entry.key == "CHECKPOINT_DIR":
                    hint = "--with checkpoint-pvc, checkpoint-nfs or checkpoint-host-path keeps its files"
                    entry.leave("is a folder of the pod, deleted with it", hint)

    def _put_overlay(self, name: str, kind: str, origin: ValueOrigin) -> Location:
        known = self.draft.data.get("overlays", {})
        short = named(name, prefix="use", longest=20)
        longer = named(f"{self.use}-{short}", prefix="use", longest=30)
        candidates = (short, longer, *(f"{longer}-{number}" for number in range(2, len(known) + 3)))
        overlay = next(candidate for candidate in candidates if candidate not in known)
        self.overlays.append(overlay)
        self.draft.put(("overlays", overlay, "kind"), kind, origin)
        return ("overlays", overlay)

    def _containers(self, root: ForeignValue, kind: str) -> list[ForeignValue]:
        containers = root.items_at(*_POD_OF[kind], "containers")
        if not containers:
            root.refuse(f"expected {'.'.join((*_POD_OF[kind], 'containers'))}")
        return containers

    def _put_pod(self, root: ForeignValue) -> None:
        if containers := self._containers(root, "Pod"):
            place = self._put_overlay(self.use, "Pod", root.child("spec").origin)  # type: ignore[union-attr]
            self._put_pod_fields(place, root.child("spec"), containers[0])
            self._put_program(place, containers[0])

    def _put_pod_fields(self, place: Location, pod: ForeignValue | None, main: ForeignValue) -> None:
        """Report the fields that options or the package's patch replace, and put the first init container.

        An init container runs the image of the main container, or is reported, as every other container is.
        """
        if pod is None:
            return
        for other in pod.items_at("containers")[1:]:
            other.leave(pods.ONE_CONTAINER)
        pod.leave_keys(_SITE)
        own = main.string("image").removeprefix("docker.io/")
        for position, container in enumerate(pod.items_at("initContainers")):
            words = self._command(container) if position == 0 else []
            if words and own and container.string("image").removeprefix("docker.io/") == own:
                self._leave_fields(container)
                self.draft.put((*place, "init", "command"), words, container.origin)
            else:
                container.leave("is not carried over", "do in the image, or in the command, what it prepares")

    def _put_program(self, place: Location, container: ForeignValue, words: list[str] | None = None) -> None:
        """Put the image, resources, variables and command of a container; it starts in a folder of the image."""
        own = self.draft.data.get("image", {})
        image_entry = container.at("image")
        text = container.string("image")
        if image_entry and text and text.removeprefix("docker.io/") != f"{own.get('name')}:{own.get('tag')}":
            self.draft.put_image(text, image_entry.origin, (*place, "image"))
        if words := self._command(container, words):
            self.draft.put((*place, "command"), words, container.origin)
        self._leave_fields(container)
        resources, gpus = pods.quantities(container.child("resources"))
        pods.put_gpus(self.draft, gpus)
        pods.put_resources(self.draft, place, resources)
        for variable in container.items_at("env"):
            key, text = variable.string("name"), variable.string("value")
            if variable.at("valueFrom") is not None:
                variable.leave(f"{show(key)} is not carried over: a package has values only")
            elif complaint := complaint_about(key, text):
                variable.leave(f"{show(key)} is not carried over: {complaint}")
            else:
                self.draft.put((*place, "environment", key), text, (variable.child("value") or variable).origin)

    def _leave_fields(self, container: ForeignValue) -> None:
        """Report the fields of a container that a site decides; its name and the use's ConfigMap need no report."""
        container.at("name")
        for source in container.items_at("envFrom"):
            if source.at("configMapRef"):
                source.done()
        container.leave_keys(_SITE)

    def _command(self, container: ForeignValue, words: list[str] | None = None) -> list[str]:
        """Return the command of a container, started in its folder; add a finding for a folder without a command."""
        if words is None:
            words = _words(container)
        directory = container.at("workingDir")
        folder = directory.text() if directory else None
        if directory and folder and words:
            return ["/bin/sh", "-c", _START, folder, *words]
        if directory and folder:
            directory.leave(f"is not carried over: it starts in the image's own folder, not in {show(folder)}")
        return words

    def _put_mpi_job(self, root: ForeignValue) -> None:
        containers = self._containers(root, "MPIJob")
        spec = root.child("spec")
        if spec is None or not containers:
            return
        place = self._put_overlay(self.use, "MPIJob", spec.origin)
        workers, slots = spec.at("mpiReplicaSpecs", "Worker", "replicas"), spec.at("slotsPerWorker")
        for entry, key, most in ((workers, "workers", 10_000), (slots, "slots_per_worker", 1_000)):
            if entry and (number := entry.whole(1, most)):
                self.draft.put((*place, key), number, entry.origin)
        self._put_pod_fields(place, spec.at(*_POD_OF["MPIJob"][1:]), containers[0])
        if entry := spec.at("mpiReplicaSpecs", "Launcher", "replicas"):
            entry.done()
        if template := spec.at("mpiReplicaSpecs", "Worker", "template"):
            template.leave("is not carried over: workers run the launcher's image")
        words = _words(containers[0])
        program = jobs.mpirun(self.draft, place, containers[0], words) if words[:1] == ["mpirun"] else words
        self._put_program(place, containers[0], program)

    def _put_deployment(self, root: ForeignValue, name: str = "") -> None:
        containers = self._containers(root, "Deployment")
        spec = root.child("spec")
        if spec is None or not containers:
            return
        place = self._put_overlay(name or self.use, "Deployment", spec.origin)
        if (replicas := spec.at("replicas")) and (count := replicas.whole(1, 1_000)):
            self.draft.put((*place, "replicas"), count, replicas.origin)
        numbers = [number for port in containers[0].items_at("ports") if (number := port.at("containerPort"))]
        for index, entry in enumerate(numbers[:10]):
            if port_number := entry.whole(1024, 65_535):
                name = "grpc" if port_number == 8500 else "http" if index == 0 else f"port-{index}"
                self.draft.put((*place, "ports", name, "port"), port_number, entry.origin)
                if name == "grpc":
                    self.draft.put((*place, "ports", name, "protocol"), "grpc", entry.origin)
        if not numbers:
            port = {"port": 8500, "protocol": "grpc"}
            self.draft.put((*place, "ports", "grpc"), port, "TensorFlow Serving's")
        self._put_pod_fields(place, spec.at("template", "spec"), containers[0])
        self._put_program(place, containers[0])

    def _deployment_of(self, template: ForeignValue, root: ForeignValue) -> ForeignValue | None:
        """Return the Deployment that a step of a Workflow makes, with the workflow's parameters filled in, or None."""
        manifest = template.at("resource", "manifest")
        text = (manifest.text() if manifest else None) or ""
        for parameter in root.items_at("spec", "arguments", "parameters"):
            filled = parameter.string("value")
            if "\n" not in filled:
                text = text.replace(f"{{{{workflow.parameters.{parameter.string('name')}}}}}", filled)
        # With these line breaks before it, each line of the block of text has its number in the file.
        above = manifest.problem("").line if manifest else 0
        document, problems = yamlio.load(b"\n" * above + text.encode(), template.source.document.name)
        if problems or not isinstance(document.data, dict) or document.data.get("kind") != "Deployment":
            return None
        return Source(document, self.draft.ledger, template.source.shown).root

    def _put_workflow(self, root: ForeignValue) -> None:
        """Put a Job for each container of a Workflow, and an overlay for each Deployment; report other templates."""
        overlays: dict[str, str] = {}
        for template in root.items_at("spec", "templates"):
            name = template.string("name") or "step"
            container = template.at("container")
            if container is None:
                if not isinstance(template.value, dict) or "steps" in template.value:
                    continue
                if (deployment := self._deployment_of(template, root)) is None:
                    template.leave(f"({show(name)}) is not carried over: a package makes its own objects")
                    continue
                for key in ("apiVersion", "kind"):
                    deployment.child(key)
                before = len(self.overlays)
                self._put_deployment(deployment, "serving")
                deployment.source.report_unread()
                template.done()
                if len(self.overlays) > before:
                    overlays[name] = self.overlays[-1]
                continue
            short = next((word for word in ("preprocess", "train", "accuracy") if word in name), name)
            place = self._put_overlay(short, "Job", template.origin)
            overlays[name] = self.overlays[-1]
            limit = template.at("retryStrategy", "limit")
            if limit and (retries := limit.whole(0, 100)) is not None:
                self.draft.put((*place, "retries"), retries, limit.origin)
            self._put_pod_fields(place, template, container)
            self._put_program(place, container)
        self._put_order(root, overlays)

    def _put_order(self, root: ForeignValue, overlays: dict[str, str]) -> None:
        """Put the overlays of a workflow in the order of its steps."""
        entrypoint = root.at("spec", "entrypoint")
        for template in root.items_at("spec", "templates"):
            name, steps = template.at("name"), template.at("steps")
            if steps is None or (entrypoint and name and name.value != entrypoint.value):
                continue
            ordered = [step for group in steps.items() for step in group.items()]
            for step in ordered:
                step.at("name")
            names = dict.fromkeys(step.string("template") for step in ordered)
            order = [overlays[name] for name in names if name in overlays]
            if len(order) > 1 and "sequence" not in self.draft.data:
                self.draft.put(("sequence",), order, steps.origin)
            elif len(order) > 1:
                message = "the order of its steps is not carried over: a package has one"
                root.note(message, f"run them so: {', '.join(order)}")


def _words(container: ForeignValue) -> list[str]:
    entries = (container.at(key) for key in ("command", "args"))
    return [word for entry in entries if entry for word in entry.words() or ()]
