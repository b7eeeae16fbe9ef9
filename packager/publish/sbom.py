"""Makes the bill of materials of a package: its files and its images, as a document of CycloneDX 1.6.

The same package gives the same bytes. The parts of an image are in the bill of who has built it.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from packager.base.names import split_registry

if TYPE_CHECKING:
    from packager.publish.artefact import ArtefactFacts


def document(facts: ArtefactFacts) -> dict[str, Any]:
    """Return the bill of materials of a package. `facts.sealed` must be the text of the inventory."""
    inventory = json.loads(facts.sealed or "{}")
    tool = inventory.get("tool", {})
    package = {
        "type": "application",
        "bom-ref": facts.package,
        "name": facts.package,
        "hashes": [_hash(facts.digest)],
        "properties": [{"name": "mlpack:edited", "value": path} for path in facts.edited],
    }
    if version := inventory.get("version"):
        package["version"] = str(version)
    files = [_file(path, entry["sha256"]) for path, entry in sorted(inventory["files"].items())]
    parts = [*files, *map(_image, facts.images)]
    depends = {"ref": facts.package, "dependsOn": [part["bom-ref"] for part in parts]}
    tools = [{"type": "application", "name": str(tool.get("name")), "version": str(tool.get("version"))}]
    content = json.dumps([package, parts], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "version": 1,
        "metadata": {"tools": {"components": tools}, "component": package},
        "components": parts,
        "dependencies": [depends],
    }


def _file(path: str, digest: str) -> dict[str, Any]:
    return {"type": "file", "bom-ref": f"file:{path}", "name": path, "hashes": [_hash(digest)]}


def _image(image: str) -> dict[str, Any]:
    name, _, digest = image.partition("@")
    host, rest = split_registry(name)
    path, _, tag = rest.partition(":")
    component = {"type": "container", "bom-ref": f"image:{image}", "name": f"{host}/{path}" if host else path}
    if tag or digest:
        component["version"] = tag or digest
    return component | ({"hashes": [_hash(digest)]} if digest else {})


def _hash(digest: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": digest.removeprefix("sha256:")}
