"""Compares a sent object with the server's answer, to find the changes made by admission; a pure function.

Additions by Kubernetes itself are left out: the default values of fields (k8s.io/kubernetes,
pkg/apis/*/v1/defaults.go) and the additions of its own admission plugins to every pod (plugin/pkg/admission:
serviceaccount, defaulttolerationseconds, priority). A webhook or a MutatingAdmissionPolicy that adds such a value
changes nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.cluster.differences import Difference, is_same, list_key, unwrapped
from packager.kubernetes.manifest import mapping
from packager.workloads.structures import structures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.kubernetes.objects import Object

_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    # pods
    "dnsPolicy": ("ClusterFirst",),
    "enableServiceLinks": (True,),
    "preemptionPolicy": ("PreemptLowerPriority",),
    "priority": (0,),
    "restartPolicy": ("Always", "OnFailure"),
    "schedulerName": ("default-scheduler",),
    "serviceAccount": ("default",),
    "serviceAccountName": ("default",),
    "terminationGracePeriodSeconds": (30,),
    # containers
    "failureThreshold": (3,),
    "path": ("/",),
    "periodSeconds": (10,),
    "procMount": ("Default",),
    "protocol": ("TCP",),
    "scheme": ("HTTP",),
    "service": ("",),
    "successThreshold": (1,),
    "terminationMessagePath": ("/dev/termination-log",),
    "terminationMessagePolicy": ("File",),
    "timeoutSeconds": (1,),
    # volumes
    "apiVersion": ("v1",),
    "defaultMode": (0o644,),
    "expirationSeconds": (3600,),
    "readOnly": (False,),
    "type": ("", "ClusterIP", "RollingUpdate"),
    "volumeMode": ("Filesystem",),
    # workloads
    "backoffLimit": (6,),
    "completionMode": ("NonIndexed", "Indexed"),
    "completions": (1,),
    "groupName": ("default",),
    "manualSelector": (False,),
    "maxSurge": ("25%",),
    "maxUnavailable": ("25%",),
    "parallelism": (1,),
    "podReplacementPolicy": ("TerminatingOrFailed", "Failed"),
    "progressDeadlineSeconds": (600,),
    "replicas": (1,),
    "restartStrategy": ("Recreate",),
    "revisionHistoryLimit": (10,),
    "startupPolicyOrder": ("AnyOrder",),
    "suspend": (False,),
    # JobSet's own webhook
    "enableDNSHostnames": (True,),
    "operator": ("All",),
    "publishNotReadyAddresses": (True,),
    # Services
    "internalTrafficPolicy": ("Cluster",),
    "sessionAffinity": ("None",),
}
"""The possible default values of a field, by its name, in any object."""

_GENERATED = frozenset(
    {
        "clusterIP",
        "clusterIPs",
        "ipFamilies",
        "ipFamilyPolicy",
        "nodePort",
        "selector",
        "storageClassName",
        "targetPort",
    }
)
"""Fields whose values Kubernetes generates."""

_MAPS = frozenset({"annotations", "data", "labels", "limits", "matchLabels", "nodeSelector", "requests"})
"""Fields whose keys users choose, so that no key has a default value."""

_OWN_NOTES = re.compile(
    r"kubernetes\.io/limit-ranger|deployment\.kubernetes\.io/revision|(batch\.kubernetes\.io/)?(controller-uid|job-name)"
)
"""Labels and annotations that Kubernetes itself adds."""

_TOKEN = "kube-api-access-"  # noqa: S105 - the beginning of a volume's name
"""The prefix of the name of the volume with a pod's token; the rest of the name is random."""

_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints for which Kubernetes adds a limited toleration to every pod."""

_NOTES = ("labels", "annotations", "finalizers", "ownerReferences")
_BESIDE = ("apiVersion", "kind", "metadata", "status")


def mutations(sent: Object, answer: Object) -> list[Difference]:
    """Return the changes made by admission, from the sent values to those that the server would store.

    Args:
        sent: The new object.
        answer: The server's answer to the object.
    """
    before, after = (
        {"metadata": _only(mapping(item.get("metadata")), _NOTES), **{k: item[k] for k in item if k not in _BESIDE}}
        for item in map(unwrapped, (sent, answer))
    )
    structure = structures().get(str(sent.get("kind")))
    defaults = structure.defaults if structure else {}
    return [
        difference
        for difference in _compare(before, after, "")
        if difference.before is not None
        or difference.path not in defaults
        or difference.after != defaults[difference.path]
    ]


def is_token(item: Any) -> bool:
    """Whether a volume or a mount contains the pod's service account token."""
    return str(mapping(item).get("name")).startswith(_TOKEN)


def _only(value: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value[key] for key in keys if value.get(key)}


def _compare(sent: Any, answer: Any, path: str) -> Iterator[Difference]:
    if isinstance(sent, dict) and isinstance(answer, dict):
        sent = _with_requests(sent, answer) if path.endswith(".resources") else sent
        for key in {**sent, **answer}:
            inner = f"{path}.{key}" if path else str(key)
            if key not in answer:
                yield from _added_or_removed(sent[key], inner, is_added=False)
            elif key in sent:
                yield from _compare(sent[key], answer[key], inner)
            elif not _is_own(path, key, answer):
                yield from _added_or_removed(answer[key], inner, is_added=True)
    elif isinstance(sent, list) and isinstance(answer, list):
        yield from _compare_lists(sent, answer, path)
    elif not is_same(sent, answer):
        yield Difference(path, sent, answer)


def _compare_lists(sent: list[Any], answer: list[Any], path: str) -> Iterator[Difference]:
    key = list_key(sent, answer)
    if key is None and len(sent) == len(answer):
        for index, (before, after) in enumerate(zip(sent, answer, strict=True)):
            yield from _compare(before, after, f"{path}[{index}]")
    elif key is None:
        yield Difference(path, sent or None, answer or None)
    else:
        sent_items, answer_items = ({item[key]: item for item in items} for items in (sent, answer))
        for name in {**sent_items, **answer_items}:
            before, after = sent_items.get(name), answer_items.get(name)
            if before is not None and after is not None:
                yield from _compare(before, after, f"{path}[{name}]")
            elif not _is_own_item(after):
                yield _item_difference(f"{path}[{name}]", before, after)


def _added_or_removed(value: Any, path: str, *, is_added: bool) -> Iterator[Difference]:
    """Yield a difference for each field of a value that exists on one side only."""
    if isinstance(value, dict):
        yield from _compare({}, value, path) if is_added else _compare(value, {}, path)
    elif isinstance(value, list):
        yield from _compare_lists([], value, path) if is_added else _compare_lists(value, [], path)
    elif value not in (None, ""):
        yield Difference(path, *((None, value) if is_added else (value, None)))


def _item_difference(path: str, before: Any, after: Any) -> Difference:
    """Return the difference for a list's item that exists on one side only: its image, its value, or the whole."""
    item = mapping(before or after)
    if "image" in item:
        return Difference(path, *(side and f"image {side['image']}" for side in (before, after)))
    if item.keys() == {"name", "value"}:  # an environment variable, whose value may be secret
        return Difference(f"{path}.value", *(side and side["value"] for side in (before, after)))
    return Difference(path, before, after)


def _with_requests(sent: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return resources with those requests of the answer that Kubernetes derives from limits, which it does in pods."""
    limits, answered = mapping(sent.get("limits")), mapping(answer.get("requests"))
    derived = {name: limit for name, limit in limits.items() if name in answered}
    return {**sent, "requests": {**derived, **mapping(sent.get("requests"))}} if derived else dict(sent)


def _is_own(path: str, key: str, answer: Mapping[str, Any]) -> bool:
    """Whether Kubernetes itself adds the field `key` to the value at `path`."""
    holder = path.rpartition(".")[2]
    if holder in ("labels", "annotations") and _OWN_NOTES.fullmatch(key):
        return True
    if holder in _MAPS:
        return False
    if key == "imagePullPolicy":
        return bool(answer[key] == _pull_policy(str(answer.get("image"))))
    return key in _GENERATED or answer[key] in _DEFAULTS.get(key, ())


def _is_own_item(item: Any) -> bool:
    """Whether Kubernetes itself adds the item to a list of every pod."""
    return is_token(item) or mapping(item).get("key") in _TOLERATED


def _pull_policy(image: str) -> str:
    """Return the default pull policy of an image."""
    name, _, _digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if name == image and tag in ("", "latest") else "IfNotPresent"
