"""The types of site.yaml: a site's defaults; and the commented file that a user begins with.

Tests: site/test_read.py.
"""

from typing import Annotated, Literal

from packager.base.names import KEY, LABEL_VALUE, SUBDOMAIN
from packager.base.values import Fields, Meta, field

_LARGEST_ID = 2**31 - 1

Id = Annotated[int, Meta(ge=0, le=_LARGEST_ID)]
Name = Annotated[
    str, Meta(max_length=253, pattern=rf"^{SUBDOMAIN}$", title="the name of an object in Kubernetes (at most 253)")
]
Domain = Annotated[str, Meta(max_length=253, pattern=rf"^{SUBDOMAIN}$", title="a domain such as example.com")]
Key = Annotated[str, Meta(max_length=317, pattern=rf"^{KEY}$", title="a key such as pool or example.com/pool")]
LabelValue = Annotated[
    str, Meta(max_length=63, pattern=rf"^({LABEL_VALUE})?$", title="the value of a label (at most 63)")
]
Scalar = Annotated[str, Meta(max_length=4096)] | int | float
OptionValues = dict[str, dict[str, Scalar] | None]
"""Options by name, each with its values for site.env."""


class IdsConfig(Fields, frozen=True, rename="camel"):
    """The user and groups that pods run as."""

    uid: Id | None = None
    gid: Id | None = None
    fs_group: Id | None = None


class TolerationConfig(Fields, frozen=True, rename="camel"):
    """A taint that pods tolerate, as in a pod."""

    key: Key
    operator: Literal["Exists", "Equal"] | None = None
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None


class SiteConfig(Fields, frozen=True, rename="camel"):
    """The defaults of a site; None leaves a package as it was built."""

    registry: Annotated[str, Meta(max_length=1000)] | None = None
    root: Annotated[str, Meta(max_length=4096)] | None = None
    ids: IdsConfig | None = None
    storage: OptionValues | None = None
    queue: Name | None = None
    pull_secret: Name | None = None
    node_selector: Annotated[dict[Key, LabelValue], Meta(max_length=100)] | None = None
    annotations: Annotated[dict[Key, Annotated[str, Meta(max_length=4096)]], Meta(max_length=100)] | None = None
    tolerations: Annotated[list[TolerationConfig], Meta(max_length=100)] | None = None
    options: OptionValues = field(default_factory=dict)
    annotation_domains: Annotated[list[Domain], Meta(max_length=100)] = field(default_factory=list)


TEXT = """\
# The defaults of a site: what mlpack sets in every package here, unless the command line says otherwise.
# `mlpack site show` prints what is in effect.

# Where images are pulled from.
#registry: registry.example.com/team

# The folder that contains the packages, as the pods see it.
#root: /nfs/models

# The user and the groups that pods run as.
#ids: {uid: 1000, gid: 1000, fsGroup: 1000}

# Where results, datasets and checkpoints are: options of storage, with their values.
#storage:
#  output-pvc: {OUTPUT_CLAIM: results}

# The LocalQueue of Kueue, and the secret for pulling images.
#queue: user-queue
#pullSecret: registry

# The nodes that pods run on, and the taints that they tolerate.
#nodeSelector: {pool: train}
#tolerations:
#  - {key: train, operator: Exists, effect: NoSchedule}

# Annotations of all pods, of those that `mlpack verify` allows, or of your own domains.
#annotations: {prometheus.io/scrape: "true"}
#annotationDomains: [example.com]

# Other site options that are on, with their values.
#options:
#  shared-memory: {SHM_SIZE: 8Gi}
"""
"""The commented file that `mlpack site init` writes."""

QUESTIONS = {
    "registry": "Registry that images are pulled from",
    "root": "Folder that contains the packages, as the pods see it",
    "queue": "LocalQueue of Kueue",
    "pullSecret": "Secret for pulling images",
}
"""The keys that a user may be asked for."""
