"""Remedy: the fix for a finding, as a value that each reader gets in words. Tests: kubernetes/test_remedy.py."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from shlex import quote

_RAISE_MEMORY = "raise the memory limit in mlops.env, or reduce the memory use"
_MUTATIONS = "kubectl get mutatingwebhookconfigurations"


@unique
class Action(Enum):
    """Each action that fixes something, in words for the owner of a package, who edits its overlays and uses kubectl.

    The names in braces are the values that a remedy has with it.
    """

    ADD_SECRET_KEY = "add {key} to the Secret {name}: kubectl edit secret {name}"  # noqa: S105 - words
    ASK_ABOUT_QUEUE = "ask who administers the queue: kubectl describe localqueue {queue}"
    ASK_ADMINISTRATOR = "ask the cluster administrator"
    CHANGE_FOR_POLICY = (
        "change the overlay to meet it, or ask its owner: kubectl get validatingadmissionpolicy {policy} -o yaml"
    )
    CHANGE_FOR_WEBHOOK = "the policy {policy} denied this: change the overlay to meet it, or ask its owner"
    CHECK_RESULT = f"check that the result is complete; {_RAISE_MEMORY}"
    CHOOSE_PRIORITY_CLASS = "kubectl get priorityclasses lists the existing ones"
    CHOOSE_QUEUE = "kubectl get localqueues lists the existing ones: correct QUEUE in site.env"
    CHOOSE_RUNTIME_CLASS = "kubectl get runtimeclasses lists the existing ones"
    CORRECT_IMAGE = "correct REGISTRY in mlops.env"
    CORRECT_PLACEMENT = "correct nodeSelector and tolerations in placement.yaml (option placement)"
    CORRECT_WORKLOAD = "correct the job in the overlay, then deploy it with --replace"
    CREATE_OBJECT = "create the {kind} {name} in this namespace"
    CREATE_SERVICE_ACCOUNT = "kubectl create serviceaccount {name}"
    DELETE_RELABELLED_PODS = f"{_MUTATIONS}; delete such pods with kubectl"
    EXPORT_FOLDER = "the folder must exist on the server and be exported to the nodes"
    GET_PERMISSION = "this needs permission to {verb} {resource}: ask the cluster administrator"
    GROW_CLUSTER = "request less in the overlay's resources, or have a larger group of nodes made"
    INSPECT_CLAIMS = "kubectl describe persistentvolumeclaims"
    INSPECT_DEVICES = "wait for room; kubectl get resourceslices shows the devices of the nodes"
    INSPECT_LABELS = "kubectl get nodes --show-labels; kubectl describe nodes | grep Taints"
    INSPECT_MUTATIONS = _MUTATIONS
    INSPECT_NODES = "kubectl get nodes"
    INSPECT_OBJECT = "kubectl describe {object}"
    INSTALL_NFS_CLIENT = "its node has no NFS client: install one on all nodes, such as nfs-common"
    KEEP_LIMIT_RANGE = "kubectl get limitrange -o yaml shows what the namespace allows: keep the overlay within it"
    LOAD_IMAGE = "load it on the node, or allow pulling: imagePullPolicy in the overlay"
    LOG_IN_TO_REGISTRY = "the registry requires a login: add an imagePullSecret to the namespace's service account"
    LOOSEN_SPREAD = "wait for room, or set SPREAD_ELSE=ScheduleAnyway in site.env (option placement)"
    MEET_LEVEL = "use another namespace, or an overlay that meets the level"
    PUSH_IMAGE = "build and push it, or correct REGISTRY in mlops.env"
    RAISE_LIKELY_MEMORY = "usually for exceeding its memory limit of {limit}: raise it in mlops.env"
    RAISE_MEMORY = _RAISE_MEMORY
    RAISE_MEMORY_OF_ROLE = "the limit of each {role} is {limit}: raise it in mlops.env"
    RAISE_STORAGE = (
        "raise limits.ephemeral-storage (or the sizeLimit of that volume) in the overlay, "
        "or keep large files on another storage: mlpack configure --storage"
    )
    REACH_NFS_SERVER = "check that the node can resolve and reach the server (option nfs: NFS_SERVER in site.env)"
    REACH_REGISTRY = "the node cannot reach the registry: check REGISTRY in mlops.env"
    RECREATE_NAMESPACE = "wait until the namespace {name} is deleted and create it again, or use another one (-n)"
    REMOVE_SIDECAR = "remove that container, or move it to initContainers with restartPolicy Always"
    RENEW_KEY = "put a key that may read it into the Secret, with kubectl edit secret"
    REPAIR_WEBHOOK = (
        "the webhook {policy} has to answer before anything is created: ask who runs it (kubectl get pods -A)"
    )
    REQUEST_LESS = "request less in the overlay's resources"
    REQUEST_MORE = "request more of this resource in the overlay"
    RESUME_ROLLOUT = "kubectl rollout resume {object}"
    RUN_AGAIN = "deploy it again with --replace"
    SET_REQUESTS = "set what the quota counts in each container"
    SET_USER = "set a user other than 0 in the overlay's patch"
    START_CONTROLLER = "is {controller} running? kubectl get pods {pods}"
    WAIT_FOR_PODS = "wait for running pods to end, or request less"
    WAIT_FOR_QUOTA = (
        "wait for others to end, or request less in the overlay's resources; kubectl describe localqueue {queue}"
    )
    WAIT_FOR_REPLACEMENT = "wait: {object} replaces the pod by itself"
    WAIT_FOR_ROOM = (
        "wait for room, or request less in the overlay's resources; `kubectl describe nodes` shows what is taken"
    )


_PLAIN = ("pods",)
"""Values that are parts of a command line of our own, and not words of it."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """The fix for a finding: an action, and the values that belong to it, by name."""

    action: Action
    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, action: Action, **values: str) -> Remedy:
        """Return a remedy with its values."""
        return cls(action, tuple(sorted(values.items())))

    @property
    def hint(self) -> str:
        """The remedy in words for the owner; values in command lines are quoted for a shell."""
        values = {name: value if name in _PLAIN else quote(value) for name, value in self.values}
        return self.action.value.format_map(values)


RUN_AGAIN = Remedy(Action.RUN_AGAIN)
"""Run it again."""
