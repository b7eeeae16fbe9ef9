"""Tests of references."""

from __future__ import annotations

import pytest

from packager.base.errors import UsageError
from packager.publish.reference import parse

DIGEST = f"sha256:{'0' * 64}"


PARTS = {
    "oci://registry.example.com/model": ("registry.example.com", "model", None, None),
    "oci://registry.example.com:5000/a/b-c__d:1.0": ("registry.example.com:5000", "a/b-c__d", "1.0", None),
    f"oci://localhost/a@{DIGEST}": ("localhost", "a", None, DIGEST),
    f"oci://[::1]:5000/a:x@{DIGEST}": ("[::1]:5000", "a", "x", DIGEST),
    "oci://docker.io/model:1": ("docker.io", "library/model", "1", None),
    "oci://Registry.Example.com/a": ("registry.example.com", "a", None, None),
}


def test_reference_has_parts() -> None:
    for text, parts in PARTS.items():
        reference = parse(text)
        assert (reference.host, reference.repository, reference.tag, reference.digest) == parts
        assert (reference.api_host == "registry-1.docker.io") is (reference.host == "docker.io")


FAULTY = (
    "registry.example.com/a:1",
    "oci://registry.example.com",
    "oci:///a",
    "oci://host/A",
    "oci://host/a:b:c",
    "oci://host/a:-x",
    "oci://host/a/../b",
    "oci://host/a@sha256:0",
    f"oci://host/a@sha512:{'0' * 128}",
    "oci://user:pw@host/a",
    "oci://host:0/a",
    "oci://host:999999/a",
    "oci://host/a?x",
    "oci://host/a\n",
    f"oci://host/{'a' * 256}",
)


def test_parse_refuses_faulty_references() -> None:
    for text in FAULTY:
        with pytest.raises(UsageError, match="invalid reference"):
            parse(text)
