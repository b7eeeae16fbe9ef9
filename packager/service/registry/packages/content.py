"""What is kept of a package: where it came from, its keys of mlops.env, and the objects that it renders to."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from packager.base.names import LABEL
from packager.base.values import Fields, Meta, Value, field
from packager.kubernetes.allowed.values import Facts

ENV = "env"
"""The top-level key of filled values below which the keys of mlops.env are."""

NOT_OF_JOBS = frozenset(("queue",))
"""Site options that have no effect in a task service: the queue of a job is that of its project."""

ValueType = Literal["number", "boolean", "string", "secret"]


Label = Annotated[str, Meta(max_length=63, pattern=rf"^{LABEL}$")]
Options = Annotated[list[Label], Meta(max_length=30)]
Site = dict[str, Annotated[str, Meta(max_length=1024)]]


class PackageBody(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The package that a definition names.

    Attributes:
        source: A bundled package's name, `file:` and a path in the server's folder of packages, or `oci://` and a
            reference in one of its registries.
        overlay: One of its overlays; None for its default one.
        options: The site options to switch on.
        site: Values for them.
    """

    source: Annotated[str, Meta(min_length=1, max_length=512)]
    overlay: Label | None = None
    options: Options = field(default_factory=list)
    site: Site = field(default_factory=dict)


class PackageKey(Fields, frozen=True, kw_only=True):
    """A key of mlops.env, or a secret of the package.

    Attributes:
        name: The key.
        default: Its value in the package; empty for a secret.
        description: What its comment in mlops.env says.
        type: What its value must be.
        required: Whether the pods cannot start without it.
        fixed: Whether only the definition sets it, because it decides more than an environment variable or a mount
            path, such as the image.
    """

    name: str
    default: str
    description: str
    type: ValueType
    required: bool
    fixed: bool

    @property
    def is_secret(self) -> bool:
        """Whether its value is in no answer, log or manifest."""
        return self.type == "secret"


class PackageOrigin(Fields, frozen=True, kw_only=True):
    """Where the objects of a definition's jobs come from.

    Attributes:
        source: As the definition names it.
        name: The package's own name.
        digest: `sha256:…` of its inventory, which has the digest of each file.
        overlay: The overlay.
        options: The site options that are on in it.
        keys: What can be filled in.
        pulled: With a registry's package, what its tag meant then: the reference with the digest of the manifest.
    """

    source: str
    name: str
    digest: str
    overlay: str
    options: list[str]
    keys: list[PackageKey]
    pulled: str | None = None


class PackageFacts(Fields, frozen=True, kw_only=True):
    """What a package says beside its objects.

    Attributes:
        options: The site options that are on.
        site: Their values.
        claims: The names of claims that these values and the package's spec have.
    """

    options: list[str]
    site: dict[str, str]
    claims: list[str]


class PackageObjects(Fields, frozen=True, kw_only=True):
    """What a package renders to, with a word in the place of each value of mlops.env.

    Attributes:
        objects: The objects.
        mark: What each word begins with.
        keys: The key of each word, by its number.
        numbers: Where a value becomes a whole number, as a path from the list of objects.
        secrets: The names of the Secrets from which pods read the package's secrets.
        prefix: The package's name, and
        suffix: the overlay's, which names of objects begin and end with.
        facts: What the package says beside them; None if it was read by a server that did not keep this.
    """

    objects: list[dict[str, Any]]
    mark: str
    keys: list[str]
    numbers: list[list[str | int]]
    secrets: list[str]
    prefix: str
    suffix: str
    facts: PackageFacts | None = None


class PackageContent(Value, frozen=True):
    """A package as it was read."""

    origin: PackageOrigin
    objects: PackageObjects


def facts_of(origin: PackageOrigin, objects: PackageObjects) -> Facts:
    """Return what a package says beside its objects, for the table of allowed fields."""
    names = (origin.name, f"{origin.name}-{origin.overlay}")
    kept = objects.facts
    if kept is None:
        return Facts(frozenset(origin.options) - NOT_OF_JOBS, names=names)
    return Facts(frozenset(kept.options) - NOT_OF_JOBS, kept.site, claims=frozenset(kept.claims), names=names)
