"""Snapshot -> Verdict: determines the phase of a workload and the reasons for it, as a pure function."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.diagnosis.obstacles import CRASH_LOOP, kept_running, lost_node, obstacles, without_held_by_group
from packager.diagnosis.past import LOST, VANISHED, Past, losses
from packager.diagnosis.queued import explained
from packager.kubernetes.manifest import Manifest, at, listing, mapping
from packager.kubernetes.objects import (
    container_statuses,
    is_being_deleted,
    moment,
    name,
    shown,
)
from packager.kubernetes.pods import broken, crashed, failure, killed_process, memory_limit, state
from packager.kubernetes.remedy import RUN_AGAIN, Action, Remedy
from packager.kubernetes.verdict import RETRIED, Finding, Phase, Verdict, grouped
from packager.workloads.structures import pods as pods_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.workloads.kinds import Workload


NOTICE = 30.0
"""Seconds in which a running operator notices the end of its objects; it usually takes less than one."""

REMOVAL = 60.0
"""Seconds beyond its grace period after which a deleted object should have disappeared."""

_NO_PAST = Past()


def diagnose(kind: Workload, snapshot: Snapshot, past: Past = _NO_PAST, *, patience: float = NOTICE) -> Verdict:
    """Return the verdict on a workload, whose operator may yet see its end within `patience` seconds."""
    ending = kind.ending(snapshot) or _unreported_end(kind, snapshot, past, patience)
    if ending is not None:
        return _ended(kind, snapshot, past, ending)
    own = [*kind.findings(snapshot), *changed_images(snapshot), *without_held_by_group(list(_pods(kind, snapshot)))]
    # A kubelet drops most of its many events, so the time of its next try may have passed.
    own = [
        replace(finding, next_try=None) if finding.next_try and finding.next_try < snapshot.now else finding
        for finding in explained(snapshot, own)
    ]
    findings = grouped([*_without_another_run(kind, snapshot, own), *_removal(snapshot, past)])
    lost = [] if kind.stops_its_pods(snapshot) else _losses(kind, snapshot, past)
    blocking = [finding for finding in findings if finding.blocks]
    findings = grouped([*findings, *_without_another_run(kind, snapshot, lost)])
    progress = kind.progress(snapshot) or _progress(snapshot.pods)
    if kind.is_serving(snapshot) and not is_being_deleted(snapshot.workload):
        return Verdict(Phase.SERVING, progress, findings)
    if blocking:
        return Verdict(Phase.STUCK, blocking[0].message, findings)
    if is_being_deleted(snapshot.workload):
        return Verdict(Phase.PENDING, "is being deleted", findings)
    return Verdict(Phase.RUNNING if kind.is_running(snapshot.pods) else Phase.PENDING, progress, findings)


def _unreported_end(kind: Workload, snapshot: Snapshot, past: Past, patience: float) -> Verdict | None:
    """Return the end that the workload's operator should have seen by now, and has not."""
    if (unreported_end := kind.unreported_end(snapshot)) is None:
        return None
    verdict, since = unreported_end
    seconds = (snapshot.now - since).total_seconds() if since else 0
    return verdict if max(seconds, past.unreported_end) >= patience else None


def _ended(kind: Workload, snapshot: Snapshot, past: Past, ending: Verdict) -> Verdict:
    lost = [] if kind.stops_its_pods(snapshot) else _losses(kind, snapshot, past)
    warnings = [*killed_children(snapshot), *kind.warnings(snapshot)]
    changed = changed_images(snapshot)
    if ending.phase is Phase.SUCCEEDED:
        lost = [finding for finding in lost if finding.reason != VANISHED]
        if not lost:
            notes = [*ending.findings, *warnings]
            notes = [replace(note, remedy=None) if note.remedy == RUN_AGAIN else note for note in notes]
            return replace(ending, findings=grouped([*notes, *changed]))
        # The main pod's program may end with 0 when workers go away under it; what they had yet to do is not done.
        message = "reported success, but workers were deleted while it was running"
        summary = message if lost[0].reason == LOST else _summary(snapshot, lost)
        return Verdict(Phase.FAILED, summary, grouped([*lost, *ending.findings, *warnings, *changed]))
    causes = [*lost, *ending.findings]
    reported = {finding.subject for finding in (*causes, *warnings)}
    existing = {shown(pod) for pod in snapshot.pods}
    earlier = [finding for finding in past.failures if finding.subject not in existing]
    failures = [*kind.failures(snapshot), *earlier]
    unreported = [finding for finding in failures if finding.subject not in reported]
    summary = _summary(snapshot, lost) if lost else ending.summary
    if snapshot.namespace and is_being_deleted(snapshot.namespace):
        summary = f"its namespace {name(snapshot.namespace)} is being deleted"
    return Verdict(ending.phase, summary, grouped([*causes, *unreported, *warnings, *changed]))


def _without_another_run(kind: Workload, snapshot: Snapshot, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings; a pod that a controller replaces, or has replaced, is no reason to run the workload again."""
    newest = {shown(pod) for pod in kind.listed(snapshot.pods)}
    wait = Remedy.of(Action.WAIT_FOR_REPLACEMENT, object=shown(snapshot.workload))
    replaces_pods = kind.replaces_pods(snapshot)
    for finding in findings:
        if finding.remedy != RUN_AGAIN:
            yield finding
        elif finding.reason == RETRIED and finding.subject not in newest:
            yield replace(finding, remedy=None)
        else:
            yield replace(finding, remedy=wait) if replaces_pods else finding


def _losses(kind: Workload, snapshot: Snapshot, past: Past) -> list[Finding]:
    return losses(kind, snapshot) if past.losses is None else list(past.losses)


def _summary(snapshot: Snapshot, lost: Sequence[Finding]) -> str:
    """Return the first loss as the reason of an end, with the name of its pod in a workload of many."""
    first = grouped(lost)[0]
    return first.message if first.subject == shown(snapshot.workload) else str(first)


def _pods(kind: Workload, snapshot: Snapshot) -> Iterator[Finding]:
    main, workers = kind.main(snapshot.pods), kind.workers(snapshot.pods)
    own = template_containers(snapshot)
    for pod in snapshot.pods:
        if is_being_deleted(pod):
            yield from lost_node(pod, snapshot.nodes)
            continue
        pod_obstacles = list(obstacles(pod, snapshot.events, snapshot.nodes, own))
        if kind.is_superseded(pod, snapshot):
            pod_obstacles = [replace(finding, blocks=False) for finding in pod_obstacles]
        yield from pod_obstacles
        if any(finding.reason == CRASH_LOOP for finding in pod_obstacles):
            continue  # the obstacle says how the container last ended
        if pod is main and (finding := kept_running(pod)):
            yield finding
        elif finding := crashed(pod) or broken(pod) or (failure(pod) if pod in workers else None):
            if own and finding.container and finding.container not in own:
                finding = replace(finding, remedy=Remedy.of(Action.INSPECT_MUTATIONS))
            yield replace(finding, blocks=False)  # the main pod decides what becomes of the workload


def _removal(snapshot: Snapshot, past: Past) -> Iterator[Finding]:
    """Yield a finding on a workload that is deleted and does not disappear."""
    workload = snapshot.workload
    if not is_being_deleted(workload):
        return
    grace = workload["metadata"].get("deletionGracePeriodSeconds") or 0
    overdue = (snapshot.now - moment(workload["metadata"]["deletionTimestamp"])).total_seconds()
    if max(overdue, past.deletion_seconds - grace) < REMOVAL:
        return
    finalizers = workload["metadata"].get("finalizers")
    why = (
        f"waiting for its finalizers: {', '.join(finalizers)}"
        if finalizers
        else "the kubelet of its node has not confirmed that it has ended"
    )
    advice = Remedy.of(Action.INSPECT_OBJECT, object=shown(workload))
    yield Finding("NotGone", shown(workload), f"it was deleted but is still there: {why}", advice)


def _progress(pods: Sequence[Object]) -> str:
    counts = Counter(map(state, pods))
    listing = ", ".join(f"{count} {word.lower()}" for word, count in sorted(counts.items()))
    return f"pods: {listing}" if listing else "no pods yet"


def killed_children(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the pods in which a process was killed for its memory use although the container ended well."""
    for pod in snapshot.pods:
        for container in container_statuses(pod):
            terminated = container["state"].get("terminated") or {}
            # The runtime says OOMKilled of a container when the kernel has killed any of its processes.
            if terminated.get("reason") == "OOMKilled" and not terminated.get("exitCode"):
                where = f"container {container['name']}"
                limit = memory_limit(pod["spec"], container["name"])
                yield killed_process(shown(pod), where, limit, "the container")


_EDITED = re.compile(r"Container (\S+) definition changed")
"""The event of a kubelet about a container whose image was changed (pkg/kubelet/kuberuntime)."""


def changed_images(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield a finding for each container whose image is in no template for a container of that name."""
    images: dict[str, set[str]] = {}
    for spec in _templates(snapshot):
        for container, image in _images(spec):
            images.setdefault(container, set()).add(image)
    for pod in snapshot.pods:
        for container, image in _images(mapping(pod.get("spec"))):
            if image not in (expected := images.get(container, {image})):
                change = f"the image of container {container}: {' or '.join(sorted(expected))} -> {image}"
                is_edited = bool(_edited(snapshot, pod))
                message = f"a user has changed {change}" if is_edited else f"the cluster has changed {change}"
                remedy = None if is_edited else Remedy.of(Action.INSPECT_MUTATIONS)
                yield Finding("ImageChanged", shown(pod), message, remedy, blocks=False)
        if pod is snapshot.workload or shown(pod) == shown(snapshot.workload):  # its image is compared with itself
            for container in _edited(snapshot, pod):
                message = f"a user has changed the definition of container {container} since it was deployed"
                yield Finding("ImageChanged", shown(pod), message, blocks=False)


def _edited(snapshot: Snapshot, pod: Object) -> list[str]:
    """Return the containers that the kubelet starts again because a user has changed them in the pod."""
    texts = (_EDITED.search(str(event.get("message"))) for event in snapshot.about(pod, "Killing"))
    return list(dict.fromkeys(match[1] for match in texts if match))


def template_containers(snapshot: Snapshot) -> frozenset[str]:
    """Return the names of the containers in the templates of the workload's pods."""
    return frozenset(name for spec in _templates(snapshot) for name, _ in _images(spec))


def _templates(snapshot: Snapshot) -> list[Object]:
    specs = [dict(pods.spec) for pods in pods_of(Manifest(snapshot.workload))]
    return [*specs, *(dict(mapping(at(child, ("spec", "template", "spec")))) for child in snapshot.children)]


def _images(spec: Object) -> Iterator[tuple[str, str]]:
    for key in ("initContainers", "containers"):
        for container in map(mapping, listing(spec.get(key))):
            if container.get("image"):
                yield str(container.get("name")), str(container["image"])
