"""The field types that a spec is made of; for validation, schema and docs alike.

A type's `title` says what form is accepted, in words that finish the sentence "expected …"; a field's
`description` says what the value is for.

`examples` are valid values: editors offer them, and where a required value is missing or wrong, validation goes
on with the example in its place, so that one run finds every problem.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


def whole(body: str) -> str:
    r"""Return a pattern that matches `body` and nothing after it.

    `$` alone also matches before a final newline in Python, and JSON Schema's dialect (ECMA 262) has no `\Z`;
    `(?![\s\S])`, "no character follows", is the end of the text in both.
    """
    return rf"^(?:{body})(?![\s\S])"


LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
LABEL_FORM = "a name of lower-case letters, digits and '-', beginning with a letter (at most 40)"

Label = Annotated[
    str,
    Meta(
        pattern=whole(LABEL),
        max_length=40,
        title=LABEL_FORM,
        examples=["resnet50"],
    ),
]

Tag = Annotated[
    str,
    Meta(
        pattern=whole(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
        max_length=20,
        title="a word of lower-case letters, digits and '-' (at most 20)",
        examples=["fp32"],
    ),
]

# Narrower than a label's value (apimachinery, IsValidLabelValue), which it becomes.
UseCase = Annotated[
    str,
    Meta(
        pattern=whole(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?"),
        max_length=40,
        title="a word of lower-case letters, digits, '-' and '_' (at most 40)",
        examples=["image_recognition"],
    ),
]

OneLine = Annotated[
    str,
    Meta(
        pattern=whole(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]+"),
        max_length=200,
        title="one line of text",
        examples=["ResNet50 v1.5"],
    ),
]

Text = Annotated[
    str,
    Meta(
        pattern=whole(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]*"),
        max_length=20_000,
        title="text without control characters",
        examples=["Trains ResNet50 v1.5."],
    ),
]

RelativePath = Annotated[
    str,
    Meta(
        pattern=whole(r"[A-Za-z0-9_+@][-A-Za-z0-9._+@]*(/[A-Za-z0-9_+@][-A-Za-z0-9._+@]*)*"),
        max_length=200,
        title="a path below the spec's folder, of letters, digits and - . _ + @ between the slashes",
        examples=["train.sh"],
    ),
]

# distribution/reference, reference.go: path components of lower-case alphanumerics with separators, a tag of 128.
ImageName = Annotated[
    str,
    Meta(
        pattern=whole(r"[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"),
        max_length=200,
        title="an image's repository without its registry, in lower case",
        examples=["tensorflow-mpi"],
    ),
]
ImageTag = Annotated[
    str,
    Meta(
        pattern=whole(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"),
        title="an image tag of letters, digits and . _ - (at most 128)",
        examples=["1.0.0"],
    ),
]
REGISTRY = r"[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"

Registry = Annotated[
    str,
    Meta(
        pattern=whole(REGISTRY),
        max_length=200,
        title="a host, perhaps with a port and a path",
        examples=["docker.io"],
    ),
]

EnvironmentKey = Annotated[
    str,
    Meta(
        pattern=whole(r"[A-Za-z_][A-Za-z0-9_]*"),
        max_length=100,
        title="a name of letters, digits and '_', not beginning with a digit",
    ),
]
# A .env line ends at a newline and kustomize drops a carriage return before it (kustomize api/kv, bufio.ScanLines).
EnvironmentText = Annotated[
    str,
    Meta(
        pattern=whole(r"[^\x00-\x08\x0a-\x1f\x7f\ufffe\uffff]*"),
        title="one line of text",
        examples=["value"],
    ),
]
EnvironmentValue = EnvironmentText | int | float | bool

# apimachinery, pkg/api/resource/quantity.go.
QuantityText = Annotated[
    str,
    Meta(
        pattern=whole(r"([0-9]{1,15}(\.[0-9]{0,9})?|\.[0-9]{1,9})([numkMGTPE]|[KMGTPE]i|[eE][0-9]{1,2})?"),
        title="a Kubernetes quantity such as 500m or 4Gi",
        examples=["500m", "4Gi"],
    ),
]
WholeQuantity = Annotated[int, Meta(ge=0, title="a Kubernetes quantity such as 500m or 4Gi")]
RealQuantity = Annotated[float, Meta(ge=0, title="a Kubernetes quantity such as 500m or 4Gi")]
Quantity = QuantityText | WholeQuantity | RealQuantity

# apimachinery, pkg/util/validation: a qualified name.
ResourceName = Annotated[
    str,
    Meta(
        pattern=whole(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"),
        max_length=120,
        title="a resource as Kubernetes names it: cpu, memory, nvidia.com/gpu",
    ),
]


class Fields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every part of a spec has in common: frozen, keys by name only, unknown keys refused."""


class Resources(Fields, frozen=True):
    """What a container asks of its node (`requests`) and may use at most (`limits`)."""

    requests: Annotated[dict[ResourceName, Quantity], Meta(description="What the scheduler sets aside.")] = {}
    limits: Annotated[dict[ResourceName, Quantity], Meta(description="What the container may use at most.")] = {}


class Parameter(Fields, frozen=True):
    """An environment variable with a sentence for the README's table of parameters."""

    value: Annotated[EnvironmentValue, Meta(description="Its value unless the user changes it.", examples=["20"])]
    description: Annotated[OneLine, Meta(description="What it does, for the user.")] = ""


def text(value: EnvironmentValue | Quantity) -> str:
    """Return a number, a boolean or a text as its author wrote it: `yamlio` lets no other spelling be a number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
