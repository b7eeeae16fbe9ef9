"""Remedy: the fix for a finding, as a value that each reader gets in words. Tests: kubernetes/test_owner_hints.py."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Action(Enum):
    """Each action that fixes something. The names in brackets are the values that a remedy has with it."""

    ADD_SECRET_KEY = auto()
    """Add a key to a Secret (key, name)."""
    ASK_ABOUT_QUEUE = auto()
    """Ask who administers Kueue's queues (queue: the LocalQueue)."""
    ASK_ADMINISTRATOR = auto()
    """Ask an administrator of the cluster for the right that is missing."""
    CHANGE_FOR_POLICY = auto()
    """Change the objects so that a policy of the cluster accepts them (policy)."""
    CHANGE_FOR_WEBHOOK = auto()
    """Change the objects so that a webhook of the cluster accepts them (policy)."""
    CHECK_RESULT = auto()
    """Check whether the result is complete, and raise the memory limit: a process was killed for its memory use."""
    CHOOSE_PRIORITY_CLASS = auto()
    """Use a priority class that exists."""
    CHOOSE_QUEUE = auto()
    """Use a LocalQueue that exists in the namespace."""
    CHOOSE_RUNTIME_CLASS = auto()
    """Use a runtime class that exists."""
    CORRECT_IMAGE = auto()
    """Correct the name of the image."""
    CORRECT_PLACEMENT = auto()
    """Correct the node labels that the pods ask for, and the taints that they tolerate."""
    CORRECT_WORKLOAD = auto()
    """Correct the workload, which its operator rejects, and run it again."""
    CREATE_OBJECT = auto()
    """Create an object that is missing in the namespace (kind, name)."""
    CREATE_SERVICE_ACCOUNT = auto()
    """Create a service account in the namespace (name)."""
    DELETE_RELABELLED_PODS = auto()
    """Delete the pods that a webhook or a policy has taken from their controller, and change the policy."""
    EXPORT_FOLDER = auto()
    """Create the folder on the NFS server and export it to the nodes."""
    GET_PERMISSION = auto()
    """Ask an administrator of the cluster for a right (verb, resource)."""
    GROW_CLUSTER = auto()
    """Request less, or have a larger group of nodes made."""
    INSPECT_CLAIMS = auto()
    """Look at the claims of the namespace."""
    INSPECT_DEVICES = auto()
    """Look at the devices of the nodes (dynamic resource allocation)."""
    INSPECT_LABELS = auto()
    """Look at the labels and taints of the nodes."""
    INSPECT_MUTATIONS = auto()
    """Look at the changes that webhooks and policies make."""
    INSPECT_NODES = auto()
    """Look at the state of the nodes."""
    INSPECT_OBJECT = auto()
    """Look at the state of an object (object, as `pod/x`)."""
    INSTALL_NFS_CLIENT = auto()
    """Install an NFS client on the nodes."""
    KEEP_LIMIT_RANGE = auto()
    """Stay within the LimitRange of the namespace."""
    LOAD_IMAGE = auto()
    """Load the image on the node, or let it be pulled."""
    LOG_IN_TO_REGISTRY = auto()
    """Give the pods a password for the registry."""
    LOOSEN_SPREAD = auto()
    """Allow an uneven spread of the pods over nodes, or wait until a node has room."""
    MEET_LEVEL = auto()
    """Use another namespace, or pods that meet its Pod Security level."""
    PUSH_IMAGE = auto()
    """Build and push the image, or correct its name."""
    RAISE_LIKELY_MEMORY = auto()
    """Raise a memory limit that was most likely exceeded (limit)."""
    RAISE_MEMORY = auto()
    """Raise the memory limit, or reduce the memory use."""
    RAISE_MEMORY_OF_ROLE = auto()
    """Raise the memory limit of the pods of a role, which was most likely exceeded (role, limit)."""
    RAISE_STORAGE = auto()
    """Raise the limit of a pod's own files, or keep large files on a storage that outlives it."""
    REACH_NFS_SERVER = auto()
    """See that the node can reach the NFS server."""
    REACH_REGISTRY = auto()
    """See that the node can reach the registry, or correct its name."""
    RECREATE_NAMESPACE = auto()
    """Wait until the namespace is deleted and create it again, or use another one (name)."""
    REMOVE_SIDECAR = auto()
    """Remove a container that keeps the pod running, or make it a sidecar that ends with the pod."""
    RENEW_KEY = auto()
    """Give the pods a key with which they may read a source."""
    REPAIR_WEBHOOK = auto()
    """Repair a webhook that has to answer before anything is created (policy)."""
    REQUEST_LESS = auto()
    """Request less of a resource that a quota limits."""
    REQUEST_MORE = auto()
    """Request more of the resource that its node had too little of."""
    RESUME_ROLLOUT = auto()
    """Resume a paused rollout (object, as `deployment/x`)."""
    RUN_AGAIN = auto()
    """Run it again."""
    SET_REQUESTS = auto()
    """Set the resources that the quota of the namespace counts, in each container."""
    SET_USER = auto()
    """Run the container as a user other than root."""
    START_CONTROLLER = auto()
    """See that a controller of the cluster is running (controller, and pods: how kubectl finds its pods)."""
    WAIT_FOR_PODS = auto()
    """Wait until other pods have ended, or request less."""
    WAIT_FOR_QUOTA = auto()
    """Wait until other workloads have left the queue, or request less (queue: the LocalQueue)."""
    WAIT_FOR_REPLACEMENT = auto()
    """Wait: a controller replaces the pod by itself (object, as `job/x`)."""
    WAIT_FOR_ROOM = auto()
    """Wait until a node has room, or request less."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """The fix for a finding: an action, and the values that belong to it, by name."""

    action: Action
    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, action: Action, **values: str) -> Remedy:
        """Return a remedy with its values."""
        return cls(action, tuple(sorted(values.items())))


RUN_AGAIN = Remedy(Action.RUN_AGAIN)
"""Run it again."""
