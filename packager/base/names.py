"""Defines the forms of names as patterns that match a whole text: names of Kubernetes and of images.

apimachinery, pkg/util/validation/validation.go; distribution/reference, reference.go.
"""

from __future__ import annotations

import re

LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
"""A DNS label (RFC 1123), the form of most names in Kubernetes."""

LETTER_FIRST = r"[a-z]([-a-z0-9]*[a-z0-9])?"
"""A DNS label that starts with a letter (RFC 1035): the name of a Service, and of a package's objects."""

LABEL_LENGTH = 63
"""The characters of a DNS label, of the value of a label and of the last part of a key."""

SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
"""DNS labels with dots between them: the name of most objects."""

SUBDOMAIN_LENGTH = 253
"""The characters of such a name."""

LABEL_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
"""The value of a label that is not empty, and the last part of a key."""

KEY = rf"({SUBDOMAIN}/)?{LABEL_VALUE}"
"""The key of a label, an annotation or a resource: its last part, after a domain or by itself (IsQualifiedName)."""

VARIABLE = r"[-._a-zA-Z][-._a-zA-Z0-9]*"
"""The name of an environment variable as Kubernetes takes it; a shell takes fewer."""

_COMPONENT = r"[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"
_HOST = r"[a-zA-Z0-9]([-a-zA-Z0-9.]*[a-zA-Z0-9])?(:[0-9]{1,5})?"

IMAGE_PATH = rf"{_COMPONENT}(/{_COMPONENT})*"
"""An image's repository without its registry."""

REGISTRY = rf"{_HOST}(/{_COMPONENT})*"
"""The form of a registry: a host, and a path."""

TAG = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"
"""The tag of an image."""

VERSION = (
    r"(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}"
    r"(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?"
)
"""A version of Semantic Versioning 2.0.0 without build metadata: neither tags nor labels may contain a '+'."""

VERSION_LENGTH = 63
"""The longest version, which is also the longest value of a label."""

IMAGE = rf"({_HOST}/)?{IMAGE_PATH}(?P<tag>:{TAG})?(?P<digest>@sha256:[0-9a-f]{{64}})?"
"""An image as a container names it."""


def split_registry(image: str) -> tuple[str, str]:
    """Return the registry that an image begins with, as container runtimes read it, or an empty text, and the rest."""
    host, slash, rest = image.partition("/")
    is_host = slash and (host == "localhost" or "." in host or ":" in host)
    return (host, rest) if is_host else ("", image)


def is_label(text: str) -> bool:
    """Whether `text` is a DNS label, of no more characters than one may have."""
    return len(text) <= LABEL_LENGTH and re.fullmatch(LABEL, text) is not None


def is_label_value(text: str) -> bool:
    """Whether `text` can be the value of a label."""
    return text == "" or (len(text) <= LABEL_LENGTH and re.fullmatch(LABEL_VALUE, text) is not None)


def is_key(text: str) -> bool:
    """Whether `text` can be the key of a label, or the name of a resource."""
    domain, slash, name = text.rpartition("/")
    is_domain = len(domain) <= SUBDOMAIN_LENGTH and re.fullmatch(SUBDOMAIN, domain)
    return name != "" and is_label_value(name) and (not slash or bool(is_domain))


def is_other_version(tag: str | None, version: str | None) -> bool:
    """Whether `tag` is a version, and not `version`, its beginning as 1.2 of 1.2.3, or a variant of it as 1.2.3-gpu."""
    if tag is None or version is None or not re.fullmatch(r"v?[0-9]+(\.[0-9]+)+([-+_.].*)?", tag):
        return False
    named = tag.removeprefix("v")
    return not (named == version or version.startswith(f"{named}.") or named.startswith((f"{version}-", f"{version}_")))
