"""Determines an overlay's Pod Security level in each Kubernetes version, and the fields that prevent a stricter one.

Sources: the Pod Security Standards, and Kubernetes' pod-security-admission, policy/check_*.go (v1.37), which has the
version from which on each rule applies.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

from packager.base.problems import Problem
from packager.base.values import Value
from packager.kubernetes.manifest import at, dotted, listing, mapping, text
from packager.kubernetes.podsecurity import Level
from packager.package import layout
from packager.package.options import BY_NAME
from packager.rendering.origins import Position
from packager.verify import schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.yamlio import Location
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.changes import Original
    from packager.workloads.pods import Pods


_NEWEST = 1_000
"""A minor version above all that exist: for rules that never end."""


class Exceeded(Value, frozen=True):
    """A field that asks for more than a level allows."""

    level: Level  # the strictest level that allows the field
    manifest: str  # the manifest with the field
    field: str  # the path of the field
    reason: str  # the reason why a stricter level forbids the field
    place: Position  # the file, line and column of the field
    # the requested minor versions of Kubernetes in which a stricter level forbids the field
    versions: tuple[str, ...] = ()


LEVEL = "level"
"""The kind of the problems with fields that a Pod Security level forbids."""

_ADDABLE = frozenset(
    """
    AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT
    """.split()  # noqa: SIM905 - a column of quoted words reads worse
)
_SYSCTLS = {
    **dict.fromkeys(
        (
            "kernel.shm_rmid_forced",
            "net.ipv4.ip_local_port_range",
            "net.ipv4.ip_unprivileged_port_start",
            "net.ipv4.ping_group_range",
            "net.ipv4.tcp_syncookies",
        ),
        0,
    ),
    "net.ipv4.ip_local_reserved_ports": 27,
    "net.ipv4.tcp_fin_timeout": 29,
    "net.ipv4.tcp_keepalive_intvl": 29,
    "net.ipv4.tcp_keepalive_probes": 29,
    "net.ipv4.tcp_keepalive_time": 29,
    "net.ipv4.tcp_rmem": 32,
    "net.ipv4.tcp_wmem": 32,
    "net.ipv4.tcp_notsent_lowat": 37,
    "net.ipv4.tcp_slow_start_after_idle": 37,
}
"""The sysctls that "baseline" allows, each with the first minor version that allows it."""

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
_SELINUX = {None: 0, "": 0, "container_t": 0, "container_init_t": 0, "container_kvm_t": 0, "container_engine_t": 31}
"""The types of SELinux that "baseline" allows, each with the first minor version that allows it."""

_ENGINES = ("RuntimeDefault", "Localhost")
"""The profiles of seccomp and AppArmor that "baseline" allows."""

_HANDLERS = (
    *(("livenessProbe",), ("readinessProbe",), ("startupProbe",)),
    *(("lifecycle", "postStart"), ("lifecycle", "preStop")),
)

_HOSTS = 34
"""The first minor version in which probes and hooks must not name a host."""

_USER_NAMESPACES = 35
"""The first minor version in which pods in a user namespace of their own (`hostUsers: false`) may be root there."""


class _Reason(Value, frozen=True):
    """The reason why a field exceeds a level, and the minor versions of Kubernetes in which it does."""

    location: Location
    text: str
    since: int = 0
    until: int = _NEWEST


def capability_reason(name: object) -> str:
    """Return the reason why the capability `name` exceeds a level."""
    return f"the capability {name}"


def exceeded(overlay: RenderedOverlay, versions: Sequence[str] = ()) -> tuple[Exceeded, ...]:
    """Return every field that exceeds a stricter level in one of these versions, the most privileged first.

    Args:
        overlay: The overlay.
        versions: Minor versions of Kubernetes, such as 1.34; empty for all that there are schemas for.
    """
    asked = tuple(versions) or schema.versions()
    fields = [
        _exceeded(overlay, pods, needed, reason, asked)
        for pods in overlay.pods
        for needed, rules in ((Level.privileged, _beyond_baseline), (Level.baseline, _beyond_restricted))
        for reason in rules(pods)
    ]
    counting = dict.fromkeys(field for field in fields if field.versions)
    return tuple(sorted(counting, key=lambda field: (field.level != Level.privileged, field.place)))


def by_version(fields: Sequence[Exceeded], versions: Sequence[str]) -> dict[Level, list[str]]:
    """Return the levels that an overlay with these fields meets, each with its versions of Kubernetes."""
    levels: dict[Level, list[str]] = {}
    for version in versions:
        levels.setdefault(level([field for field in fields if version in field.versions]), []).append(version)
    return levels


def level(fields: Sequence[Exceeded]) -> Level:
    """Return the level that an overlay meets in every version if these fields exceed the stricter ones."""
    return max((field.level for field in fields), key=list(Level).index, default=Level.restricted)


def breaches(fields: tuple[Exceeded, ...], allowed: Level) -> Iterator[Problem]:
    """Yield a finding for every field that the level `allowed` forbids, with a hint to the fix."""
    order = list(Level)
    for field in fields:
        if order.index(field.level) > order.index(allowed):
            message = f'{field.manifest}: {field.field}: {field.reason}, which Pod Security "{allowed}" forbids'
            hint = f'"{field.level}" allows it: use such a namespace, or switch off the option that adds it'
            yield Problem(*field.place, message, hint).about(LEVEL)


def lowered(fields: Sequence[Exceeded], original: Original) -> tuple[Exceeded, ...]:
    """Return the fields that an edit has added; switching on an option of the package is an edit, too."""
    if not fields or not original.edits.paths:
        return ()
    own = {_identity(field) for field in (exceeded(original.sealed) if original.sealed else ())}
    return tuple(field for field in fields if _identity(field) not in own and not _is_of_option(field))


def _is_of_option(field: Exceeded) -> bool:
    """Whether a field is a capability that a sealed component adds, which its option says that it needs."""
    folder = posixpath.dirname(posixpath.dirname(field.place.file))
    option = BY_NAME.get(posixpath.basename(folder))
    return (
        option is not None
        and field.reason in {capability_reason(name) for name in option.capabilities}
        and re.search(rf"(^|/){layout.common('[^/]+')}$", posixpath.dirname(folder)) is not None
    )


def weakened(fields: Sequence[Exceeded]) -> Iterator[Problem]:
    """Yield a finding for each field that an edit has added."""
    for field in fields:
        message = (
            f"{field.manifest}: {field.field}: {field.reason}, which the package did not ask for when it was sealed"
        )
        yield Problem(*field.place, message, f"--pod-security {field.level} accepts it")


def _identity(field: Exceeded) -> tuple[str, str, str, str]:
    return field.level, field.manifest, field.field, field.reason


def _exceeded(
    overlay: RenderedOverlay, pods: Pods, needed: Level, reason: _Reason, versions: Sequence[str]
) -> Exceeded:
    counting = tuple(version for version in versions if reason.since <= schema.minor_of(version) <= reason.until)
    text = reason.text
    if len(counting) < len(versions):
        text += f" (from Kubernetes 1.{reason.since} on)" if reason.since else f" (up to Kubernetes 1.{reason.until})"
    problem = overlay.problem(pods.manifest, reason.location, text)
    place = Position(problem.file, problem.line, problem.column)
    return Exceeded(needed, str(pods.manifest), dotted(reason.location), text, place, counting)


def _beyond_baseline(pods: Pods) -> Iterator[_Reason]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pods.spec.get(field) is True:
            yield _Reason((*pods.location, "spec", field), "shares the node's")
    for location, volume in pods.volumes():
        if "hostPath" in volume:
            yield _Reason((*location, "hostPath"), "a folder of the node")
    for location, context in contexts(pods):
        yield from _context_beyond_baseline(pods, location, context)
    for location, container in pods.containers():
        for index, port in enumerate(listing(container.get("ports"))):
            if mapping(port).get("hostPort"):
                yield _Reason((*location, "ports", index, "hostPort"), "a port of the node")
        yield from _hosts(location, container)
    yield from _old_annotations(pods)


def _hosts(location: Location, container: dict[str, Any]) -> Iterator[_Reason]:
    """Yield each host that a probe or a hook of a container names: the node sends the request, from its own network."""
    for handler in _HANDLERS:
        for action in ("httpGet", "tcpSocket"):
            place = (*handler, action, "host")
            if at(container, place):
                yield _Reason((*location, *place), "the node asks another host than the pod", since=_HOSTS)


def _old_annotations(pods: Pods) -> Iterator[_Reason]:
    for key, value in mapping(pods.metadata.get("annotations")).items():
        confined = str(value) in ("", "runtime/default") or str(value).startswith("localhost/")
        if key.startswith("container.apparmor.security.beta.kubernetes.io/") and not confined:
            yield _Reason((*pods.location, "metadata", "annotations", key), "AppArmor is off")


def _context_beyond_baseline(pods: Pods, location: Location, context: dict[str, Any]) -> Iterator[_Reason]:
    if context.get("privileged") is True:
        yield _Reason((*location, "privileged"), "has the node's own rights")
    if mapping(context.get("windowsOptions")).get("hostProcess") is True:
        yield _Reason((*location, "windowsOptions", "hostProcess"), "a process of the node")
    for index, name in enumerate(listing(mapping(context.get("capabilities")).get("add"))):
        if text(name) not in _ADDABLE:
            yield _Reason((*location, "capabilities", "add", index), capability_reason(name))
    for index, sysctl in enumerate(listing(context.get("sysctls"))):
        allowed_from = _SYSCTLS.get(text(mapping(sysctl).get("name")), _NEWEST + 1)
        if allowed_from:
            yield _Reason((*location, "sysctls", index), "not one of the safe sysctls", until=allowed_from - 1)
    yield from _unconfined(pods, location, context)


def _unconfined(pods: Pods, location: Location, context: dict[str, Any]) -> Iterator[_Reason]:
    for field, noun in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        if isinstance(context.get(field), dict) and context[field].get("type") not in _ENGINES:
            yield _Reason((*location, field, "type"), f"{noun} is off")
    if context.get("procMount") not in (None, "Default"):
        yield _Reason((*location, "procMount"), "shows all of /proc", until=_last_as_root(pods))
    options = mapping(context.get("seLinuxOptions"))
    allowed_from = _SELINUX.get(options.get("type"), _NEWEST + 1)
    if options.get("user") or options.get("role"):
        allowed_from = _NEWEST + 1
    if allowed_from:
        yield _Reason((*location, "seLinuxOptions"), "another SELinux label", until=allowed_from - 1)


def _last_as_root(pods: Pods) -> int:
    """Return the last minor version in which these pods must not be root, nor show all of /proc."""
    return _USER_NAMESPACES - 1 if pods.spec.get("hostUsers") is False else _NEWEST


def _beyond_restricted(pods: Pods) -> Iterator[_Reason]:
    last = _last_as_root(pods)
    for location, volume in pods.volumes():
        for kind in sorted(set(volume) - _VOLUMES - {"name", "hostPath"}):
            yield _Reason((*location, kind), "a volume of this kind")
    for location, container in pods.containers():
        context = mapping(container.get("securityContext"))
        yield from _container_beyond_restricted(pods, (*location, "securityContext"), context)
    for location, context in contexts(pods):
        if context.get("runAsUser") == 0 and context["runAsUser"] is not False:
            yield _Reason((*location, "runAsUser"), "root", until=last)
        if context.get("procMount") not in (None, "Default") and last < _NEWEST:
            yield _Reason((*location, "procMount"), "shows all of /proc", since=_USER_NAMESPACES)


def inherited(pods: Pods, location: Location, field: str) -> tuple[Location, Any]:
    """Return a field of a container's securityContext at `location`, or of its pod's, and where it is, or would be."""
    own, of_pod = at(pods.manifest.data, location), mapping(pods.spec.get("securityContext"))
    if field in of_pod and field not in mapping(own):
        return (*pods.location, "spec", "securityContext", field), of_pod[field]
    return (*location, field), mapping(own).get(field)


def _container_beyond_restricted(pods: Pods, here: Location, context: dict[str, Any]) -> Iterator[_Reason]:
    if context.get("allowPrivilegeEscalation") is not False:
        yield _Reason((*here, "allowPrivilegeEscalation"), "expected false")
    capabilities = mapping(context.get("capabilities"))
    if "ALL" not in listing(capabilities.get("drop")):
        yield _Reason((*here, "capabilities", "drop"), "expected ALL")
    for index, name in enumerate(listing(capabilities.get("add"))):
        if name != "NET_BIND_SERVICE" and text(name) in _ADDABLE:
            yield _Reason((*here, "capabilities", "add", index), capability_reason(name))
    place, seccomp = inherited(pods, here, "seccompProfile")
    if not isinstance(seccomp, dict):  # a type that is not allowed exceeds "baseline", too
        yield _Reason(place, "expected RuntimeDefault")
    place, is_not_root = inherited(pods, here, "runAsNonRoot")
    if is_not_root is not True:
        yield _Reason(place, "expected true", until=_last_as_root(pods))


def contexts(pods: Pods) -> Iterator[tuple[Location, dict[str, Any]]]:
    """Yield the securityContext of the pod and of each container, with its location."""
    here = (*pods.location, "spec", "securityContext")
    yield here, mapping(pods.spec.get("securityContext"))
    for location, container in pods.containers():
        yield (*location, "securityContext"), mapping(container.get("securityContext"))
