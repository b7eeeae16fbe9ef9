"""Reads an MxJob or MXJob into a Draft: a JobSet in which ps-lite's processes find each other, or a worker's Job.

The forms are those of deepinsight/mxnet-operator (pkg/spec/mx_job.go) and of kubeflow/mxnet-operator and
kubeflow/training-operator up to v1.8.1 (pkg/apis/kubeflow.org/v1/mxnet_types.go, common_types.go).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from packager.base.problems import show
from packager.modelspec.importers import jobs, pods
from packager.modelspec.importers.draft import Draft
from packager.modelspec.importers.jobs import Role
from packager.modelspec.importers.source import ForeignValue, Given, Ledger, Source, decided, printable, read_bytes
from packager.workloads.jobset.rendezvous import RENDEZVOUS

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.yamlio import Location

_KIND = "an MxJob"
_OLD = ("mlkube.io/v1beta1", "mxnet.mlkube.io/v1beta1", "kubeflow.org/v1alpha1")
_NEW = ("kubeflow.org/v1alpha2", "kubeflow.org/v1beta1", "kubeflow.org/v1")
_PORT = 9091
_PORT_NAME = "mxjob-port"
_ROLES = {
    "dist": ("scheduler", "server", "worker"),
    "tune": ("tunertracker", "tunerserver", "tuner"),
    "local": ("worker",),
}
_SINGLE = {"dist": "scheduler", "local": "worker", "tune": "tunertracker"}
_WAYS = {"dist": "dmlc", "tune": "none"}
_MODES = {"": "", "local": "local", "dist": "dist", "MXTrain": "dist", "MXTune": "tune"}


def read(path: Path, name: str, image: str | None = None) -> Draft:
    """Return the draft of the first MxJob in a file; `image` replaces its image.

    Raises:
        SpecError: The file has no MxJob, or the job cannot run without a part that is not carried over.
    """
    found = jobs.documents(read_bytes(path, name), name, _KIND)
    chosen = next((document for document in found if _is_job(document.data)), None)
    if chosen is None:
        message = f"expected an MxJob (apiVersion {_OLD[1]} or {_NEW[-1]}, for example)"
        raise jobs.expected(name, _KIND, message, found)
    ledger = Ledger()
    for document in found:
        if document is not chosen:
            message = f"{jobs.described(document.data)} is not carried over: one MxJob becomes one model"
            ledger.findings.append(document.problem((), message, hint="import each from a file of its own"))
    source = Source(chosen, ledger, path.name)
    draft = Draft(name, _KIND, f"Imported from {printable(path.name)} by `mlpack import mxjob`.", ledger)
    _put(draft, source.root, image)
    ledger.check(name, _KIND)
    source.report_unread()
    return draft


def _is_job(data: Any) -> bool:
    version, kind = (data.get("apiVersion"), data.get("kind")) if isinstance(data, dict) else (None, None)
    return (version in _OLD and kind in ("MxJob", "MXJob")) or (version in _NEW and kind == "MXJob")


def _put(draft: Draft, root: ForeignValue, image: str | None) -> None:
    root.child("kind")
    is_old = root.string("apiVersion") in _OLD
    if status := root.child("status"):
        status.done()
    # <name>-training-dist-tunertracker-0-999-abcde has to be a DNS label.
    jobs.put_names(draft, root, "mxjob", 24, ("mxnet", "an MxJob is for MXNet"))
    spec = root.at("spec")
    if spec is None:
        root.refuse("the key 'spec' is missing")
        return
    roles = _read_roles(spec, draft, is_old=is_old)
    mode = _mode_of(spec, roles, is_old=is_old)
    place: Location = ("overlays", mode or "local")
    if draft.ledger.problems or mode is None:
        return
    entry = spec.child("jobMode")
    origin = entry.origin if entry else decided("one worker alone" if mode == "local" else "the default")
    draft.put((*place, "kind"), "Job" if mode == "local" else "JobSet", origin)
    for one in roles if mode != "local" else ():
        draft.put((*place, "roles", one.name), {}, one.entry.origin)
    jobs.put_images(draft, place, roles, image)
    jobs.put_directory(draft, place, roles)
    jobs.put_gpus(draft, place, _WAYS.get(mode), roles)
    jobs.put_environments(draft, place, roles, RENDEZVOUS["dmlc"].refused)
    if mode == "local":
        known = {*roles[0].container.environment, *draft.data.get("secrets", {})}
        jobs.put_program(draft, place, roles[0].container, known)
        pods.put_resources(draft, place, roles[0].container.resources)
    else:
        draft.put((*place, "rendezvous"), _WAYS[mode], origin)
        if mode == "dist" and roles[0].port.value != _PORT:
            draft.put((*place, "port"), roles[0].port.value, roles[0].port.origin)
        jobs.put_programs(draft, place, roles)
    if mode == "tune":
        draft.put((*place, "success"), ["tuner"], "what the operator waited for")
        _put_tuning(draft, place, roles)
    jobs.put_policies(draft, place, [holder for holder in (spec.at("runPolicy"), spec) if holder], roles)
    if mode == "dist":
        message = "succeeds when all workers do; the operator waited for the scheduler"
        draft.ledger.findings.append(roles[0].entry.problem(message, at_key=True))
    draft.put(("variants", 0, "mode"), "training", "what an MxJob does")


def _read_roles(spec: ForeignValue, draft: Draft, *, is_old: bool) -> list[Role]:
    """Return the roles, in the order in which they are started; problems are in the ledger."""
    key = "replicaSpecs" if is_old else "mxReplicaSpecs"
    listed = spec.child(key)
    if listed is None:
        spec.refuse(f"the key {key!r} is missing", "it lists the pods of each role")
        return []
    known = (*_ROLES["dist"], *(() if is_old else _ROLES["tune"]))
    result: dict[str, Role] = {}
    for entry in listed.items() if is_old else listed.children():
        if not entry.is_mapping():
            continue
        name = (entry.string("mxReplicaType") or "WORKER") if is_old else entry.key
        role = name.lower()
        count = entry.child("replicas")
        number = count.whole(1, 10_000) if count else 1
        template = entry.at("template")
        if role not in known:
            entry.refuse(f"unknown role {show(name)}", f"the roles are: {', '.join(known)}", at_key=True)
        elif role in result:
            entry.refuse(f"the role {role!r} occurs twice")
        elif template is None:
            entry.refuse("the key 'template' is missing", at_key=True)
        elif (container := pods.read(template, "mxnet", draft, (_PORT_NAME,))) and number:
            given = Given(number, count.origin if count else decided("the operator's default"))
            port = _port(role, entry, template, is_old=is_old)
            result[role] = Role(role, given, entry, template, container, port)
    return [result[role] for role in known if role in result]


def _port(role: str, entry: ForeignValue, template: ForeignValue, *, is_old: bool) -> Given:
    """Return the port on which a role listens: the old operator's `PsRootPort`, or the port named `mxjob-port`."""
    found = entry.child("PsRootPort") if is_old else jobs.port_of(template, (_PORT_NAME,))
    if found and is_old and role != "scheduler":
        found.leave("is not carried over: the scheduler's counts")
        found = None
    if found:
        return Given(found.whole(1, 65_535) or _PORT, found.origin)
    return Given(_PORT, decided("the operator's default"))


def _mode_of(spec: ForeignValue, roles: list[Role], *, is_old: bool) -> str | None:
    """Return the mode of the job: dist, local or tune; add a problem if it is invalid or the roles do not fit."""
    entry = spec.child("jobMode")
    text = entry.text() if entry else ""
    if text is None:
        return None
    names = [one.name for one in roles]
    if entry and text not in _MODES:
        entry.refuse(f"expected {'local or dist' if is_old else 'MXTrain or MXTune'}, found {show(text)}")
        return None
    mode = _MODES[text] or ("local" if is_old or names == ["worker"] else "dist")
    if not is_old and mode == "dist" and names == ["worker"] and roles[0].count.value == 1:
        mode = "local"
    needed = ", ".join(_ROLES[mode])
    for one in roles:
        if one.name not in _ROLES[mode]:
            one.entry.refuse(f"a job of this mode has no role {one.name!r}", f"it has: {needed}", at_key=True)
        elif one.name == _SINGLE[mode] and one.count.value != 1:
            (one.entry.child("replicas") or one.entry).refuse(f"expected 1 {one.name}, found {one.count.value}")
    missing = [role for role in _ROLES[mode] if role not in names]
    if missing and not spec.source.ledger.problems:
        (entry or spec).refuse(f"the role {missing[0]!r} is missing", f"it needs: {needed}")
    return mode


def _put_tuning(draft: Draft, place: Location, roles: list[Role]) -> None:
    """Put MX_CONFIG in the operator's format (pkg/controller.v1/mxnet/mxnet.go, genMXConfig)."""
    cluster = {
        one.name: [
            {"url": f"$(JOBSET_NAME)-{one.name}-0-{index}.$(JOBSET_NAME)", "port": one.port.value}
            for index in range(one.count.value)
        ]
        for one in roles
    }
    labels = {}
    for one in roles:
        annotations = one.template.at("metadata", "annotations")
        labels[one.name] = (annotations.string("tuner-server-key") if annotations else "") or one.entry.string("label")
    for one in roles:
        config = {"cluster": cluster, "labels": labels, "task": {"type": one.name, "index": 0}}
        variable: Location = (*place, "roles", one.name, "environment", "MX_CONFIG")
        draft.put(variable, json.dumps(config, separators=(",", ":")), "what the operator wrote for this role")
        if one.count.value > 1:
            message = f"each of the {one.count.value} pods finds the index 0 in MX_CONFIG"
            draft.note(one.count.origin, message, "its own index is in JOB_COMPLETION_INDEX")
