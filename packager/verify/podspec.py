"""Finds values of a pod that the API server would refuse, or that prevent the pod from running.

Source: Kubernetes' pkg/apis/core/validation (v1.37), ValidatePodSpec and the functions that it calls.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base.names import LABEL, LABEL_LENGTH, SUBDOMAIN, SUBDOMAIN_LENGTH, VARIABLE
from packager.base.problems import show, similar
from packager.kubernetes.manifest import INT32, listing, mapping, out_of_range, text, tree, values_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay
    from packager.workloads.pods import Pods

# The path of a value below a pod's spec: `*` is each item of a list; `containers` includes init containers.
_CHOICES = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "preemptionPolicy": ("Never", "PreemptLowerPriority"),
    "securityContext.fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "securityContext.seccompProfile.type": ("RuntimeDefault", "Localhost", "Unconfined"),
    "containers.*.securityContext.seccompProfile.type": ("RuntimeDefault", "Localhost", "Unconfined"),
    "containers.*.imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "containers.*.terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    "containers.*.ports.*.protocol": ("TCP", "UDP", "SCTP"),
    "containers.*.volumeMounts.*.mountPropagation": ("None", "HostToContainer", "Bidirectional"),
    "volumes.*.hostPath.type": (
        "", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice",
    ),
    "tolerations.*.operator": ("Exists", "Equal", "Lt", "Gt"),
    "tolerations.*.effect": ("", "NoSchedule", "PreferNoSchedule", "NoExecute"),
    "topologySpreadConstraints.*.whenUnsatisfiable": ("ScheduleAnyway", "DoNotSchedule"),
}  # fmt: skip
_RANGES = {
    "terminationGracePeriodSeconds": (0, None),
    "activeDeadlineSeconds": (1, INT32),
    "priority": (-INT32 - 1, 1_000_000_000),
    "securityContext.supplementalGroups.*": (0, INT32),
    "containers.*.ports.*.containerPort": (1, 65_535),
    "containers.*.ports.*.hostPort": (0, 65_535),
    "volumes.*.configMap.defaultMode": (0, 0o777),
    "volumes.*.configMap.items.*.mode": (0, 0o777),
    "volumes.*.secret.defaultMode": (0, 0o777),
    "volumes.*.projected.defaultMode": (0, 0o777),
    "volumes.*.projected.sources.*.configMap.items.*.mode": (0, 0o777),
    "volumes.*.downwardAPI.defaultMode": (0, 0o777),
    "topologySpreadConstraints.*.maxSkew": (1, INT32),
    **{
        f"containers.*.{probe}Probe.{field}": (least, INT32)
        for probe in ("liveness", "readiness", "startup")
        for field, least in (
            ("initialDelaySeconds", 0),
            ("timeoutSeconds", 0),
            ("periodSeconds", 0),
            ("successThreshold", 0),
            ("failureThreshold", 0),
            ("terminationGracePeriodSeconds", 1),
        )
    },
}

_LABEL = re.compile(rf"(?=.{{1,{LABEL_LENGTH}}}$){LABEL}"), "at most 63 lower-case letters, digits and '-'"
_SUBDOMAIN = (
    re.compile(rf"(?=.{{1,{SUBDOMAIN_LENGTH}}}$){SUBDOMAIN}"),
    "the name of an object: lower-case letters, digits, '-' and '.'",
)
_RELATIVE_PATH = re.compile(r"(?!/)(?!(.*/)?\.\.(/|$)).*", re.DOTALL), "a path below the volume, without '..'"
_FORMS = {
    "hostname": _LABEL,
    "subdomain": _LABEL,
    "nodeName": _SUBDOMAIN,
    "serviceAccountName": _SUBDOMAIN,
    "priorityClassName": _SUBDOMAIN,
    "runtimeClassName": _SUBDOMAIN,
    "imagePullSecrets.*.name": _SUBDOMAIN,
    "containers.*.name": _LABEL,
    "volumes.*.name": _LABEL,
    "containers.*.env.*.name": (
        re.compile(rf"(?!\.$|\.\.){VARIABLE}"),
        "the name of a variable: letters, digits and '_'",
    ),
    "containers.*.ports.*.name": (
        re.compile(rf"(?=.{{1,15}}$)(?=.*[a-z])(?!.*--){LABEL}"),
        "at most 15 lower-case letters, digits and '-', with a letter among them",
    ),
    "containers.*.volumeMounts.*.subPath": _RELATIVE_PATH,
    "containers.*.volumeMounts.*.subPathExpr": _RELATIVE_PATH,
    "volumes.*.configMap.items.*.path": _RELATIVE_PATH,
    "volumes.*.secret.items.*.path": _RELATIVE_PATH,
    "volumes.*.downwardAPI.items.*.path": _RELATIVE_PATH,
    **{
        f"volumes.*.projected.sources.*.{kind}.items.*.path": _RELATIVE_PATH
        for kind in ("configMap", "secret", "downwardAPI")
    },
    "volumes.*.hostPath.path": (re.compile(r"(?!(.*/)?\.\.(/|$)).+", re.DOTALL), "a path without '..'"),
    "volumes.*.nfs.path": (re.compile(r"/(?!(.*/)?\.\.(/|$)).*", re.DOTALL), "an absolute path without '..'"),
    "volumes.*.nfs.server": (re.compile(r".+"), "a server"),
}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")


def check(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for every value of a pod that would be refused, or would prevent the pod from running."""
    for pods in overlay.pods:
        yield from _fields(overlay, pods)
        yield from _pod(overlay, pods)
        for location, container in pods.containers():
            yield from _container(overlay, pods, location, container)
        for location, volume in pods.volumes():
            kinds = [kind for kind in volume if kind != "name" and volume[kind] is not None]
            if len(kinds) > 1:
                yield overlay.problem(pods.manifest, location, f"a volume is of one kind, found {' and '.join(kinds)}")


def _fields(overlay: RenderedOverlay, pods: Pods) -> Iterator[Problem]:
    values: dict[str, list[tuple[Location, Any]]] = {}
    for path, location, value in values_at(pods.spec, _PATHS, (*pods.location, "spec")):
        values.setdefault(path, []).append((location, value))
    for path, choices in _CHOICES.items():
        for location, value in values.get(path, ()):
            if isinstance(value, str) and value not in choices:
                message = f"expected {', '.join(filter(None, choices[:-1]))} or {choices[-1]}, found {value!r}"
                yield overlay.problem(pods.manifest, location, message, similar(value, choices))
    for path, limits in _RANGES.items():
        for location, value in values.get(path, ()):
            yield from _number(overlay, pods.manifest, location, value, limits)
    for path, (form, words) in _FORMS.items():
        for location, value in values.get(path, ()):
            if isinstance(value, str) and not form.fullmatch(value):
                yield overlay.problem(pods.manifest, location, f"expected {words}, found {show(value)}")


def _number(
    overlay: RenderedOverlay, manifest: Manifest, location: Location, value: Any, limits: tuple[int, int | None]
) -> Iterator[Problem]:
    if message := out_of_range(value, limits):
        yield overlay.problem(manifest, location, message)


def _pod(overlay: RenderedOverlay, pods: Pods) -> Iterator[Problem]:
    here, spec = (*pods.location, "spec"), pods.spec
    if not listing(spec.get("containers")):
        yield overlay.problem(pods.manifest, (*here, "containers"), "expected at least one container")
    if spec.get("ephemeralContainers"):
        place = (*here, "ephemeralContainers")
        yield overlay.problem(pods.manifest, place, "a new pod cannot have them", "remove them", at_key=True)
    if spec.get("dnsPolicy") == "None" and not mapping(spec.get("dnsConfig")).get("nameservers"):
        message = "without nameservers in dnsConfig, no name would resolve"
        yield overlay.problem(pods.manifest, (*here, "dnsPolicy"), message)


def _container(overlay: RenderedOverlay, pods: Pods, here: Location, container: dict[str, Any]) -> Iterator[Problem]:
    for index, entry in enumerate(listing(container.get("env"))):
        variable, place = mapping(entry), (*here, "env", index)
        if variable.get("value") and variable.get("valueFrom"):
            yield overlay.problem(pods.manifest, place, "a variable has a value or a valueFrom, not both")
    for index, entry in enumerate(listing(container.get("volumeMounts"))):
        if mapping(entry).get("subPath") and mapping(entry).get("subPathExpr"):
            place = (*here, "volumeMounts", index)
            yield overlay.problem(pods.manifest, place, "a mount has a subPath or a subPathExpr, not both")
    yield from _ports(overlay, pods, here, container)
    never_ready = here[-2] == "initContainers" and container.get("restartPolicy") != "Always"
    for name in _PROBES:
        probe = container.get(name)
        if isinstance(probe, dict):
            handlers = [kind for kind in _HANDLERS if probe.get(kind) is not None]
            if len(handlers) != 1:
                message = f"expected one of {', '.join(_HANDLERS)}, found {' and '.join(handlers) or 'none'}"
                yield overlay.problem(pods.manifest, (*here, name), message)
            if never_ready:
                yield overlay.problem(pods.manifest, (*here, name), "an init container cannot have probes", at_key=True)


def _ports(overlay: RenderedOverlay, pods: Pods, here: Location, container: dict[str, Any]) -> Iterator[Problem]:
    names: set[str] = set()
    for index, entry in enumerate(listing(container.get("ports"))):
        port, place = mapping(entry), (*here, "ports", index)
        name, host_port, container_port = text(port.get("name")), port.get("hostPort"), port.get("containerPort")
        if name and name in names:
            yield overlay.problem(pods.manifest, (*place, "name"), f"duplicate port {name!r}")
        names.add(name)
        if pods.spec.get("hostNetwork") is True and host_port is not None and host_port != container_port:
            message = (
                f"expected {container_port}, the containerPort, found {host_port}: on the node's network they are one"
            )
            yield overlay.problem(pods.manifest, (*place, "hostPort"), message)


_PATHS = tree((*_CHOICES, *_RANGES, *_FORMS))
