"""Determines the Pod Security level of an overlay, and which fields prevent a stricter one.

From the Pod Security Standards, and Kubernetes' pod-security-admission, policy/check_*.go (v1.37).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.problems import Problem
from packager.kubernetes.manifest import dotted, listing, mapping, text
from packager.kubernetes.podsecurity import Level
from packager.rendering.origins import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location
    from packager.rendering.overlay import RenderedOverlay
    from packager.workloads.pods import Pods


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A field that asks for more than a level allows.

    Attributes:
        level: The lowest level that allows it.
        manifest: Whose field it is.
        field: Its path.
        reason: What it is, and what the level below wants.
        place: Where it is written.
    """

    level: Level
    manifest: str
    field: str
    reason: str
    place: Position


LEVEL = "level"
"""The kind of problems with fields that a Pod Security level forbids."""

_ADDABLE = frozenset(
    """
    AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT
    """.split()  # noqa: SIM905 - a column of quoted words reads worse
)
_SYSCTLS = frozenset(
    """
    kernel.shm_rmid_forced net.ipv4.ip_local_port_range net.ipv4.ip_unprivileged_port_start net.ipv4.tcp_syncookies
    net.ipv4.ping_group_range net.ipv4.ip_local_reserved_ports net.ipv4.tcp_keepalive_time
    net.ipv4.tcp_fin_timeout net.ipv4.tcp_keepalive_intvl net.ipv4.tcp_keepalive_probes
    """.split()  # noqa: SIM905
)
_VOLUMES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)
_SELINUX = (None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")

_Reason = tuple["Location", str]


def exceeded(overlay: RenderedOverlay) -> tuple[Exceeded, ...]:
    """Return every field that keeps the overlay from a stricter level, what needs most first."""
    fields = [
        _exceeded(overlay, pods, needed, location, reason)
        for pods in overlay.pods
        for needed, rules in ((Level.privileged, _beyond_baseline), (Level.baseline, _beyond_restricted))
        for location, reason in rules(pods)
    ]
    return tuple(sorted(dict.fromkeys(fields), key=lambda field: (field.level != Level.privileged, field.place)))


def level(fields: tuple[Exceeded, ...]) -> Level:
    """Return the level that is reached when these fields exceed the stricter ones."""
    return max((field.level for field in fields), key=list(Level).index, default=Level.restricted)


def breaches(fields: tuple[Exceeded, ...], allowed: Level) -> Iterator[Problem]:
    """Yield a finding for every field that the level `allowed` forbids, with the option that may go in its place."""
    order = list(Level)
    for field in fields:
        if order.index(field.level) > order.index(allowed):
            message = f'{field.manifest}: {field.field}: {field.reason}, which Pod Security "{allowed}" forbids'
            hint = f'"{field.level}" allows it: use such a namespace, or switch off the option that adds it'
            yield Problem(*field.place, message, hint).about(LEVEL)


def _exceeded(overlay: RenderedOverlay, pods: Pods, needed: Level, location: Location, reason: str) -> Exceeded:
    problem = overlay.problem(pods.manifest, location, reason)
    place = Position(problem.file, problem.line, problem.column)
    return Exceeded(needed, str(pods.manifest), dotted(location), reason, place)


def _beyond_baseline(pods: Pods) -> Iterator[_Reason]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pods.spec.get(field) is True:
            yield (*pods.location, "spec", field), "shares the node's"
    for location, volume in pods.volumes():
        if "hostPath" in volume:
            yield (*location, "hostPath"), "a folder of the node"
    for location, context in _contexts(pods):
        yield from _context_beyond_baseline(location, context)
    for location, container in pods.containers():
        for index, port in enumerate(listing(container.get("ports"))):
            if mapping(port).get("hostPort"):
                yield (*location, "ports", index, "hostPort"), "a port of the node"
    yield from _old_annotations(pods)


def _old_annotations(pods: Pods) -> Iterator[_Reason]:
    for key, value in mapping(pods.metadata.get("annotations")).items():
        confined = str(value) in ("", "runtime/default") or str(value).startswith("localhost/")
        if key.startswith("container.apparmor.security.beta.kubernetes.io/") and not confined:
            yield (*pods.location, "metadata", "annotations", key), "AppArmor is off"


def _context_beyond_baseline(location: Location, context: dict[str, Any]) -> Iterator[_Reason]:
    if context.get("privileged") is True:
        yield (*location, "privileged"), "has the node's own rights"
    if mapping(context.get("windowsOptions")).get("hostProcess") is True:
        yield (*location, "windowsOptions", "hostProcess"), "a process of the node"
    for index, name in enumerate(listing(mapping(context.get("capabilities")).get("add"))):
        if text(name) not in _ADDABLE:
            yield (*location, "capabilities", "add", index), f"the capability {name}"
    for index, sysctl in enumerate(listing(context.get("sysctls"))):
        if text(mapping(sysctl).get("name")) not in _SYSCTLS:
            yield (*location, "sysctls", index), "not one of the safe sysctls"
    yield from _unconfined(location, context)


def _unconfined(location: Location, context: dict[str, Any]) -> Iterator[_Reason]:
    if mapping(context.get("seccompProfile")).get("type") == "Unconfined":
        yield (*location, "seccompProfile", "type"), "seccomp is off"
    if mapping(context.get("appArmorProfile")).get("type") == "Unconfined":
        yield (*location, "appArmorProfile", "type"), "AppArmor is off"
    if context.get("procMount") not in (None, "Default"):
        yield (*location, "procMount"), "shows all of /proc"
    options = mapping(context.get("seLinuxOptions"))
    if options.get("type") not in _SELINUX or options.get("user") or options.get("role"):
        yield (*location, "seLinuxOptions"), "another SELinux label"


def _beyond_restricted(pods: Pods) -> Iterator[_Reason]:
    for location, volume in pods.volumes():
        for kind in sorted(set(volume) - _VOLUMES - {"name", "hostPath"}):
            yield (*location, kind), "a volume of this kind"
    for location, container in pods.containers():
        yield from _container_beyond_restricted(pods, (*location, "securityContext"), container)
    for location, context in _contexts(pods):
        if context.get("runAsUser") == 0 and context["runAsUser"] is not False:
            yield (*location, "runAsUser"), "root"


def _container_beyond_restricted(pods: Pods, here: Location, container: dict[str, Any]) -> Iterator[_Reason]:
    context, of_pod = mapping(container.get("securityContext")), mapping(pods.spec.get("securityContext"))
    whole = (*pods.location, "spec", "securityContext")
    capabilities = mapping(context.get("capabilities"))
    seccomp = context.get("seccompProfile", of_pod.get("seccompProfile"))
    if context.get("allowPrivilegeEscalation") is not False:
        yield (*here, "allowPrivilegeEscalation"), "expected false"
    if "ALL" not in listing(capabilities.get("drop")):
        yield (*here, "capabilities", "drop"), "expected ALL"
    for index, name in enumerate(listing(capabilities.get("add"))):
        if name != "NET_BIND_SERVICE" and text(name) in _ADDABLE:
            yield (*here, "capabilities", "add", index), f"the capability {name}"
    if context.get("runAsNonRoot", of_pod.get("runAsNonRoot")) is not True:
        place = whole if "runAsNonRoot" in of_pod and "runAsNonRoot" not in context else here
        yield (*place, "runAsNonRoot"), "expected true"
    if mapping(seccomp).get("type") not in ("RuntimeDefault", "Localhost", "Unconfined"):
        place = whole if "seccompProfile" in of_pod and "seccompProfile" not in context else here
        yield (*place, "seccompProfile"), "expected RuntimeDefault"


def _contexts(pods: Pods) -> Iterator[tuple[Location, dict[str, Any]]]:
    """Yield the securityContext of the pod and of each container, with its location."""
    here = (*pods.location, "spec", "securityContext")
    yield here, mapping(pods.spec.get("securityContext"))
    for location, container in pods.containers():
        yield (*location, "securityContext"), mapping(container.get("securityContext"))
