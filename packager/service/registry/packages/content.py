"""The stored parts of a package: origin, variables, objects. Tests: service/registry/packages/test_reading.py."""

from __future__ import annotations

from typing import Annotated, Literal

from packager.base.fields import anchored
from packager.base.names import LABEL
from packager.base.values import Fields, Meta, Value, field
from packager.kubernetes.allowed.values import Facts
from packager.kubernetes.objects import Object

ENV = "env"
"""The top-level key of filled values with the keys of mlops.env."""

NOT_OF_JOBS = frozenset(("queue",))
"""Site options without effect in a task service: the project of a job decides its queue."""

ValueType = Literal["number", "boolean", "string", "secret"]


Overlay = Annotated[
    str,
    Meta(
        max_length=63,
        pattern=anchored(LABEL),
        title="the name of an overlay in lower-case letters, digits and '-', such as single-node",
    ),
]
OptionName = Annotated[
    str,
    Meta(
        max_length=63,
        pattern=anchored(LABEL),
        title="the name of a site option in lower-case letters, digits and '-', such as gpu",
    ),
]
Options = Annotated[list[OptionName], Meta(max_length=30)]
Site = dict[str, Annotated[str, Meta(max_length=1024)]]


class PackageBody(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The package that a definition names.

    Attributes:
        source: The name of a bundled package, `file:` and a path in the server's folder of packages, or `oci://` and a
            reference in one of the server's registries.
        overlay: An overlay of the package; None for its default overlay.
        options: The site options to switch on.
        site: The values of site options.
    """

    source: Annotated[
        str, Meta(min_length=1, max_length=512, title="the name or the place of a package, such as llm-finetune-cpu")
    ]
    overlay: Overlay | None = None
    options: Options = field(default_factory=list)
    site: Site = field(default_factory=dict)


class PackageKey(Fields, frozen=True, kw_only=True):
    """A key of mlops.env, or a secret of the package.

    Attributes:
        name: The key.
        default: The value in the package; empty for a secret.
        description: The comment on the key in mlops.env.
        type: The type of the value.
        required: Whether the pods cannot start without the key.
        fixed: Whether only the definition may set the key, because it decides more than an environment variable or a
            mount path, such as the image.
        of_package: Whether only the package has its value: a number or a quantity of the manifests.
    """

    name: str
    default: str
    description: str
    type: ValueType
    required: bool
    fixed: bool
    of_package: bool = False

    @property
    def is_secret(self) -> bool:
        """Whether the value must not appear in responses, logs and manifests."""
        return self.type == "secret"


class PackageOrigin(Fields, frozen=True, kw_only=True):
    """The package from which the objects of a definition's jobs come.

    Attributes:
        source: The source in the definition.
        name: The name of the package.
        digest: The digest (`sha256:…`) of the inventory, which has the digest of each file.
        overlay: The overlay.
        options: The site options that are on in the overlay.
        keys: The keys that can be filled in.
        pulled: For a package from a registry, the reference with the digest of the manifest at registration.
    """

    source: str
    name: str
    digest: str
    overlay: str
    options: list[str]
    keys: list[PackageKey]
    pulled: str | None = None


class PackageFacts(Fields, frozen=True, kw_only=True):
    """The facts about a package, in addition to its objects.

    Attributes:
        options: The site options that are on.
        site: The values of these options.
        claims: The names of claims in these values and in the spec of the package.
    """

    options: list[str]
    site: dict[str, str]
    claims: list[str]


class PackageObjects(Fields, frozen=True, kw_only=True):
    """The rendered objects of a package, with a placeholder ("word") for each value of mlops.env.

    Attributes:
        objects: The objects.
        mark: The start of each word.
        keys: The key of each word, by the number of the word.
        numbers: The places where a value becomes a whole number, as paths from the list of objects.
        secrets: The names of the Secrets from which pods read the secrets of the package.
        prefix: The start of the names of objects, which is the name of the package.
        suffix: The end of the names of objects, which is the name of the overlay.
        facts: The facts about the package.
    """

    objects: list[Object]
    mark: str
    keys: list[str]
    numbers: list[list[str | int]]
    secrets: list[str]
    prefix: str
    suffix: str
    facts: PackageFacts


class PackageContent(Value, frozen=True):
    """The stored parts of a package that was read."""

    origin: PackageOrigin
    objects: PackageObjects


def facts_of(origin: PackageOrigin, objects: PackageObjects) -> Facts:
    """Return the facts about a package, for the table of allowed fields."""
    names = (origin.name, f"{origin.name}-{origin.overlay}")
    kept = objects.facts
    return Facts(frozenset(kept.options) - NOT_OF_JOBS, kept.site, claims=frozenset(kept.claims), names=names)
