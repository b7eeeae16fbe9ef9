"""Words the remedies of findings for the user of a job, who can fill in values but edit no manifest of the cluster.

What the user cannot do is named with the person who can: the developer of the definition, or an administrator.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.diagnosis.curves.points import measured
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.remedy import Action
from packager.service.jobs.logs import kept_lines
from packager.service.registry.description import FreeMapping, Group

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.kubernetes.remedy import Remedy
    from packager.service.registry.definitions import Definition
    from packager.service.store.models import StoredJob
    from packager.service.store.revisions import KeptLogs


_RESOURCES = "resources"

_ADMINISTRATOR = "ask an administrator of the cluster"

HINTS: Mapping[Action, str] = MappingProxyType(
    {
        Action.ADD_SECRET_KEY: "add {key} to the Secret {name}, or ask a developer of the definition to do so",
        Action.ASK_ABOUT_QUEUE: f"{_ADMINISTRATOR} about the queue {{queue}}",
        Action.ASK_ADMINISTRATOR: _ADMINISTRATOR,
        Action.CHANGE_FOR_POLICY: "the policy {policy} needs a change {in_source}: ask a developer of the definition",
        Action.CHANGE_FOR_WEBHOOK: "the policy {policy} needs a change {in_source}: ask a developer of the definition",
        Action.CHECK_RESULT: "check that the result is complete; {raise_memory}, or reduce the memory use",
        Action.CHOOSE_PRIORITY_CLASS: "correct the priority class {in_source}",
        Action.CHOOSE_QUEUE: f"{_ADMINISTRATOR} to create the queue of the project",
        Action.CHOOSE_RUNTIME_CLASS: "correct the runtime class {in_source}",
        Action.CORRECT_IMAGE: "correct {image}",
        Action.CORRECT_PLACEMENT: "correct the node selector and the tolerations {in_source}",
        Action.CORRECT_WORKLOAD: "correct the job {in_source}",
        Action.CREATE_OBJECT: "the {kind} {name} has to be created in the namespace of the project first",
        Action.CREATE_SERVICE_ACCOUNT: (
            f"the service account {{name}} is missing in the namespace of the project: {_ADMINISTRATOR} to create it"
        ),
        Action.EXPORT_FOLDER: "the folder must exist on the server and be exported to the nodes",
        Action.GET_PERMISSION: f"the server lacks the permission to {{verb}} {{resource}}: {_ADMINISTRATOR}",
        Action.GROW_CLUSTER: f"request less {{in_resources}}, or {_ADMINISTRATOR} for a larger group of nodes",
        Action.INSPECT_CLAIMS: f"{_ADMINISTRATOR} about the claims in the namespace of the project",
        Action.INSPECT_DEVICES: f"wait for room, or {_ADMINISTRATOR} about the devices of the nodes",
        Action.INSPECT_LABELS: f"correct the node selector {{in_source}}, or {_ADMINISTRATOR} about the nodes' labels",
        Action.INSPECT_MUTATIONS: f"{_ADMINISTRATOR}: a webhook or a policy has changed it",
        Action.INSPECT_NODES: f"{_ADMINISTRATOR} about this node",
        Action.INSPECT_OBJECT: f"{_ADMINISTRATOR} about {{object}}",
        Action.INSTALL_NFS_CLIENT: f"its node has no NFS client: {_ADMINISTRATOR} to install one on all nodes",
        Action.KEEP_LIMIT_RANGE: "stay within the limits of the namespace {in_resources}",
        Action.LOAD_IMAGE: "allow pulling {in_source} (imagePullPolicy), or load the image on the node",
        Action.LOG_IN_TO_REGISTRY: (
            f"the registry requires a login: {_ADMINISTRATOR} for an imagePullSecret in the namespace of the project"
        ),
        Action.LOOSEN_SPREAD: "wait for room, or allow an uneven spread {in_source}",
        Action.MEET_LEVEL: "the pods {in_source} must meet this level: ask a developer of the definition",
        Action.PUSH_IMAGE: "build and push it, or correct {image}",
        Action.RAISE_LIKELY_MEMORY: (
            "usually for exceeding its memory limit of {limit}: {raise_memory}, or reduce the memory use"
        ),
        Action.RAISE_MEMORY: "{raise_memory}, or reduce the memory use",
        Action.RAISE_MEMORY_OF_ROLE: ("the limit of each {role} is {limit}: {raise_memory}, or reduce the memory use"),
        Action.RAISE_STORAGE: "write less, or raise limits.ephemeral-storage (or the volume's sizeLimit) {in_source}",
        Action.REACH_NFS_SERVER: f"{_ADMINISTRATOR} whether the node can resolve and reach the server",
        Action.REACH_REGISTRY: "the node cannot reach the registry: check {image}",
        Action.RECREATE_NAMESPACE: f"{_ADMINISTRATOR} to create the namespace {{name}} again",
        Action.REMOVE_SIDECAR: (
            "remove that container {in_source}, or move it to initContainers with restartPolicy Always"
        ),
        Action.RENEW_KEY: f"{_ADMINISTRATOR} for a key that may read it, in the Secret that the pods read",
        Action.REPAIR_WEBHOOK: f"the webhook {{policy}} has to answer before anything is created: {_ADMINISTRATOR}",
        Action.REQUEST_LESS: "request less {in_resources}",
        Action.REQUEST_MORE: "request more of this resource {in_resources}",
        Action.RESUME_ROLLOUT: f"{_ADMINISTRATOR} to resume the rollout",
        Action.RUN_AGAIN: "run it again",
        Action.SET_REQUESTS: "set the resources that the quota counts {in_resources}",
        Action.SET_USER: "set a user other than 0 {in_source}",
        Action.START_CONTROLLER: f"{_ADMINISTRATOR} whether {{controller}} is running",
        Action.WAIT_FOR_PODS: "wait for running jobs to end, or request less {in_resources}",
        Action.WAIT_FOR_QUOTA: "wait for other jobs of the queue {queue} to end, or request less {in_resources}",
        Action.WAIT_FOR_REPLACEMENT: "wait: the job replaces the pod by itself",
        Action.WAIT_FOR_ROOM: "wait for room, or request less {in_resources}",
    }
)
"""The words for each action, with the values of the remedy, and those of the definition, in braces."""


def hint_for_user(remedy: Remedy, filled: Mapping[str, object], definition: Definition) -> str:
    """Return a remedy in words for the user of a job."""
    template = f"the template {definition.body.task_template_name}"
    names = {"in_source": f"in {template}", "image": f"the image in the definition or in {template}"}
    resources = _resources(filled, definition, names["in_source"])
    return HINTS[remedy.action].format_map({**names, **resources, **dict(remedy.values)})


def _resources(filled: Mapping[str, object], definition: Definition, source: str) -> dict[str, str]:
    """Return the words for the place of resource requests, and for raising the memory limit."""
    memory = mapping(filled.get(_RESOURCES)).get("memory")
    entry = definition.described.entries.get(_RESOURCES)
    if memory is not None:
        raised = f"raise resources.memory, which is {memory}"
    elif isinstance(entry, FreeMapping) or (isinstance(entry, Group) and "memory" in entry.entries):
        raised = "fill in resources.memory"
    else:
        raised = f"raise the memory limit {source}"
    return {"in_resources": source if entry is None else "in the value resources", "raise_memory": raised}


_MOST_LOGS = 4
_LONGEST = 400

_PREFIX = re.compile(r"\x1b\[[0-9;]*m|\[rank\d+\]: ?")
"""Colors, and the beginning of each line of a traceback in PyTorch 2."""

_TRACEBACK = "Traceback (most recent call last):"
_OF_LAUNCHER = "torch.distributed.elastic"
"""The beginning of the error that torchrun raises below the error of a program."""

_ERROR = re.compile(
    r"\w(Error|Exception)\b|\b(error|exception|fatal|panic|killed|aborted|cannot|failed|fault|out of memory|no such)\b",
    re.IGNORECASE,
)


def explaining(lines: Iterable[str]) -> tuple[int, str] | None:
    """Return the line of a log that explains why its program failed, after its rank; None if there is none.

    The ranks: 0 for the error of Python's last traceback, 1 for the last line with a word such as `error`, and 2 for
    the last line.
    """
    found: dict[int, str] = {}
    is_traceback = False
    for line in lines:
        text = _PREFIX.sub("", line.rstrip("\r\n").rpartition("\r")[2]).rstrip()
        if text.startswith(_TRACEBACK):
            is_traceback = True
        elif is_traceback and text and not text[0].isspace():
            is_traceback = False
            if not (text.startswith(_OF_LAUNCHER) and 0 in found):
                found[0] = text
        if text.strip() and measured(text) is None:
            found[2] = text.strip()
            if _ERROR.search(text):
                found[1] = text.strip()
    return next(((rank, found[rank][:_LONGEST]) for rank in sorted(found)), None)


def failure_line(logs: KeptLogs, job: StoredJob) -> str | None:
    """Return the line in the kept logs of a failed job that explains the failure; None if there is none."""
    failed = str(mapping(next(iter(listing(json.loads(job.findings))), None)).get("subject"))
    kept = sorted(logs.of_job(job.release), key=lambda log: (f"pod/{log.pod}" != failed, log.instance))
    found = (explaining(kept_lines(logs.content(log), tail=None, since=None)) for log in kept[:_MOST_LOGS])
    ranked = sorted(filter(None, found), key=lambda line: line[0])
    return ranked[0][1] if ranked else None
