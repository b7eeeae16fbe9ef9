"""Reads the roles of an MxJob or MXJob, and the mode that they fit.

Tests: modelspec/importers/mxjob/test_read.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.problems import show
from packager.base.values import Value
from packager.modelspec.importers import container as containers
from packager.modelspec.importers.container import ForeignContainer, Given
from packager.modelspec.importers.source import ForeignValue, decided

if TYPE_CHECKING:
    from packager.modelspec.importers.draft import Sketch

PORT = 9091
"""The port on which the pods listen by default."""

_CONTAINER = "mxnet"
_PORT_NAME = "mxjob-port"
_DIST = ("scheduler", "server", "worker")
_TUNE = ("tunertracker", "tunerserver", "tuner")


class Replicas(Value, frozen=True):
    """The pods of one role.

    Attributes:
        role: The role, in lower case.
        count: The number of pods.
        entry: The role's entry.
        template: The role's pod template.
        container: The main container of the pods.
        port: The port on which the pods listen.
    """

    role: str
    count: Given
    entry: ForeignValue
    template: ForeignValue
    container: ForeignContainer
    port: Given


def read_roles(spec: ForeignValue, sketch: Sketch, *, is_old: bool) -> list[Replicas]:
    """Return the roles, in the order in which they are started; problems are in the ledger.

    Args:
        spec: The job's key `spec`.
        sketch: The draft, for the parts of the containers that become options.
        is_old: Whether the job is for the first operator.
    """
    key = "replicaSpecs" if is_old else "mxReplicaSpecs"
    listed = spec.child(key)
    if listed is None:
        spec.refuse(f"the key {key!r} is missing", "it lists the pods of each role")
        return []
    result: dict[str, Replicas] = {}
    for entry in listed.items() if is_old else listed.children():
        role = _role(entry, is_old=is_old)
        if role is None:
            continue
        if role in result:
            entry.refuse(f"the role {role!r} occurs twice")
            continue
        if made := _one(role, entry, sketch, is_old=is_old):
            result[role] = made
    order = (*_DIST, *_TUNE)
    return sorted(result.values(), key=lambda replicas: order.index(replicas.role))


def _role(entry: ForeignValue, *, is_old: bool) -> str | None:
    if not entry.is_mapping():
        return None
    text: str | None = entry.key
    if is_old:
        kind = entry.child("mxReplicaType")
        text = kind.text() if kind else "WORKER"
    role = (text or "").lower()
    expected = _DIST if is_old else (*_DIST, *_TUNE)
    if role in expected:
        return role
    entry.refuse(f"unknown role {show(text)}", f"the roles are: {', '.join(expected)}", at_key=True)
    return None


def _one(role: str, entry: ForeignValue, sketch: Sketch, *, is_old: bool) -> Replicas | None:
    count_entry = entry.child("replicas")
    count = count_entry.whole(1, 10_000) if count_entry else 1
    template = entry.at("template")
    if template is None:
        entry.refuse("the key 'template' is missing", at_key=True)
        return None
    read_container = containers.read(template, _CONTAINER, sketch, {_PORT_NAME})
    if read_container is None or count is None:
        return None
    count_origin = count_entry.origin if count_entry else decided("the operator's default")
    return Replicas(
        role, Given(count, count_origin), entry, template, read_container, _port(role, entry, template, is_old=is_old)
    )


def _port(role: str, entry: ForeignValue, template: ForeignValue, *, is_old: bool) -> Given:
    """Return the port on which a role listens: the old operator's `PsRootPort`, or the port named `mxjob-port`."""
    candidates: list[ForeignValue] = []
    if is_old:
        if port := entry.child("PsRootPort"):
            candidates.append(port)
            if role != "scheduler":
                port.leave("is not carried over: the scheduler's counts")
                candidates.clear()
    else:
        listed = template.at("spec", "containers")
        for item in listed.items() if listed else ():
            ports = item.child("ports") if isinstance(item.value, dict) else None
            for port in ports.items() if ports else ():
                name, number = port.at("name"), port.at("containerPort")
                if name and number and name.value == _PORT_NAME:
                    candidates.append(number)
    if candidates:
        number_value = candidates[0].whole(1, 65_535)
        return Given(number_value or PORT, candidates[0].origin)
    return Given(PORT, decided("the operator's default"))


def mode_of(spec: ForeignValue, replicas: list[Replicas], *, is_old: bool) -> str | None:
    """Return the mode of the job: dist, local or tune; add a problem if it is invalid or the roles do not fit."""
    entry = spec.child("jobMode")
    text = entry.text() if entry else ""
    if text is None:
        return None
    roles = [one.role for one in replicas]
    modes = {"": "", "local": "local", "dist": "dist", "MXTrain": "dist", "MXTune": "tune"}
    if text not in modes:
        assert entry is not None
        expected = "local or dist" if is_old else "MXTrain or MXTune"
        entry.refuse(f"expected {expected}, found {show(text)}")
        return None
    mode = modes[text] or ("local" if is_old or roles == ["worker"] else "dist")
    if not is_old and mode == "dist" and roles == ["worker"] and replicas[0].count.value == 1:
        mode = "local"
    needed = {"dist": _DIST, "tune": _TUNE, "local": ("worker",)}[mode]
    missing = [role for role in needed if role not in roles]
    extra = [one for one in replicas if one.role not in needed]
    for one in extra:
        one.entry.refuse(f"a job of this mode has no role {one.role!r}", f"it has: {', '.join(needed)}", at_key=True)
    if missing and not spec.source.ledger.problems:
        (entry or spec).refuse(f"the role {missing[0]!r} is missing", f"it needs: {', '.join(needed)}")
    single = {"dist": "scheduler", "local": "worker", "tune": "tunertracker"}[mode]
    for one in replicas:
        if one.role == single and one.count.value != 1:
            number = one.entry.child("replicas") or one.entry
            number.refuse(f"expected 1 {single}, found {one.count.value}")
    return mode
