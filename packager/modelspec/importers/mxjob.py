"""Reads an MxJob or MXJob into a Draft: a JobSet in which ps-lite's processes find each other, or a worker's Job.

The forms are those of deepinsight/mxnet-operator (pkg/spec/mx_job.go) and of kubeflow/mxnet-operator and
kubeflow/training-operator up to v1.8.1 (pkg/apis/kubeflow.org/v1/mxnet_types.go, common_types.go).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from packager.base.problems import show
from packager.base.values import replace
from packager.modelspec.importers import jobs
from packager.modelspec.importers.draft import Draft
from packager.modelspec.importers.jobs import JobImport, Role
from packager.modelspec.importers.source import ForeignValue, Given, Source, decided, read_bytes
from packager.workloads.jobset.rendezvous import RENDEZVOUS

if TYPE_CHECKING:
    from pathlib import Path

_KIND = "an MxJob"
_OLD = ("mlkube.io/v1beta1", "mxnet.mlkube.io/v1beta1", "kubeflow.org/v1alpha1")
_NEW = ("kubeflow.org/v1alpha2", "kubeflow.org/v1beta1", "kubeflow.org/v1")
_PORT = 9091
_PORT_NAME = "mxjob-port"
_DEFAULT = decided("the operator's default")
_ROLES = {
    "dist": ("scheduler", "server", "worker"),
    "tune": ("tunertracker", "tunerserver", "tuner"),
    "local": ("worker",),
}
_SINGLE = {"dist": "scheduler", "local": "worker", "tune": "tunertracker"}
_WAYS = {"dist": "dmlc", "tune": "none"}
_MODES = {"": "", "local": "local", "dist": "dist", "MXTrain": "dist", "MXTune": "tune"}


def read(path: Path, name: str, image: str | None = None) -> Draft:
    """Return the draft of the first MxJob in a file; `image` replaces its image."""
    found = jobs.documents(read_bytes(path, name), name, _KIND)
    chosen = next((document for document in found if _is_job(document.data)), None)
    if chosen is None:
        message = f"expected an MxJob (apiVersion {_OLD[1]} or {_NEW[-1]}, for example)"
        raise jobs.expected(name, _KIND, message, found)
    draft = Draft(name, _KIND, "mxjob")
    for document in found:
        if document is not chosen:
            message = f"{jobs.described(document.data)} is not carried over: one MxJob becomes one model"
            draft.findings.append(document.problem((), message, hint="import each from a file of its own"))
    source = Source(chosen, draft, path.name)
    _put(draft, source.root, image)
    draft.check()
    source.report_unread(jobs.FIELDS, jobs.UNREAD)
    return draft


def _is_job(data: Any) -> bool:
    version, kind = (data.get("apiVersion"), data.get("kind")) if isinstance(data, dict) else (None, None)
    return (version in _OLD and kind in ("MxJob", "MXJob")) or (version in _NEW and kind == "MXJob")


def _put(draft: Draft, root: ForeignValue, image: str | None) -> None:
    is_old = root.string("apiVersion") in _OLD
    # <name>-training-dist-tunertracker-0-999-abcde has to be a DNS label.
    jobs.put_names(draft, root, "mxjob", 24, ("mxnet", "an MxJob is for MXNet"))
    spec = root.required("spec")
    if spec is None:
        return
    job = JobImport(draft, root, image, "")
    roles = _read_roles(job, spec, is_old=is_old)
    mode = _mode_of(spec, roles, is_old=is_old)
    if draft.problems or mode is None:
        return
    job.place = ("overlays", mode)
    entry = spec.child("jobMode")
    origin = entry.origin if entry else decided("one worker alone" if mode == "local" else "the default")
    job.put(("kind",), "Job" if mode == "local" else "JobSet", origin)
    holders = [holder for holder in (spec.at("runPolicy"), spec) if holder]
    if mode == "local":
        job.put_job(roles[0], holders, RENDEZVOUS["dmlc"].refused)
    else:
        job.put_set(_WAYS[mode], roles, origin, holders)
    if mode == "dist":
        if roles[0].port.value != _PORT:
            job.put(("port",), roles[0].port.value, roles[0].port.origin)
        message = "succeeds when all workers do; the operator waited for the scheduler"
        draft.findings.append(roles[0].entry.problem(message, at_key=True))
    if mode == "tune":
        job.put(("success",), ["tuner"], "what the operator waited for")
        _put_tuning(job, roles)
    draft.put(("variants", 0, "mode"), "training", "what an MxJob does")


def _read_roles(job: JobImport, spec: ForeignValue, *, is_old: bool) -> list[Role]:
    """Return the roles, in the order in which they are started; problems are in the draft."""
    key = "replicaSpecs" if is_old else "mxReplicaSpecs"
    listed = spec.required(key)
    known = (*_ROLES["dist"], *(() if is_old else _ROLES["tune"]))
    result: dict[str, Role] = {}
    for entry in () if listed is None else listed.items() if is_old else listed.children():
        if not entry.is_mapping():
            continue
        name = (entry.string("mxReplicaType") or "WORKER") if is_old else entry.key
        role = name.lower()
        count = entry.child("replicas")
        number = count.whole() if count else 1
        if role not in known:
            entry.refuse(f"unknown role {show(name)}", f"the roles are: {', '.join(known)}", at_key=True)
        elif role in result:
            entry.refuse(f"the role {role!r} occurs twice")
        elif read := job.read_role(
            role,
            entry,
            entry.at("template"),
            Given(number, count.origin if count else _DEFAULT) if number else None,
            "mxnet",
            _PORT_NAME,
            is_required=True,
        ):
            result[role] = replace(read, port=_port(read, is_old=is_old))
    return [result[role] for role in known if role in result]


def _port(role: Role, *, is_old: bool) -> Given:
    """Return the port on which a role listens: the old operator's `PsRootPort`, or the port named `mxjob-port`."""
    own = role.entry.child("PsRootPort") if is_old else None
    if own and role.name != "scheduler":
        own.leave("is not carried over: the scheduler's counts")
    elif own:
        return own.given(own.whole() or _PORT)
    return role.port if role.port.value and not is_old else Given(_PORT, _DEFAULT)


def _mode_of(spec: ForeignValue, roles: list[Role], *, is_old: bool) -> str | None:
    """Return the mode of the job: dist, local or tune; add a problem if it is invalid or the roles do not fit."""
    entry = spec.child("jobMode")
    text = entry.text() if entry else ""
    if text is None:
        return None
    names = [role.name for role in roles]
    if entry and text not in _MODES:
        entry.refuse(f"expected {'local or dist' if is_old else 'MXTrain or MXTune'}, found {show(text)}")
        return None
    mode = _MODES[text] or ("local" if is_old or names == ["worker"] else "dist")
    if not is_old and mode == "dist" and names == ["worker"] and roles[0].count.value == 1:
        mode = "local"
    needed = ", ".join(_ROLES[mode])
    for role in roles:
        if role.name not in _ROLES[mode]:
            role.entry.refuse(f"a job of this mode has no role {role.name!r}", f"it has: {needed}", at_key=True)
        elif role.name == _SINGLE[mode] and role.count.value != 1:
            (role.entry.child("replicas") or role.entry).refuse(f"expected 1 {role.name}, found {role.count.value}")
    missing = [role for role in _ROLES[mode] if role not in names]
    if missing and not spec.source.draft.problems:
        (entry or spec).refuse(f"the role {missing[0]!r} is missing", f"it needs: {needed}")
    return mode


def _put_tuning(job: JobImport, roles: list[Role]) -> None:
    """Put MX_CONFIG in the operator's format (pkg/controller.v1/mxnet/mxnet.go, genMXConfig)."""
    cluster = {
        role.name: [
            {"url": f"$(JOBSET_NAME)-{role.name}-0-{index}.$(JOBSET_NAME)", "port": role.port.value}
            for index in range(role.count.value)
        ]
        for role in roles
    }
    labels = {}
    for role in roles:
        key = role.template.string("metadata", "annotations", "tuner-server-key")
        labels[role.name] = key or role.entry.string("label")
    for role in roles:
        config = {"cluster": cluster, "labels": labels, "task": {"type": role.name, "index": 0}}
        text = json.dumps(config, separators=(",", ":"))
        job.put(("roles", role.name, "environment", "MX_CONFIG"), text, "what the operator wrote for this role")
        if role.count.value > 1:
            message = f"each of the {role.count.value} pods finds the index 0 in MX_CONFIG"
            job.draft.note(role.count.origin, message, "its own index is in JOB_COMPLETION_INDEX")
