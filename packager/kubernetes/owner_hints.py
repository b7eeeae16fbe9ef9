"""Words the remedies of findings for the owner of a package, who can edit its overlays and use kubectl."""

from __future__ import annotations

from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.kubernetes.remedy import Action, Remedy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.kubernetes.remedy import Remedy

_RAISE_MEMORY = "raise the memory limit in mlops.env, or reduce the memory use"
_MUTATIONS = "mlpack doctor shows what the cluster changes; kubectl get mutatingwebhookconfigurations"

HINTS: Mapping[Action, str] = MappingProxyType(
    {
        Action.ADD_SECRET_KEY: "add {key} to the Secret {name}: kubectl edit secret {name}",
        Action.ASK_ABOUT_QUEUE: "ask who administers the queue: kubectl describe localqueue {queue}",
        Action.ASK_ADMINISTRATOR: "ask the cluster administrator",
        Action.CHANGE_FOR_POLICY: (
            "change the overlay to meet it, or ask its owner: kubectl get validatingadmissionpolicy {policy} -o yaml"
        ),
        Action.CHANGE_FOR_WEBHOOK: ("the policy {policy} denied this: change the overlay to meet it, or ask its owner"),
        Action.CHECK_RESULT: f"check that the result is complete; {_RAISE_MEMORY}",
        Action.CHOOSE_PRIORITY_CLASS: "kubectl get priorityclasses lists the existing ones",
        Action.CHOOSE_QUEUE: "kubectl get localqueues lists the existing ones: correct QUEUE in site.env",
        Action.CHOOSE_RUNTIME_CLASS: "kubectl get runtimeclasses lists the existing ones",
        Action.CORRECT_IMAGE: "correct REGISTRY in mlops.env",
        Action.CORRECT_PLACEMENT: "correct nodeSelector and tolerations in placement.yaml (option placement)",
        Action.CORRECT_WORKLOAD: "correct the job in the overlay, then deploy it with --replace",
        Action.CREATE_OBJECT: "create the {kind} {name} in this namespace",
        Action.CREATE_SERVICE_ACCOUNT: "kubectl create serviceaccount {name}",
        Action.DELETE_RELABELLED_PODS: f"{_MUTATIONS}; delete such pods with kubectl",
        Action.EXPORT_FOLDER: "the folder must exist on the server and be exported to the nodes",
        Action.GET_PERMISSION: "this needs permission to {verb} {resource}: ask the cluster administrator",
        Action.GROW_CLUSTER: "request less in the overlay's resources, or have a larger group of nodes made",
        Action.INSPECT_CLAIMS: "kubectl describe persistentvolumeclaims",
        Action.INSPECT_DEVICES: "wait for room; kubectl get resourceslices shows the devices of the nodes",
        Action.INSPECT_LABELS: "kubectl get nodes --show-labels; kubectl describe nodes | grep Taints",
        Action.INSPECT_MUTATIONS: _MUTATIONS,
        Action.INSPECT_NODES: "kubectl get nodes",
        Action.INSPECT_OBJECT: "kubectl describe {object}",
        Action.INSTALL_NFS_CLIENT: "its node has no NFS client: install one on all nodes, such as nfs-common",
        Action.KEEP_LIMIT_RANGE: (
            "kubectl get limitrange -o yaml shows what the namespace allows: keep the overlay within it"
        ),
        Action.LOAD_IMAGE: "load it on the node, or allow pulling: imagePullPolicy in the overlay",
        Action.LOG_IN_TO_REGISTRY: (
            "the registry requires a login: add an imagePullSecret to the namespace's service account"
        ),
        Action.LOOSEN_SPREAD: "wait for room, or set SPREAD_ELSE=ScheduleAnyway in site.env (option placement)",
        Action.MEET_LEVEL: "use another namespace, or an overlay that meets the level",
        Action.PUSH_IMAGE: "build and push it, or correct REGISTRY in mlops.env",
        Action.RAISE_LIKELY_MEMORY: "usually for exceeding its memory limit of {limit}: raise it in mlops.env",
        Action.RAISE_MEMORY: _RAISE_MEMORY,
        Action.RAISE_MEMORY_OF_ROLE: "the limit of each {role} is {limit}: raise it in mlops.env",
        Action.RAISE_STORAGE: (
            "raise limits.ephemeral-storage (or the sizeLimit of that volume) in the overlay, "
            "or keep large files on another storage: mlpack configure --storage"
        ),
        Action.REACH_NFS_SERVER: (
            "check that the node can resolve and reach the server (option nfs: NFS_SERVER in site.env)"
        ),
        Action.REACH_REGISTRY: "the node cannot reach the registry: check REGISTRY in mlops.env",
        Action.RECREATE_NAMESPACE: (
            "wait until the namespace {name} is deleted and create it again, or use another one (-n)"
        ),
        Action.REMOVE_SIDECAR: "remove that container, or move it to initContainers with restartPolicy Always",
        Action.RENEW_KEY: "put a key that may read it into the Secret, with kubectl edit secret",
        Action.REPAIR_WEBHOOK: (
            "the webhook {policy} has to answer before anything is created: ask who runs it (kubectl get pods -A)"
        ),
        Action.REQUEST_LESS: "request less in the overlay's resources",
        Action.REQUEST_MORE: "request more of this resource in the overlay",
        Action.RESUME_ROLLOUT: "kubectl rollout resume {object}",
        Action.RUN_AGAIN: "deploy it again with --replace",
        Action.SET_REQUESTS: "set what the quota counts in each container",
        Action.SET_USER: "set a user other than 0 in the overlay's patch",
        Action.START_CONTROLLER: "is {controller} running? kubectl get pods {pods}",
        Action.WAIT_FOR_PODS: "wait for running pods to end, or request less",
        Action.WAIT_FOR_QUOTA: (
            "wait for others to end, or request less in the overlay's resources; kubectl describe localqueue {queue}"
        ),
        Action.WAIT_FOR_REPLACEMENT: "wait: {object} replaces the pod by itself",
        Action.WAIT_FOR_ROOM: (
            "wait for room, or request less in the overlay's resources; `kubectl describe nodes` shows what is taken"
        ),
    }
)
"""The words for each action, with the values of the remedy in braces."""

_PLAIN = ("pods",)
"""Values that are parts of a command line of our own, and not words of it."""


def hint_for_owner(chosen: Remedy) -> str:
    """Return a remedy in words; values in command lines are quoted for a shell."""
    values = {name: value if name in _PLAIN else quote(value) for name, value in chosen.values}
    return HINTS[chosen.action].format_map(values)
