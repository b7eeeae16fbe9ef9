"""Tests of references to images, and of what is looked up for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import ToolError, UsageError, VerificationError
from packager.base.web import Network
from packager.publish.client import Access
from packager.publish.lock import ImageManifest, look_up
from packager.publish.reference import check_platform, image_reference
from tests.publish.fake_registry import digest_of

if TYPE_CHECKING:
    from tests.publish.fake_registry import FakeRegistry

ONE, OTHER = digest_of(b"1"), digest_of(b"2")


REFERENCES = {
    "busybox": "oci://docker.io/library/busybox:latest",
    "busybox:1": "oci://docker.io/library/busybox:1",
    "team/x:1": "oci://docker.io/team/x:1",
    "docker.io/team/x:1": "oci://docker.io/team/x:1",
    "localhost:5000/x:1": "oci://localhost:5000/x:1",
    "localhost/x:1": "oci://localhost/x:1",
    "registry.example.com/a/b/c": "oci://registry.example.com/a/b/c:latest",
    f"x@{ONE}": f"oci://docker.io/library/x@{ONE}",
}


def test_image_has_the_registry_and_tag_that_runtimes_take() -> None:
    assert {image: str(image_reference(image)) for image in REFERENCES} == REFERENCES
    for image in ("", "a b", "X", "a:", "a@sha256:1", "../x", "a\nb:1"):
        with pytest.raises(UsageError, match="expected an image"):
            image_reference(image)


def looked_up(registry: FakeRegistry, manifest: Any) -> ImageManifest:
    registry.put("team/x", "1", manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode())
    return look_up(f"{registry.host}/team/x:1", Access(Network(sleep=lambda _: None), plain_http=True))


def platform(digest: object, system: object, architecture: object, **more: object) -> dict[str, object]:
    return {"digest": digest, "size": 1, "platform": {"os": system, "architecture": architecture, **more}}


def test_index_has_platforms_and_leaves_others_out(registry: FakeRegistry) -> None:
    entries = [
        platform(ONE, "linux", "amd64"),
        platform(OTHER, "linux", "arm", variant="v7"),
        platform(ONE, "unknown", "unknown"),
        platform(ONE, "linux", "a\n- name: evil"),
        {"digest": ONE, "size": 1},
    ]
    image = looked_up(registry, {"manifests": entries})
    assert dict(image.platforms) == {"linux/amd64": ONE, "linux/arm/v7": OTHER}
    assert image.digest_for(None) == image.digest == digest_of(registry.manifests["team/x", "1"])
    assert image.digest_for("linux/arm/v7") == OTHER
    assert (image.has(ONE), image.has(image.digest), image.has(digest_of(b"3"))) == (True, True, False)
    with pytest.raises(UsageError, match=r"^--platform linux/arm64: the image is for linux/amd64, linux/arm/v7$"):
        image.digest_for("linux/arm64")


def test_single_manifest_is_taken_for_every_platform(registry: FakeRegistry) -> None:
    image = looked_up(registry, {"config": {"digest": ONE, "size": 1}, "layers": []})
    assert image.digest_for("linux/arm64") == image.digest
    assert not image.platforms


def test_other_content_than_a_manifest_is_refused(registry: FakeRegistry) -> None:
    for content in (b"", b"[]", b"{}", json.dumps({"manifests": [platform("sha256:x", "linux", "s390x")]}).encode()):
        with pytest.raises(VerificationError, match=r"is not a (valid )?manifest"):
            looked_up(registry, content)


def test_missing_image_is_reported(registry: FakeRegistry) -> None:
    with pytest.raises(ToolError, match="team/none:1 not found"):
        look_up(f"{registry.host}/team/none:1", Access(Network(sleep=lambda _: None), plain_http=True))


def test_platform_has_a_form() -> None:
    for text in ("linux", "linux/", "Linux/amd64", "linux/amd64/v7/x", "linux/a b"):
        with pytest.raises(UsageError, match="expected OS/ARCHITECTURE"):
            check_platform(text)
