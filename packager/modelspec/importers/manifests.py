"""Reads the Kubernetes manifests of a package of Intel's zoo: Pods, MPIJobs, Deployments, Argo's Workflows.

IntelAI/models, k8s/<use case>/<framework>/<model>/<mode>/<precision>/mlops/<use>/<storage>/.

Tests: modelspec/importers/test_zoo.py.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.problems import Problem, show
from packager.modelspec.importers import jobs, pods
from packager.modelspec.importers.draft import named
from packager.modelspec.importers.source import LOST, ForeignValue, Given, Ledger, Rule, Source, plain_path, read_bytes
from packager.package.layout import KUSTOMIZATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.yamlio import Location
    from packager.modelspec.importers.draft import Draft
    from packager.modelspec.importers.source import Rules

_STORAGES = ("user-mounted-nfs", "user-allocated-pvc")
_IDS = "mlpack configure --uid, --gid"
_STORAGE = "--with nfs, or --with pvc"
_MOST_FILES = 50
_POD_OF = {
    "Pod": ("spec",),
    "MPIJob": ("spec", "mpiReplicaSpecs", "Launcher", "template", "spec"),
    "Deployment": ("spec", "template", "spec"),
}
"""The location of the pod of each kind, in the order of preference for the package's image."""
_FIELDS: Rules = MappingProxyType(
    {
        **pods.FIELDS,
        "template": Rule(f"{LOST}: workers run the launcher's image"),
        "replicas": Rule(""),  # of the launcher
        "serviceAccountName": Rule(hint="--with service-account, if it needs one"),
        "securityContext": Rule(hint=_IDS),
        "volumes": Rule(hint=_STORAGE),
        "volumeMounts": Rule(hint=_STORAGE),
        **dict.fromkeys(("USER_ID", "GROUP_ID", "FS_ID", "USER_NAME", "GROUP_NAME"), Rule(hint=_IDS)),
        **dict.fromkeys(("LD_LIBRARY_PATH", "MODEL_DIR"), Rule(f"{LOST}: the image and the command have it")),
    }
)
_START = 'MODEL_DIR="$0" && export MODEL_DIR && cd "$0" && exec "$@"'
"""Starts a program in a folder of the image and sets MODEL_DIR to the folder; a spec has no keys for these."""


def image(folder: str, root: Path, shown: str) -> ForeignValue | None:
    """Return the image in a folder's manifests: that of a Pod or an MPIJob, else of a Deployment; None without any."""
    images: dict[str, ForeignValue] = {}
    for source in _sources(folder, root, shown, Ledger()):
        kind = source.root.string("kind")
        for container in source.root.items(*_POD_OF[kind], "containers")[:1] if kind in _POD_OF else ():
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
            draft.findings.append(Problem(f"{shown}{below}/{other}", 0, 0, message, _STORAGE))
        reader = _Use(draft, use)
        for source in _sources("/".join((below, *storages[:1])), root, shown, draft):
            reader.put(source)
        reader.finish()
    if "overlays" not in draft.data and not draft.problems:
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
    """The overlays of one use of a package, such as single-node."""

    def __init__(self, draft: Draft, use: str) -> None:
        self.draft = draft
        self.use = use
        self.variables: dict[str, Given] = {}
        self.model_dir: str | None = None
        self.overlays: list[str] = []

    def put(self, source: Source) -> None:
        """Carry over one manifest."""
        root = source.root
        kind = root.string("kind")
        if kind not in (*_POD_OF, "ConfigMap", "Workflow"):
            root.done()
            if kind == "Service":
                root.note("is not carried over: a Deployment has one", "--with expose opens it to the outside")
            else:
                root.note(f"({show(kind)}) is not carried over")
            return
        root.at("metadata", "name")
        if kind == "ConfigMap":
            self._put_config_map(root)
        elif kind == "Workflow":
            self._put_workflow(root)
        else:
            self._put_workload(root, kind)
        source.report_unread(_FIELDS)

    def finish(self) -> None:
        """Put the variables of the use into its overlays, and escape references to other variables."""
        for name in self.overlays:
            overlay = self.draft.data["overlays"][name]
            for key, given in self.variables.items():
                common = self.draft.data.get("environment", {})
                # Either all overlays of a package have the folder of checkpoints, or none.
                is_common = key == "CHECKPOINT_DIR" and common.get(key) in (None, given.value)
                if key not in overlay.get("environment", {}) and not (is_common and key in common):
                    self.draft.put_given((*(() if is_common else ("overlays", name)), "environment", key), given)
            known = {"REGISTRY", "IMAGE", "MODEL_DIR", "OUTPUT_DIR", "DATASET_DIR", "HOME"}
            known |= {*self.draft.data.get("environment", {}), *overlay.get("environment", {})}
            # $(MODEL_DIR) is another folder in a package.
            folder = "$(MODEL_DIR)" if self.model_dir is None else self.model_dir.replace("$(", "$$(")
            for holder in (overlay, overlay.get("init", {})):
                for key in holder.keys() & {"command", "args"}:
                    words = [word.replace("$(MODEL_DIR)", folder) for word in holder[key]]
                    holder[key] = [pods.escaped(word, known) for word in words]

    def _put_config_map(self, root: ForeignValue) -> None:
        data = root.at("data")
        self.model_dir = data.value.get("MODEL_DIR", self.model_dir) if data and data.is_mapping() else self.model_dir
        for entry in [entry for entry in data.below() if entry.key not in _FIELDS] if data else ():
            entry.done()
            text = entry.text() or ""
            if complaint := pods.complaint_about(entry.key, text):
                entry.leave(f"is not carried over: {complaint}")
                continue
            shortened = re.sub(rf":\$\{{?{re.escape(entry.key)}\}}?$", "", text)
            if shortened != text:
                entry.leave(f"loses ':${entry.key}', which nothing expands")
            self.variables[entry.key] = entry.given(shortened)
            if entry.key == "CHECKPOINT_DIR":
                hint = "--with checkpoint-pvc, checkpoint-nfs or checkpoint-host-path keeps its files"
                entry.leave("is a folder of the pod, deleted with it", hint)

    def _put_overlay(self, name: str, kind: str, entry: ForeignValue) -> Location:
        known = self.draft.data.get("overlays", {})
        short = named(name, prefix="use", longest=20)
        longer = named(f"{self.use}-{short}", prefix="use", longest=30)
        candidates = (short, longer, *(f"{longer}-{number}" for number in range(2, len(known) + 3)))
        overlay = next(candidate for candidate in candidates if candidate not in known)
        self.overlays.append(overlay)
        self.draft.put(("overlays", overlay, "kind"), kind, entry.origin)
        return ("overlays", overlay)

    def _put_workload(self, root: ForeignValue, kind: str, name: str = "") -> None:
        """Put an overlay for a Pod, an MPIJob or a Deployment."""
        containers = root.items(*_POD_OF[kind], "containers")
        spec, pod = root.child("spec"), root.at(*_POD_OF[kind])
        if not containers or spec is None or pod is None:
            root.refuse(f"expected {'.'.join((*_POD_OF[kind], 'containers'))}")
            return
        place = self._put_overlay(name or self.use, kind, spec)
        if kind == "MPIJob":
            self.draft.put_whole((*place, "workers"), spec.at("mpiReplicaSpecs", "Worker", "replicas"))
            self.draft.put_whole((*place, "slots_per_worker"), spec.at("slotsPerWorker"))
        elif kind == "Deployment":
            self.draft.put_whole((*place, "replicas"), spec.at("replicas"))
            self._put_ports(place, containers[0])
        self._put_pod(place, pod, containers[0])

    def _put_ports(self, place: Location, container: ForeignValue) -> None:
        numbers = [number for one in container.items("ports") if (number := one.at("containerPort"))]
        for index, entry in enumerate(numbers[:10]):
            if port := entry.whole():
                name = "grpc" if port == 8500 else "http" if index == 0 else f"port-{index}"
                self.draft.put((*place, "ports", name, "port"), port, entry.origin)
                if name == "grpc":
                    self.draft.put((*place, "ports", name, "protocol"), "grpc", entry.origin)
        if not numbers:
            self.draft.put((*place, "ports", "grpc"), {"port": 8500, "protocol": "grpc"}, "TensorFlow Serving's")

    def _put_pod(self, place: Location, pod: ForeignValue, container: ForeignValue) -> None:
        """Put the first init container, and the image, resources, variables and command of the main container.

        An init container runs the image of the main container, or is reported, as every other container is.
        """
        for other in pod.items("containers")[1:]:
            other.leave(pods.ONE_CONTAINER)
        main = pods.read_container(container, self.draft)
        text = container.string("image")
        for position, init in enumerate(pod.items("initContainers")):
            read = pods.read_container(init, self.draft) if position == 0 else pods.Container()
            if (
                read.words
                and text
                and init.string("image").removeprefix("docker.io/") == text.removeprefix("docker.io/")
            ):
                _read_sources(init)
                self.draft.put((*place, "init", "command"), _started(read, read.words), init.origin)
            else:
                init.leave(hint="do in the image, or in the command, what it prepares")
        own = self.draft.data.get("image", {})
        if main.image and text.removeprefix("docker.io/") not in ("", f"{own.get('name')}:{own.get('tag')}"):
            self.draft.put_image(text, main.image.origin, (*place, "image"))
        words = main.words
        if words[:1] == ["mpirun"] and self.draft.at((*place, "kind")) == "MPIJob":
            words = jobs.mpirun(self.draft, place, container, words)
        if words:
            self.draft.put((*place, "command"), _started(main, words), container.origin)
        elif main.directory:
            self.draft.lose(main.directory, "the program starts in the image's own folder")
        _read_sources(container)
        pods.put_gpus(self.draft, main.gpus)
        pods.put_resources(self.draft, place, main.resources)
        for key, given in main.environment.items():
            self.draft.put_given((*place, "environment", key), given)

    def _deployment_of(self, template: ForeignValue, root: ForeignValue) -> ForeignValue | None:
        """Return the Deployment that a step of a Workflow makes, with the workflow's parameters filled in, or None."""
        manifest = template.at("resource", "manifest")
        text = (manifest.text() if manifest else None) or ""
        for parameter in root.items("spec", "arguments", "parameters"):
            filled = parameter.string("value")
            if "\n" not in filled:
                text = text.replace(f"{{{{workflow.parameters.{parameter.string('name')}}}}}", filled)
        # With these line breaks before it, each line of the block of text has its number in the file.
        above = manifest.problem("").line if manifest else 0
        document, problems = yamlio.load(b"\n" * above + text.encode(), template.source.document.name)
        if problems or not isinstance(document.data, dict) or document.data.get("kind") != "Deployment":
            return None
        return Source(document, self.draft, template.source.shown).root

    def _put_workflow(self, root: ForeignValue) -> None:
        """Put a Job for each container of a Workflow, and an overlay for each Deployment; report other templates."""
        overlays: dict[str, str] = {}
        for template in root.items("spec", "templates"):
            name = template.string("name") or "step"
            container = template.at("container")
            before = len(self.overlays)
            if container is not None:
                short = next((word for word in ("preprocess", "train", "accuracy") if word in name), name)
                place = self._put_overlay(short, "Job", template)
                self.draft.put_whole((*place, "retries"), template.at("retryStrategy", "limit"))
                self._put_pod(place, template, container)
            elif not isinstance(template.value, dict) or "steps" in template.value:
                continue
            elif deployment := self._deployment_of(template, root):
                self._put_workload(deployment, "Deployment", "serving")
                deployment.source.report_unread(_FIELDS)
                template.done()
            else:
                template.leave(f"({show(name)}) is not carried over: a package makes its own objects")
            if len(self.overlays) > before:
                overlays[name] = self.overlays[-1]
        self._put_order(root, overlays)

    def _put_order(self, root: ForeignValue, overlays: dict[str, str]) -> None:
        """Put the overlays of a workflow in the order of its first template with steps, which names them."""
        root.at("spec", "entrypoint")
        for template in root.items("spec", "templates"):
            template.at("name")
            ordered = [step for group in template.items("steps") for step in group.items() if step.at("name")]
            names = dict.fromkeys(step.string("template") for step in ordered)
            order = [overlays[name] for name in names if name in overlays]
            if len(order) > 1 and "sequence" not in self.draft.data:
                self.draft.put(("sequence",), order, (template.at("steps") or template).origin)


def _read_sources(container: ForeignValue) -> None:
    """Mark what needs no report: the name of a container, and the use's ConfigMap."""
    container.at("name")
    for source in container.items("envFrom"):
        if source.at("configMapRef"):
            source.done()


def _started(container: pods.Container, words: list[str]) -> list[str]:
    """Return the words of a program, started in the folder of its container."""
    folder = container.directory
    return ["/bin/sh", "-c", _START, folder.value, *words] if folder else words
