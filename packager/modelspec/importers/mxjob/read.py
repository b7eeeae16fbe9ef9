"""Reads an MxJob or MXJob into a Draft: a JobSet in which ps-lite's processes find each other, or a worker's Job.

The forms are those of deepinsight/mxnet-operator (pkg/spec/mx_job.go) and of kubeflow/mxnet-operator and
kubeflow/training-operator up to v1.8.1 (pkg/apis/kubeflow.org/v1/mxnet_types.go, common_types.go).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.problems import Problem, show
from packager.modelspec.importers import container as containers
from packager.modelspec.importers.container import ForeignContainer, Given, escaped
from packager.modelspec.importers.draft import Draft, Sketch, named
from packager.modelspec.importers.images import put_image
from packager.modelspec.importers.mxjob.policies import put_policies
from packager.modelspec.importers.mxjob.roles import PORT, Replicas, mode_of, read_roles
from packager.modelspec.importers.source import (
    ForeignValue,
    Ledger,
    Source,
    ValueOrigin,
    decided,
    invalid,
    oversized,
    read_bytes,
    template,
)
from packager.workloads.jobset.rendezvous import RENDEZVOUS
from packager.workloads.program import references

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.yamlio import Document, Location

_KIND = "an MxJob"
_OLD = ("mlkube.io/v1beta1", "mxnet.mlkube.io/v1beta1", "kubeflow.org/v1alpha1")
_NEW = ("kubeflow.org/v1alpha2", "kubeflow.org/v1beta1", "kubeflow.org/v1")
_MADE_BY_THE_SERVER = ("name", "generateName", "creationTimestamp", "uid", "resourceVersion", "generation")
_COMPUTING_OPTIONS = ("shared-memory", "host-network")
_WAYS = {"dist": "dmlc", "tune": "none"}
_LABEL_ANNOTATION = "tuner-server-key"


def read(path: Path, name: str, image: str | None = None) -> Draft:
    """Return the draft of the MxJob in a file.

    Args:
        path: A YAML or JSON file with one or more manifests.
        name: The name of the file in messages.
        image: The image to use in place of the one in the file.

    Raises:
        SpecError: The file has no MxJob, or the job cannot run without a part that is not carried over.
    """
    text = read_bytes(path, name)
    documents, problems = yamlio.load_all(text, name)
    problems.extend(oversized(documents))
    if problems:
        raise invalid(name, _KIND, template(text, name, "Helm", "render it first: helm template") or problems)
    ledger = Ledger()
    document = _chosen(documents, name, ledger)
    source = Source(document, ledger, path.name)
    draft = _Import(source, Sketch(), image).draft()
    ledger.check(name, _KIND)
    source.report_unread()
    ledger.check(name, _KIND)
    return Draft(
        draft.data["name"],
        f"Imported from {_comment(path.name)} by `mlpack import mxjob`.",
        draft.data,
        draft.origins,
        (),
        tuple(ledger.findings),
        tuple(draft.options),
        tuple(draft.site.items()),
        name,
        _KIND,
    )


def _comment(text: str) -> str:
    return "".join(character if " " <= character <= "~" else "?" for character in text)


def _chosen(documents: list[Document], name: str, ledger: Ledger) -> Document:
    """Return the first MxJob of a file; add a finding for each other document."""
    filled = [document for document in documents if document.data is not None]
    jobs = [document for document in filled if _is_job(document.data)]
    if not jobs:
        shown = [_described(document.data) for document in filled] or ["an empty file"]
        message = f"expected an MxJob (apiVersion {_OLD[1]} or {_NEW[-1]}, for example), found {', '.join(shown[:5])}"
        problems = [filled[0].problem((), message)] if filled else [Problem(name, 1, 1, message)]
        raise invalid(name, _KIND, problems)
    for document in filled:
        if document is not jobs[0]:
            message = f"{_described(document.data)} is not carried over: one MxJob becomes one model"
            ledger.findings.append(document.problem((), message, hint="import each from a file of its own"))
    return jobs[0]


def _is_job(data: Any) -> bool:
    if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
        return False
    return (data.get("apiVersion") in _OLD and data["kind"] in ("MxJob", "MXJob")) or (
        data.get("apiVersion") in _NEW and data["kind"] == "MXJob"
    )


def _described(data: Any) -> str:
    if not isinstance(data, dict) or "kind" not in data:
        return "a document without a kind"
    return f"{show(data.get('kind'))} of {show(data.get('apiVersion'))}"


class _Import:
    """The import of one document."""

    def __init__(self, source: Source, sketch: Sketch, image: str | None) -> None:
        self.source = source
        self.sketch = sketch
        self.image = image
        self.ledger = source.ledger
        root = source.root
        root.child("kind")
        version = root.child("apiVersion")
        self.is_old = version is not None and version.value in _OLD
        if status := root.child("status"):
            status.done()

    def draft(self) -> Sketch:
        """Fill in the sketch; problems and findings are in the ledger."""
        root = self.source.root
        self._names(root.child("metadata"))
        spec = root.at("spec")
        if spec is None:
            root.refuse("the key 'spec' is missing")
            return self.sketch
        replicas = read_roles(spec, self.sketch, is_old=self.is_old)
        mode = mode_of(spec, replicas, is_old=self.is_old)
        self._image(replicas)
        if mode and not self.ledger.problems:
            self._overlay(spec, mode, replicas)
            put_policies(self.sketch, spec, mode, replicas)
            self.sketch.put(("variants", 0, "mode"), "training", decided("what an MxJob does"))
        return self.sketch

    def _names(self, metadata: ForeignValue | None) -> None:
        original = None
        for key in ("name", "generateName"):
            entry = metadata.at(key) if metadata else None
            if entry and original is None:
                original = entry
        text = (original.text() if original else None) or ""
        if original is None or not text:
            (metadata or self.source.root).refuse("the name is missing", "set metadata.name")
            text = "mxjob"
        # <name>-training-dist-tunertracker-0-999-abcde has to be a DNS label.
        naming = named(text, prefix="mxjob", longest=24)
        origin = original.origin if original else decided("no name")
        self.sketch.put(("name",), naming.name, origin)
        if original and naming.changes:
            original.leave(f"{naming.changes}, found {show(text)}", "names are in lower case, and at most 24 long")
        title = _title(text) or naming.name
        self.sketch.put(("title",), title, origin)
        self.sketch.put(("framework",), "mxnet", decided("an MxJob is for MXNet"))
        for entry in metadata.children() if metadata else ():
            if entry.key == "namespace":
                entry.leave("is not in a package", "mlpack deploy -n NAMESPACE")
            elif entry.key not in _MADE_BY_THE_SERVER and entry.value:
                entry.leave()

    def _image(self, replicas: list[Replicas]) -> None:
        if self.image is not None:
            put_image(self.sketch, self.image, ValueOrigin("--image", "--image"), self.ledger)
            for one in replicas:
                if one.container.image:
                    one.container.image.leave("is replaced by --image")
            return
        images: dict[str, ForeignValue] = {}
        for one in replicas:
            if one.container.image is None:
                one.template.refuse("the container has no image", "--image REPOSITORY:TAG sets one")
            elif text := one.container.image.text():
                images.setdefault(text, one.container.image)
        entries = list(images.values())
        for other in entries[1:]:
            message = (
                f"expected the same image for each role, found {show(other.value)} beside {show(entries[0].value)}"
            )
            other.refuse(message, "put everything into one image, and name it with --image")
        if entries:
            put_image(self.sketch, str(entries[0].value), entries[0].origin, self.ledger)

    def _overlay(self, spec: ForeignValue, mode: str, replicas: list[Replicas]) -> None:
        place: Location = ("overlays", mode)
        spec_entry = spec.child("jobMode")
        origin = spec_entry.origin if spec_entry else decided("one worker alone" if mode == "local" else "the default")
        if mode != "local":
            for one in replicas:
                self.sketch.put((*place, "roles", one.role), {}, one.entry.origin)
        self._directory(place, replicas)
        self._gpus(place, mode, replicas)
        self._environments(mode, replicas)
        if mode == "local":
            self.sketch.put((*place, "kind"), "Job", origin)
            known = {*replicas[0].container.environment, *self.sketch.data.get("secrets", {})}
            self._program(place, replicas[0].container, known)
            self._resources(place, replicas[0].container)
            return
        self.sketch.put((*place, "kind"), "JobSet", origin)
        self.sketch.put((*place, "rendezvous"), _WAYS[mode], origin)
        leader = replicas[0]
        if mode == "dist" and leader.port.value != PORT:
            self.sketch.put((*place, "port"), leader.port.value, leader.port.origin)
        shared = self._shared(place, mode, replicas)
        for one in replicas:
            below: Location = (*place, "roles", one.role)
            self.sketch.put((*below, "replicas"), one.count.value, one.count.origin)
            if not shared:
                self._program(below, one.container, None)
            self._resources(below, one.container)
        if mode == "tune":
            self.sketch.put((*place, "success"), ["tuner"], decided("what the operator waited for"))
            self._tuning(place, replicas)

    def _directory(self, place: Location, replicas: list[Replicas]) -> None:
        """Put the working directory, if it is the same for all roles."""
        folders = {_value(one.container.directory) for one in replicas}
        for one in replicas:
            if (given := one.container.directory) is None:
                continue
            if len(folders) == 1:
                self.sketch.put((*place, "workdir"), given.value, given.origin)
            else:
                hint = "the image's own is used: set WORKDIR in the image"
                message = "workingDir is not carried over: the roles start in different folders"
                self.ledger.findings.append(given.origin.problem(message, hint))

    def _gpus(self, place: Location, mode: str, replicas: list[Replicas]) -> None:
        """Note the option for GPUs. A site has one number of GPUs for all pods: that of the last role with GPUs."""
        asked = [gpus for one in replicas for gpus in one.container.gpus]
        for gpus in asked:
            if (gpus.count, gpus.vendor) == (asked[-1].count, asked[-1].vendor):
                containers.gpu_option([gpus], self.sketch)
            else:
                gpus.entry.leave(f"becomes {asked[-1].count} of {asked[-1].vendor}: all pods with GPUs get the same")
        if mode in _WAYS:
            self._computing(place, mode, replicas, with_gpus=bool(asked))

    def _computing(self, place: Location, mode: str, replicas: list[Replicas], *, with_gpus: bool) -> None:
        """Put the key `gpu` of each role for which the JobSet's default differs from the imported job.

        The key decides about GPUs, shared memory and the node's network together. If some roles request GPUs, these
        roles get all three.
        """
        roles = RENDEZVOUS[_WAYS[mode]].computes
        options = {
            one.role: [option for option in one.container.options if option in _COMPUTING_OPTIONS] for one in replicas
        }
        needing = {one.role for one in replicas if (one.container.gpus if with_gpus else options[one.role])}
        if not needing:
            return
        for one in replicas:
            computes, needs = not roles or one.role in roles, one.role in needing
            if computes and not needs:
                reason = decided(f"it asks for no {'GPUs' if with_gpus else 'such options'}")
                self.sketch.put((*place, "roles", one.role, "gpu"), False, reason)
            elif needs and not computes:
                asking = one.container.gpus[0].entry if one.container.gpus else one.entry
                self.sketch.put((*place, "roles", one.role, "gpu"), True, asking.origin)
            if not needs and options[one.role]:
                message = f"{one.role} does not get the option {' or '.join(options[one.role])}"
                problem = one.entry.problem(message, "gpu: true of the role gives it, and GPUs", at_key=True)
                self.ledger.findings.append(problem)

    def _shared(self, place: Location, mode: str, replicas: list[Replicas]) -> bool:
        """Put the program into the overlay if all roles run the same; return whether they do."""
        first = replicas[0].container
        programs = [(_value(one.container.command), _value(one.container.args)) for one in replicas]
        known = {*self.sketch.data.get("overlays", {}).get(mode, {}).get("environment", {})}
        known |= {*self.sketch.data.get("secrets", {})}
        words = [word for part in programs[0] for word in part or ()]
        foreign = {name for word in words for name in references(word)} - known
        if any(program != programs[0] for program in programs) or foreign or programs[0] == (None, None):
            return programs == [(None, None)] * len(programs)
        self._program(place, first, None)
        return True

    def _program(self, place: Location, container: ForeignContainer, known: set[str] | None) -> None:
        """Put command and args, with references to variables not in `known` escaped; None if any variable may exist."""
        for key, given in (("command", container.command), ("args", container.args)):
            if given is not None:
                words = given.value if known is None else [escaped(word, known) for word in given.value]
                self.sketch.put((*place, key), words, given.origin)
        if "roles" in place and container.command is None and container.args is None:
            self.sketch.put((*place, "command"), [], decided("none: the image's own entrypoint"))

    def _resources(self, place: Location, container: ForeignContainer) -> None:
        for part, quantities in (("requests", container.requests), ("limits", container.limits)):
            for name, given in quantities.items():
                self.sketch.put((*place, "resources", part, name), given.value, given.origin)

    def _environments(self, mode: str, replicas: list[Replicas]) -> None:
        """Put the variables that all roles share into the overlay, and the others into their roles."""
        reserved = RENDEZVOUS["dmlc"].refused
        kept: dict[str, dict[str, Given]] = {}
        for one in replicas:
            kept[one.role] = {}
            for name, given in one.container.environment.items():
                secret = "another role reads it from a Secret" if name in self.sketch.data.get("secrets", {}) else None
                if reason := secret or reserved(name):
                    problem = given.origin.problem(f"{name} is not carried over: {reason}")
                    self.ledger.findings.append(problem)
                else:
                    kept[one.role][name] = given
        common = {
            name: given
            for name, given in kept[replicas[0].role].items()
            if all(name in kept[one.role] and kept[one.role][name].value == given.value for one in replicas)
        }
        place: Location = ("overlays", mode)
        mounted = self.sketch.data.get("environment", {})
        for name, given in common.items():
            if name not in mounted:
                self.sketch.put((*place, "environment", name), given.value, given.origin)
        for role, values in kept.items():
            for name, given in values.items():
                if name in mounted and given.value != mounted[name]:
                    message = f"{name} becomes {show(mounted[name])}, where the claim is mounted"
                    self.ledger.findings.append(given.origin.problem(message))
                elif name not in common and name not in mounted:
                    self.sketch.put((*place, "roles", role, "environment", name), given.value, given.origin)

    def _tuning(self, place: Location, replicas: list[Replicas]) -> None:
        """Put MX_CONFIG in the operator's format (pkg/controller.v1/mxnet/mxnet.go, genMXConfig)."""
        cluster = {
            one.role: [
                {"url": f"$(JOBSET_NAME)-{one.role}-0-{index}.$(JOBSET_NAME)", "port": one.port.value}
                for index in range(one.count.value)
            ]
            for one in replicas
        }
        labels = {}
        for one in replicas:
            annotations = one.template.at("metadata", "annotations")
            label = annotations.at(_LABEL_ANNOTATION) if annotations else None
            label = label or one.entry.child("label")
            labels[one.role] = (label.text() if label else "") or ""
        for one in replicas:
            config = {"cluster": cluster, "labels": labels, "task": {"type": one.role, "index": 0}}
            origin = decided("what the operator wrote for this role")
            text = json.dumps(config, separators=(",", ":"))
            self.sketch.put((*place, "roles", one.role, "environment", "MX_CONFIG"), text, origin)
            if one.count.value > 1:
                message = f"each of the {one.count.value} pods finds the index 0 in MX_CONFIG"
                hint = "its own index is in JOB_COMPLETION_INDEX"
                self.ledger.findings.append(one.count.origin.problem(message, hint))


def _value(given: Given | None) -> Any:
    return None if given is None else given.value


def _title(text: str) -> str:
    return "".join(character for character in text if character.isprintable())[:200].strip()
