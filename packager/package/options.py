"""The options of a site: Kustomize components that travel in every package, switched off.

Each has a folder of its name below `quickstart/common/<framework>/k8s/mlops`, and a line in every overlay's list of
components. The values that they read are in one place, `site/site.env` beside these folders: a line of the form
`KEY=value` each. One without a usual value is commented out there, and kubectl then refuses to render the option that
reads it.

Tests: test_options.py.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

from packager.base.names import IMAGE as ANY_IMAGE
from packager.base.names import KEY, LABEL_VALUE, REGISTRY, SUBDOMAIN
from packager.base.problems import Fault
from packager.base.values import Value
from packager.kubernetes.podsecurity import Level

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


class Form(Value, frozen=True):
    """The form of a value: a pattern for all of it, and words that finish the sentence "expected …"."""

    pattern: str
    words: str


NAME = Form(SUBDOMAIN, "the name of an object in Kubernetes")
HOST = Form(rf"{SUBDOMAIN}|[0-9a-fA-F:]+", "a host's name or address")
SIZE = Form(r"[0-9]+(\.[0-9]+)?([kMGTPE]|[KMGTPE]i)?", "a quantity such as 10Gi")
COUNT = Form("[1-9][0-9]{0,3}", "a whole number from 1")
LABEL_KEY = Form(KEY, "a label's key")
DOMAIN = Form(SUBDOMAIN, "a domain such as model.team.example")
FOLDER = Form(
    r"/(?!.*(^|/)\.\.(/|$))[^:\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]*", "an absolute path without ':' and '..'"
)
PART = Form(
    r"(?!/)(?!(.*/)?\.\.(/|$))[^:\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]+",
    "a path below a folder, without ':' and '..'",
)
IMAGE = Form(ANY_IMAGE, "the name of an image")
PINNED = Form(
    rf"(?=[^@]*/){REGISTRY}@sha256:[0-9a-f]{{64}}",
    "HOST/REPOSITORY@sha256:…, as `mlpack push` prints it after oci://",
)
DEVICES = Form(r"[=^]{0,2}[A-Za-z0-9_.:-]+(,[A-Za-z0-9_.:-]+)*", "names of devices with ',' between them, such as mlx5")
NETWORK = Form(rf"({SUBDOMAIN}/)?{SUBDOMAIN}(,({SUBDOMAIN}/)?{SUBDOMAIN})*", "networks of Multus with ',' between them")
URL = Form(r"none|https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?", "http://… or https://…, or none")


def _choice(*words: str) -> Form:
    """Return the form of a value that is one of some words."""
    return Form("|".join(words), f"{', '.join(words[:-1])} or {words[-1]}")


class Key(Value, frozen=True):
    """A value that an option reads in `site.env`."""

    name: str  # the key
    description: str  # the purpose, as a sentence
    form: Form  # the form of its value
    example: str  # a valid value
    usual: bool = False  # whether the example is also the default value; otherwise the site has to set one
    only: str | None = None  # the trait without which a package does not need it

    def complaint(self, value: str) -> str | None:
        """Return the expected form and `value` if they differ; otherwise None."""
        return None if re.fullmatch(self.form.pattern, value) else f"expected {self.form.words}, found {value!r}"


class Option(Value, frozen=True):
    """One option."""

    name: str  # the name of its folder, and the value for `--with`
    summary: str  # the effect, in half a line
    keys: tuple[Key, ...] = ()  # the values that it reads in `site.env`
    level: Level = Level.restricted  # the Pod Security level that a workload reaches at best with it
    # the folders of the container that it gives a place: keys of `PLACES`. Each has one place only
    places: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()  # the keys of `mlops.env` that name folders outside of the container too
    needs: tuple[str, ...] = ()  # the options one of which it adds to
    only: str | None = None  # the trait without which a package does not have it: a key of `TRAITS`
    # the capabilities that it adds to main containers, which Pod Security knows at no other level
    capabilities: tuple[str, ...] = ()
    # the key with the name of a Secret of the namespace, whose keys become variables; None without one
    secret: str | None = None
    since: str | None = None  # the oldest minor version of Kubernetes that has the fields that it makes; None for any
    excludes: tuple[tuple[str, str], ...] = ()  # the options that contradict it, each with the reason


PLACES = {
    "output": "where results go",
    "dataset": "where the dataset is",
    "checkpoint": "where checkpoints go",
    "model": "where the package is",
}
"""The folders of a container that options of storage give a place, as the rest of a sentence."""

TRAITS = {
    "several": "it is for pods on several nodes that work together, and {} has none",
    "gang": "it is for pods that work together, all of them in one role, and {} has none",
    "jobset": "it is for a JobSet, and {} has none",
    "elastic": "it is for a JobSet whose nodes start torchrun, and {} has none",
    "ends": "it is for work that runs to its end, and {} serves until it is deleted",
    "serves": "it is for a workload that serves, and {} has none",
    "scales": "it is for a Deployment, and {} has none",
    "dataset": "it is for a dataset, and {} has none",
    "checkpoint": "it is for checkpoints, and {} has no CHECKPOINT_DIR",
    "assets": "it is for assets, and {} has none",
}
"""The traits of packages that some options require, with the message for a package without the trait."""

VARIABLES = {"dataset": "DATASET_DIR", "checkpoint": "CHECKPOINT_DIR"}
"""The key of `mlops.env` by which a package has a trait."""


_RESERVED_DOMAIN = "model.example.com"
"""A reserved domain (RFC 2606)."""

_FOLDERS = ("MODEL_DIR", "OUTPUT_DIR", "DATASET_DIR", "CHECKPOINT_DIR")

IMAGE_VOLUMES = "1.35"
"""The first minor version of Kubernetes whose pods mount images without a feature gate; it is no beta from 1.36 on."""

_PACKAGE_IMAGE = Key(
    "PACKAGE_IMAGE",
    "This package in a registry, by the digest that `mlpack push` prints.",
    PINNED,
    f"registry.example.com/team/model@sha256:{'0' * 64}",
)


def _folder(place: str, what: str, folder: str, only: str | None = None) -> Key:
    description = f"The folder of the volume for {what} of this package; . for the volume itself."
    return Key(f"{place.upper()}_FOLDER", description, PART, folder, usual=True, only=only)


PACKAGE_NAME = "PACKAGE"
"""Stands for the package's name in the usual value of a key."""

_OUTPUT_CLAIM = Key("OUTPUT_CLAIM", "The claim to mount at OUTPUT_DIR.", NAME, "results")
_DATASET_CLAIM = Key("DATASET_CLAIM", "The claim to mount at DATASET_DIR, read-only.", NAME, "dataset", only="dataset")
_CLAIM_SIZE = Key("CLAIM_SIZE", "The size that the claim requests.", SIZE, "10Gi", usual=True)
_CLAIM_CLASS = Key("CLAIM_CLASS", "Its storage class; `kubectl get storageclass` lists them.", NAME, "standard")
_CLAIM_ACCESS_MODE = Key(
    "CLAIM_ACCESS_MODE",
    "ReadWriteMany, unless all pods of the workload run on one node.",
    _choice("ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"),
    "ReadWriteMany",
    usual=True,
)
_CHECKPOINT_CLAIM = Key(
    "CHECKPOINT_CLAIM", "The claim to mount at CHECKPOINT_DIR.", NAME, "checkpoints", only="checkpoint"
)
_MODEL_CLAIM = Key("MODEL_CLAIM", "The claim with the files of this package, to mount at MODEL_DIR.", NAME, "model")

_BUCKET_CLAIM = Key("BUCKET_CLAIM", "With s3: the claim bound to the bucket's volume.", NAME, "bucket", usual=True)

_FOLDER_KEYS = {
    "output": _folder("output", "results", PACKAGE_NAME),
    "dataset": _folder("dataset", "the dataset", ".", "dataset"),
    "checkpoint": _folder("checkpoint", "checkpoints", PACKAGE_NAME, "checkpoint"),
}

VOLUME_FOLDERS = tuple(key.name for key in _FOLDER_KEYS.values())
"""The keys that name a folder of a volume. Packages up to 0.2.0 have none of them."""

CLAIMS = frozenset(key.name for key in (_OUTPUT_CLAIM, _DATASET_CLAIM, _CHECKPOINT_CLAIM, _MODEL_CLAIM, _BUCKET_CLAIM))
"""The keys of `site.env` that name a claim; each becomes a volume of its own."""


def _apart(place: str, what: str, claim: Key, only: str | None = None) -> tuple[Option, ...]:
    """Return the options that give one folder a place by itself; `what` is in that folder."""
    name = place.upper()
    example = f"/srv/{claim.example}"
    folder = (_FOLDER_KEYS[place],) if place in _FOLDER_KEYS else ()
    return (
        Option(
            f"{place}-host-path",
            f"{what} alone: a folder that exists on every node, at any path",
            (Key(f"{name}_HOST_PATH", f"The folder on the nodes, for {name}_DIR.", FOLDER, example), *folder),
            level=Level.privileged,
            places=(place,),
            only=only,
        ),
        Option(
            f"{place}-nfs",
            f"{what} alone: a folder on an NFS server, at any path",
            (
                Key(
                    f"{name}_NFS_SERVER", f"The server of {name}_DIR, as the nodes resolve it.", HOST, "nfs.example.com"
                ),
                Key(f"{name}_NFS_PATH", f"The folder on it, for {name}_DIR.", FOLDER, example),
                *folder,
            ),
            level=Level.baseline,
            places=(place,),
            only=only,
        ),
        Option(
            f"{place}-pvc", f"{what} alone: a persistent volume claim", (claim, *folder), places=(place,), only=only
        ),
    )


OPTIONS: tuple[Option, ...] = (
    Option(
        "scratch",
        "a scratch volume, as without any option, but with a size limit; results are deleted with the pod",
        (Key("SCRATCH_SIZE", "The most that a pod may write before it is evicted.", SIZE, "10Gi", usual=True),),
        places=("output",),
    ),
    Option(
        "host-path",
        "folders that exist on every node at the same paths, such as a share that all nodes mount",
        level=Level.privileged,
        places=("output", "dataset", "checkpoint", "model"),
        paths=_FOLDERS,
    ),
    Option(
        "nfs",
        "folders on an NFS server, with the same paths on the server and in the container",
        (Key("NFS_SERVER", "The server's name or address, as the nodes resolve it.", HOST, "nfs.example.com"),),
        level=Level.baseline,
        places=("output", "dataset", "checkpoint", "model"),
        paths=_FOLDERS,
    ),
    Option(
        "pvc",
        "persistent volume claims: one for results, one for the dataset",
        (
            *(_OUTPUT_CLAIM, _FOLDER_KEYS["output"]),
            *(_DATASET_CLAIM, _FOLDER_KEYS["dataset"]),
            *(_CHECKPOINT_CLAIM, _FOLDER_KEYS["checkpoint"]),
        ),
        places=("output", "dataset", "checkpoint"),
    ),
    *_apart("output", "results", _OUTPUT_CLAIM),
    *_apart("dataset", "the dataset", _DATASET_CLAIM, only="dataset"),
    *_apart("checkpoint", "checkpoints", _CHECKPOINT_CLAIM, only="checkpoint"),
    *_apart("model", "this package with its assets", _MODEL_CLAIM, only="assets"),
    Option(
        "package-volume",
        "this package from a registry as an image volume, in place of ConfigMaps with its code (Kubernetes 1.36)",
        (_PACKAGE_IMAGE,),
        places=("model",),
        since=IMAGE_VOLUMES,
    ),
    Option(
        "weights",
        "a model from an image, read-only, as an image volume (Kubernetes 1.36)",
        (
            Key("WEIGHTS_IMAGE", "The image, whose files are the model.", IMAGE, "registry.example.com/models/bert:1"),
            Key("WEIGHTS_DIR", "The folder at which the pods see them.", FOLDER, "/weights", usual=True),
        ),
        since=IMAGE_VOLUMES,
    ),
    Option(
        "pvc-create",
        "creates the claim for results; `delete` deletes it, and the results with it",
        (_CLAIM_SIZE, _CLAIM_CLASS, _CLAIM_ACCESS_MODE),
        needs=("pvc", "output-pvc"),
    ),
    Option(
        "rdma",
        "InfiniBand or RoCE for the pods that work together: devices, IPC_LOCK, variables of NCCL, a second network",
        (
            Key(
                "RDMA_RESOURCE",
                "The resource of the device plugin, as `kubectl describe node` shows it.",
                Form(rf"{SUBDOMAIN}/{LABEL_VALUE}", "a resource's name with its domain, such as rdma/ib"),
                "rdma/ib",
            ),
            Key("RDMA_COUNT", "The number of devices for each pod that computes.", COUNT, "1", usual=True),
            Key("RDMA_HCA", "NCCL_IB_HCA: the adapters that NCCL uses.", DEVICES, "mlx5", usual=True),
            Key(
                "RDMA_INTERFACE",
                "NCCL_SOCKET_IFNAME: the interface by which ranks find each other.",
                DEVICES,
                "eth0",
                usual=True,
            ),
            Key("RDMA_NETWORK", "The networks that Multus attaches, or none.", NETWORK, "none", usual=True),
        ),
        level=Level.privileged,
        capabilities=("IPC_LOCK",),
        only="several",
    ),
    Option("root", "allows user 0, with the capabilities that root usually has in a container", level=Level.baseline),
    Option(
        "gpu",
        "GPUs for each pod that computes; a launcher gets none",
        (
            Key("GPU_COUNT", "The number of GPUs for each pod that computes.", COUNT, "1", usual=True),
            Key(
                "GPU_VENDOR",
                "The resource name before the slash, as `kubectl describe node` shows it: amd.com, gpu.intel.com.",
                Form(SUBDOMAIN, "a domain such as nvidia.com"),
                "nvidia.com",
                usual=True,
            ),
            Key(
                "GPU_RESOURCE",
                "The resource name after the slash: gpu, a slice such as mig-1g.10gb, or xe and i915 of gpu.intel.com.",
                Form(LABEL_VALUE, "a resource's name without its vendor, such as gpu"),
                "gpu",
                usual=True,
            ),
        ),
    ),
    Option(
        "device-claim",
        "GPUs or other devices by DRA, for each pod that computes (Kubernetes 1.34)",
        (Key("DEVICE_CLAIM", "The ResourceClaimTemplate in the workload's namespace.", NAME, "gpus"),),
        since="1.34",
    ),
    Option(
        "queue",
        "Kueue starts the workload when its queue has free resources",
        (
            Key("QUEUE", "The LocalQueue in the workload's namespace.", NAME, "user-queue"),
            Key("QUEUE_PRIORITY", "The WorkloadPriorityClass; none: Kueue's default.", NAME, "none", usual=True),
            Key(
                "QUEUE_PLACING",
                "Whether all pods run in one domain of QUEUE_TOPOLOGY: required, preferred, or none.",
                _choice("none", "preferred", "required"),
                "none",
                usual=True,
            ),
            Key(
                "QUEUE_TOPOLOGY",
                "The node label of the domains, which is a level of the queue's Topology.",
                LABEL_KEY,
                "kubernetes.io/hostname",
                usual=True,
            ),
        ),
    ),
    Option(
        "gang",
        "all pods that compute start together, or none: by Volcano, coscheduling or KAI",
        (
            Key(
                "GANG",
                "The scheduler: volcano, coscheduling or kai.",
                _choice("volcano", "coscheduling", "kai"),
                "volcano",
            ),
            Key(
                "GANG_SCHEDULER", "Its schedulerName in the cluster, if it is not the usual.", NAME, "usual", usual=True
            ),
            Key(
                "GANG_QUEUE", "The queue of Volcano or KAI, which often has default-queue.", NAME, "default", usual=True
            ),
        ),
        only="gang",
    ),
    Option(
        "exclusive",
        "all pods of a role of a JobSet on one rack or block, which no other JobSet has",
        (
            Key(
                "EXCLUSIVE_TOPOLOGY",
                "The node label of racks or blocks, as `kubectl get nodes --show-labels` shows it.",
                LABEL_KEY,
                "topology.example.com/rack",
            ),
        ),
        only="jobset",
    ),
    Option(
        "elastic",
        "torchrun goes on with fewer nodes when one leaves, and takes in the node that replaces it",
        (
            Key("ELASTIC_MIN", "The number of nodes with which it works at least; NODES is the most.", COUNT, "1"),
            Key(
                "ELASTIC_RESTARTS",
                "How often each node starts its processes again, and how often a node that failed is made again.",
                COUNT,
                "3",
                usual=True,
            ),
        ),
        only="elastic",
        since="1.31",
        excludes=(("gang", "gang starts all pods or none, and elastic starts with ELASTIC_MIN of them"),),
    ),
    Option(
        "placement",
        "which nodes the pods run on, and how they are spread; see also placement/placement.yaml",
        (
            Key(
                "SPREAD_OVER",
                "The node label that pods are spread over: of hosts, zones or racks.",
                LABEL_KEY,
                "kubernetes.io/hostname",
                usual=True,
            ),
            Key(
                "SPREAD_ELSE",
                "What to do when an even spread is impossible: ScheduleAnyway, or DoNotSchedule to wait.",
                _choice("ScheduleAnyway", "DoNotSchedule"),
                "ScheduleAnyway",
                usual=True,
            ),
        ),
    ),
    Option(
        "pull-secret",
        "a secret for pulling the image",
        (Key("PULL_SECRET", "The secret, of type kubernetes.io/dockerconfigjson.", NAME, "registry"),),
    ),
    Option(
        "service-account",
        "a service account other than the namespace's default, with its token",
        (Key("SERVICE_ACCOUNT", "The service account.", NAME, "trainer"),),
    ),
    Option(
        "shared-memory",
        "a larger /dev/shm than the default of 64 MiB",
        (Key("SHM_SIZE", "Its size; the used part counts towards the memory limit.", SIZE, "1Gi", usual=True),),
    ),
    Option(
        "object-storage",
        "a bucket, read-only: by Mountpoint for S3 or GCS FUSE, or keys for the program's own client",
        (
            Key("BUCKET_DRIVER", "How pods see it: s3, gcs or client.", _choice("s3", "gcs", "client"), "s3"),
            _BUCKET_CLAIM,
            Key("BUCKET", "With gcs and client: the bucket.", NAME, "bucket", usual=True),
            Key("BUCKET_DIR", "The folder at which the pods see its files.", FOLDER, "/bucket", usual=True),
            Key("BUCKET_SECRET", "With client: the Secret with the keys.", NAME, "bucket-keys", usual=True),
        ),
        secret="BUCKET_SECRET",  # noqa: S106 - a key
    ),
    Option(
        "tracking",
        "where the program logs its numbers: MLflow, W&B or a folder for TensorBoard",
        (
            Key(
                "TRACKING",
                "The client: mlflow, wandb or tensorboard.",
                _choice("mlflow", "wandb", "tensorboard"),
                "mlflow",
            ),
            Key("TRACKING_URL", "The server; none for tensorboard.", URL, "https://mlflow.example.com"),
            Key("TRACKING_SECRET", "The Secret with its keys, or none.", NAME, "none", usual=True),
        ),
        secret="TRACKING_SECRET",  # noqa: S106 - a key
    ),
    Option(
        "expose",
        "takes requests from outside of the cluster: by a port of each node, a load balancer or an Ingress",
        (
            Key(
                "EXPOSE",
                "NodePort, LoadBalancer or Ingress.",
                _choice("NodePort", "LoadBalancer", "Ingress"),
                "NodePort",
                usual=True,
            ),
            Key("EXPOSE_HOST", "With Ingress: the domain at which it is asked.", DOMAIN, _RESERVED_DOMAIN, usual=True),
            Key("EXPOSE_CLASS", "With Ingress: one of `kubectl get ingressclass`.", NAME, "nginx", usual=True),
        ),
        only="serves",
    ),
    Option(
        "autoscale",
        "as many pods as their CPU use, or a metric of your own, asks for, by a HorizontalPodAutoscaler",
        (
            Key("AUTOSCALE_MIN", "How many pods there are at least.", COUNT, "2", usual=True),
            Key("AUTOSCALE_MAX", "How many pods there are at most.", COUNT, "10", usual=True),
            Key(
                "AUTOSCALE_CPU",
                "The share of its `requests.cpu`, in percent, that each pod uses on average.",
                Form("[1-9][0-9]?|100", "a whole number from 1 to 100"),
                "80",
                usual=True,
            ),
            Key(
                "AUTOSCALE_METRIC_KIND",
                "A metric beside it: Pods, External or none.",
                _choice("none", "Pods", "External"),
                "none",
                usual=True,
            ),
            Key(
                "AUTOSCALE_METRIC",
                "The name of that metric.",
                Form(r"[A-Za-z_][A-Za-z0-9_.:|-]*", "the name of a metric"),
                "requests_waiting",
                usual=True,
            ),
            Key(
                "AUTOSCALE_METRIC_VALUE",
                "Its average for each pod, as 10 or 500m.",
                Form(r"[1-9][0-9]{0,8}[mkMG]?", "a quantity such as 10 or 500m"),
                "10",
                usual=True,
            ),
        ),
        only="scales",
    ),
    Option(
        "gitops",
        "Flux and Argo CD run the work again when the package changes, and keep it when it has ended",
        only="ends",
    ),
    Option("host-network", "the node's network, for fabrics that pods cannot reach otherwise", level=Level.privileged),
)
"""Every option, in the order in which overlays list them."""

SECRETS = Option(
    "secrets",
    "environment variables whose values are in a Secret of the namespace",
    (Key("SECRET", "The Secret, in the namespace of the workload.", NAME, "model-secrets"),),
)
"""A component that is on in every package whose spec has secrets, and that no other package has."""

CLAIM = Option("claim", "the claim of the workspace", (_CLAIM_SIZE, _CLAIM_ACCESS_MODE))
"""The component that the overlay `workspace` consists of, in packages whose spec has a workspace."""

CLAIM_CLASS = Option("claim-class", "its storage class, in place of the cluster's default", (_CLAIM_CLASS,))
"""A component for the same overlay, which is on if CLAIM_CLASS is set."""

CLAIM_OPTIONS = ("output-pvc", "dataset-pvc")
"""The names of the options that a package contains, switched off, unless other ones are asked for."""

# The names of options that other modules treat by themselves.
PACKAGE_VOLUME = "package-volume"
GITOPS = "gitops"
GANG_OPTION = "gang"
PLACEMENT = "placement"
GPU = "gpu"

BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}
KNOWN: Mapping[str, Option] = {**BY_NAME, **{part.name: part for part in (SECRETS, CLAIM, CLAIM_CLASS)}}
"""The options, and the components that no one selects: what reads values in `site.env`."""

KEYS: Mapping[str, Key] = {key.name: key for option in KNOWN.values() for key in option.keys}


def secret(name: str, site: Mapping[str, str]) -> str | None:
    """Return the Secret whose keys an option makes variables of, by the values in `site.env`; None without one."""
    option = BY_NAME.get(name)
    if option is None or option.secret is None:
        return None
    if option.secret == "BUCKET_SECRET" and site.get("BUCKET_DRIVER") != "client":  # noqa: S105 - a key
        return None
    value = site.get(option.secret)
    return None if value in (None, "none") else value


def conflicts(names: Iterable[str]) -> list[Fault]:
    """Return the conflicts among the options `names`, and the needs of one that are off, each at the last option."""
    selected = set(names)
    conflicting = exclusions(selected)
    for option in [option for option in OPTIONS if option.name in selected]:
        if option.needs and not selected & set(option.needs):
            message = f"{option.name} needs {' or '.join(option.needs)}, which is off"
            conflicting.append(Fault((option.name,), message, f"switch {option.needs[0]} on as well"))
    return conflicting


def exclusions(names: Collection[str]) -> list[Fault]:
    """Return the conflicts of two options among `names`, each at the last one; other components are ignored."""
    conflicting = []
    for one, other in combinations([option for option in OPTIONS if option.name in names], 2):
        if common := [place for place in one.places if place in other.places]:
            message = f"{one.name} and {other.name} cannot be combined: each sets {PLACES[common[0]]}"
            conflicting.append(Fault((other.name,), message, "keep one of them"))
        if reason := dict(other.excludes).get(one.name):
            message = f"{one.name} and {other.name} cannot be combined: {reason}"
            conflicting.append(Fault((other.name,), message, "keep one of them"))
    return conflicting


def level(names: Iterable[str]) -> Level:
    """Return the Pod Security level that a workload reaches at best with the options `names`."""
    levels = {BY_NAME[name].level for name in names if name in BY_NAME}
    return max(levels, key=list(Level).index, default=Level.restricted)


def faults(
    names: Iterable[str], site: Mapping[str, str], environment: Mapping[str, str]
) -> Iterator[tuple[str, Fault]]:
    """Yield the reasons why the options `names` cannot work: the option, and a missing or unsuitable value.

    The location of each fault is the value's key: in `site.env` for those of `KEYS`, else in `mlops.env`.
    """
    selected = set(names)
    for option in KNOWN.values():
        if option.name in selected:
            for fault in (*_unfit(option, site, environment), *_misplaced(option, environment)):
                yield option.name, fault


def offered(traits: Collection[str]) -> tuple[Option, ...]:
    """Return the options of a package, or of one of its workloads, that has these of `TRAITS`."""
    return tuple(option for option in OPTIONS if option.only is None or option.only in traits)


def _unfit(option: Option, site: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[Fault]:
    for key in option.keys:
        if key.only in VARIABLES and VARIABLES[key.only] not in environment:
            continue
        value = site.get(key.name)
        if value is None and key.name in VOLUME_FOLDERS:
            continue  # in a package of an earlier version, no option reads it; in others, kubectl names the missing key
        if not value:
            yield Fault((key.name,), f"{option.name} needs {key.name}, such as {key.example}")
        elif complaint := key.complaint(value):
            yield Fault((key.name,), f"{key.name}: {complaint}")
    if option.name == "expose" and site.get("EXPOSE") == "Ingress" and site.get("EXPOSE_HOST") == _RESERVED_DOMAIN:
        yield Fault(
            ("EXPOSE_HOST",), f"an Ingress needs a domain of your own as EXPOSE_HOST, found {_RESERVED_DOMAIN!r}"
        )


def _misplaced(option: Option, environment: Mapping[str, str]) -> Iterator[Fault]:
    for name in option.paths:
        if name not in environment and name in VARIABLES.values():
            continue
        path = environment.get(name, "")
        if not path.startswith("/"):
            yield Fault((name,), f"{option.name} needs {name} as an absolute path, found {path!r}")
