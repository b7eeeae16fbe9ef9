"""The options of a site: Kustomize components that travel in every package, switched off.

Each has a folder of its name below `quickstart/common/<framework>/k8s/mlops`, and a line in every overlay's list of
components. The values that they read stand in one place, `site/site.env` beside these folders: a line of the form
`KEY=value` each. One without a usual value is commented out there, and kubectl 1.24 and later then refuse to render
the option that reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SITE = "site"
"""The folder of the options' values, beside their own."""

STORAGE_LABEL = "mlpack/storage"
"""The label that a storage option puts on the workload: its name."""

LEVELS = ("restricted", "baseline", "privileged")
"""The levels of Kubernetes' Pod Security Standards, the strictest first."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a value looks like: a pattern for all of it, and words that finish the sentence "expected …"."""

    pattern: str
    words: str


_DNS = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_DNS}(\.{_DNS})*"

NAME = Form(_SUBDOMAIN, "the name of an object in Kubernetes")
HOST = Form(rf"{_SUBDOMAIN}|[0-9a-fA-F:]+", "a host's name or address")
SIZE = Form(r"[0-9]+(\.[0-9]+)?([kMGTPE]i?)?", "a quantity such as 10Gi")
COUNT = Form("[1-9][0-9]{0,3}", "a number from 1")
LABEL_KEY = Form(rf"({_SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", "a label's key")
VENDOR = Form(_SUBDOMAIN, "a domain such as nvidia.com")
RESOURCE = Form(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", "a resource's name without its vendor, such as gpu")
ACCESS_MODE = Form("ReadWriteOnce|ReadWriteMany|ReadWriteOncePod", "ReadWriteMany, ReadWriteOnce or ReadWriteOncePod")
UNSATISFIABLE = Form("ScheduleAnyway|DoNotSchedule", "ScheduleAnyway or DoNotSchedule")


@dataclass(frozen=True, slots=True)
class Key:
    """A value that an option reads in `site.env`.

    Attributes:
        name: The key.
        description: What it is for, as a sentence.
        form: What its value looks like.
        example: A value that would do.
        usual: Whether the example is also its value unless somebody changes it; else only the site can know one.
    """

    name: str
    description: str
    form: Form
    example: str
    usual: bool = False

    def complaint(self, value: str) -> str | None:
        """Return what is wrong with `value`; None when nothing is."""
        return None if re.fullmatch(self.form.pattern, value) else f"expected {self.form.words}, found {value!r}"


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: Its folder's name, and what `--with` takes.
        summary: What it does, in half a line.
        keys: What it reads in `site.env`.
        level: The Pod Security level that a workload reaches at best with it.
        storage: Whether it says where results go, of which there is one place.
        dataset: Whether it brings the dataset, which is never writable.
        paths: The keys of `mlops.env` that name folders outside of the container too.
        needs: The option that it adds to.
    """

    name: str
    summary: str
    keys: tuple[Key, ...] = ()
    level: str = "restricted"
    storage: bool = False
    dataset: bool = False
    paths: tuple[str, ...] = ()
    needs: str | None = None


_FOLDERS = ("MODEL_DIR", "OUTPUT_DIR", "DATASET_DIR")

OPTIONS: tuple[Option, ...] = (
    Option(
        "scratch",
        "results go with the pod, as without any option, and take no more than a limit",
        (Key("SCRATCH_SIZE", "How much each pod may write before it is evicted.", SIZE, "10Gi", usual=True),),
        storage=True,
    ),
    Option(
        "host-path",
        "folders that every node has at the same paths: a share that the nodes mount",
        level="privileged",
        storage=True,
        dataset=True,
        paths=_FOLDERS,
    ),
    Option(
        "nfs",
        "folders of an NFS server, at the same paths there as in the container",
        (Key("NFS_SERVER", "The server's name, or its address, as the nodes know it.", HOST, "nfs.example.com"),),
        level="baseline",
        storage=True,
        dataset=True,
        paths=_FOLDERS,
    ),
    Option(
        "pvc",
        "persistent volume claims: one for results, one for the dataset",
        (
            Key("OUTPUT_CLAIM", "The claim that OUTPUT_DIR is.", NAME, "results"),
            Key("DATASET_CLAIM", "The claim that DATASET_DIR is. It is mounted read-only.", NAME, "dataset"),
        ),
        storage=True,
        dataset=True,
    ),
    Option(
        "pvc-create",
        "creates the claim for results; `delete` takes it, and the results, away again",
        (
            Key("CLAIM_SIZE", "How much the claim asks for.", SIZE, "10Gi", usual=True),
            Key("CLAIM_CLASS", "Its storage class: one of `kubectl get storageclass`.", NAME, "standard"),
            Key(
                "CLAIM_ACCESS_MODE",
                "ReadWriteMany, unless all pods of the workload run on one node.",
                ACCESS_MODE,
                "ReadWriteMany",
                usual=True,
            ),
        ),
        needs="pvc",
    ),
    Option("root", "lets the user be root, with the rights that a container's root usually has", level="baseline"),
    Option(
        "gpu",
        "GPUs for each pod that computes, none for a launcher",
        (
            Key("GPU_COUNT", "How many GPUs each of them gets.", COUNT, "1", usual=True),
            Key(
                "GPU_VENDOR",
                "What the nodes call them (`kubectl describe node`), up to the slash: amd.com, gpu.intel.com.",
                VENDOR,
                "nvidia.com",
                usual=True,
            ),
            Key("GPU_RESOURCE", "The same, after the slash.", RESOURCE, "gpu", usual=True),
        ),
    ),
    Option(
        "queue",
        "Kueue starts the workload when its queue has room",
        (Key("QUEUE", "The LocalQueue, in the workload's namespace.", NAME, "user-queue"),),
    ),
    Option(
        "placement",
        "on which nodes pods run, and how they spread over them; see also site/placement.yaml",
        (
            Key(
                "SPREAD_OVER",
                "The label of nodes that pods are spread over: hosts, or zones, or racks.",
                LABEL_KEY,
                "kubernetes.io/hostname",
                usual=True,
            ),
            Key(
                "SPREAD_ELSE",
                "When they cannot be: ScheduleAnyway, or DoNotSchedule to wait until they can.",
                UNSATISFIABLE,
                "ScheduleAnyway",
                usual=True,
            ),
        ),
    ),
    Option(
        "pull-secret",
        "a secret for pulling the image",
        (Key("PULL_SECRET", "The secret, of the type kubernetes.io/dockerconfigjson.", NAME, "registry"),),
    ),
    Option(
        "service-account",
        "another service account than the namespace's default, with its token",
        (Key("SERVICE_ACCOUNT", "The service account.", NAME, "trainer"),),
    ),
    Option(
        "shared-memory",
        "a larger /dev/shm than the usual 64 MiB",
        (Key("SHM_SIZE", "How large; what is used counts towards the memory limit.", SIZE, "1Gi", usual=True),),
    ),
    Option("host-network", "the nodes' own network, for fabrics that pods cannot reach", level="privileged"),
)
"""Every option, in the order in which overlays list them."""

BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}
KEYS: Mapping[str, Key] = {key.name: key for option in OPTIONS for key in option.keys}


@dataclass(frozen=True, slots=True)
class Conflict:
    """What is wrong with a choice of options.

    Attributes:
        names: The options that it is about, in the order of `OPTIONS`.
        message: A sentence that says why.
        hint: What mends it.
    """

    names: tuple[str, ...]
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A value that an option cannot work with, or has not got.

    Attributes:
        option: The option that reads it.
        key: Its key, in `site.env` for those of `KEYS`, else in `mlops.env`.
        message: What was expected and found.
    """

    option: str
    key: str
    message: str


def conflicts(names: Iterable[str]) -> list[Conflict]:
    """Return which of the options `names` do not go together; names that are no option's are left out."""
    wanted = set(names)
    chosen = [option for option in OPTIONS if option.name in wanted]
    found = []
    for one, other in combinations([option for option in chosen if option.storage], 2):
        message = f"{one.name} and {other.name} do not go together: each says where results go"
        found.append(Conflict((one.name, other.name), message, "keep one of them"))
    for option in chosen:
        if option.needs and option.needs not in wanted:
            message = f"{option.name} adds to {option.needs}, which is not on"
            found.append(Conflict((option.name,), message, f"switch {option.needs} on too"))
    return found


def level(names: Iterable[str]) -> str:
    """Return the Pod Security level that a workload reaches at best with the options `names`."""
    return max((BY_NAME[name].level for name in names if name in BY_NAME), key=LEVELS.index, default=LEVELS[0])


def faults(names: Iterable[str], site: Mapping[str, str], environment: Mapping[str, str]) -> Iterator[Fault]:
    """Yield what keeps the options `names` from working.

    Args:
        names: The options that are on.
        site: What `site.env` says.
        environment: What `mlops.env` says.
    """
    wanted = set(names)
    for option in OPTIONS:
        if option.name in wanted:
            yield from _unfit(option, site)
            yield from _misplaced(option, environment)


def possible() -> Iterator[tuple[str, ...]]:
    """Yield every option, and every two of them that go together; each with the option that it adds to."""
    chosen: dict[tuple[str, ...], None] = {}
    for size in (1, 2):
        for picked in combinations(OPTIONS, size):
            wanted = {option.name for option in picked} | {option.needs for option in picked if option.needs}
            if not conflicts(wanted):
                chosen[tuple(option.name for option in OPTIONS if option.name in wanted)] = None
    yield from chosen


def _unfit(option: Option, site: Mapping[str, str]) -> Iterator[Fault]:
    for key in option.keys:
        value = site.get(key.name)
        if not value:
            yield Fault(option.name, key.name, f"{option.name} needs {key.name}, such as {key.example}")
        elif complaint := key.complaint(value):
            yield Fault(option.name, key.name, f"{key.name}: {complaint}")


def _misplaced(option: Option, environment: Mapping[str, str]) -> Iterator[Fault]:
    for name in option.paths:
        path = environment.get(name, "")
        if not path.startswith("/"):
            yield Fault(option.name, name, f"{option.name} needs {name} as an absolute path, found {path!r}")
    if option.dataset and _within(environment.get("DATASET_DIR", ""), environment.get("OUTPUT_DIR", "")):
        yield Fault(option.name, "DATASET_DIR", "the dataset lies in OUTPUT_DIR, and would be writable there")


def _within(path: str, folder: str) -> bool:
    return bool(path and folder) and f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
