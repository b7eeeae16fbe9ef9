"""Tests of the artefact: its exact bytes, and how those of others are read."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from packager.base.errors import UsageError, VerificationError
from packager.publish import artefact
from packager.publish.artefact import ArtefactFacts, Descriptor, Layer

SEALED = json.dumps({"manifest": 1, "package": "demo", "files": {}, "editable": {}})
DIGEST = f"sha256:{hashlib.sha256(SEALED.encode()).hexdigest()}"
FACTS = ArtefactFacts("demo", DIGEST, ("single-node", "multi-node"), (), ("b:1", "a:1"), SEALED, "A demo")
LAYER = Layer("demo.tar.gz", Descriptor(f"sha256:{'1' * 64}", 7), f"sha256:{'2' * 64}")


def test_artefact_has_exactly_these_bytes() -> None:
    made = artefact.compose(FACTS, LAYER, version="1.0", created=1_700_000_000, annotations={"z": "1", "a": "2"})
    config = (
        '{"architecture":"amd64","os":"linux","config":{"Labels":{"mlpack.package":"demo","mlpack.digest":"'
        f'{DIGEST}","mlpack.manifest":{json.dumps(SEALED)},"mlpack.overlays":"multi-node single-node",'
        f'"mlpack.edited":"","mlpack.images":"a:1\\nb:1"}}}},"rootfs":{{"type":"layers","diff_ids":["{LAYER.diff_id}"]}},'
        '"history":[{"created_by":"mlpack push"}]}'
    )
    assert made.config.decode() == config
    assert made.manifest.decode() == (
        '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",'
        '"config":{"mediaType":"application/vnd.oci.image.config.v1+json",'
        f'"digest":"sha256:{hashlib.sha256(config.encode()).hexdigest()}","size":{len(config)}}},'
        '"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip",'
        f'"digest":"{LAYER.blob.digest}","size":7,"annotations":{{"org.opencontainers.image.title":"demo.tar.gz"}}}}],'
        '"annotations":{"org.opencontainers.image.title":"demo","org.opencontainers.image.description":"A demo",'
        '"org.opencontainers.image.version":"1.0","org.opencontainers.image.created":"2023-11-14T22:13:20Z",'
        f'"mlpack.digest":"{DIGEST}","a":"2","z":"1"}}}}'
    )


def test_facts_are_read_back() -> None:
    facts = artefact.read_facts(artefact.compose(FACTS, LAYER).config, "x")
    assert facts is not None
    assert (facts.package, facts.digest, facts.sealed) == ("demo", DIGEST, SEALED)
    assert (facts.overlays, facts.images) == (("multi-node", "single-node"), ("a:1", "b:1"))


def test_long_inventory_is_left_out() -> None:
    sealed = json.dumps({"files": "x" * (1 << 20)})
    made = artefact.compose(ArtefactFacts("demo", DIGEST, (), (), (), sealed), LAYER)
    assert "mlpack.manifest" not in json.loads(made.config)["config"]["Labels"]


def config(**labels: Any) -> bytes:
    return json.dumps({"config": {"Labels": {"mlpack.package": "demo", "mlpack.digest": DIGEST, **labels}}}).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (config(**{"mlpack.manifest": "{}"}), "the inventory has another digest"),
        (config(**{"mlpack.package": "other", "mlpack.manifest": SEALED}), "the inventory is that of another package"),
    ],
)
def test_contradicting_config_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        artefact.read_facts(content, "x")


def test_config_of_other_programs_has_no_facts() -> None:
    for content in (b"nothing", b"{}", b'{"config": []}', config(**{"mlpack.digest": 1})):
        assert artefact.read_facts(content, "x") is None


@pytest.mark.parametrize("pair", ["a", "=x"])
def test_annotations_that_are_not_valid_are_refused(pair: str) -> None:
    with pytest.raises(UsageError, match="expected KEY=VALUE"):
        artefact.chosen_annotations([pair])
