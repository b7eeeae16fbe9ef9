"""Provides the manifest of an operator: the tested release, or a site's own. Tests: cluster/test_operator.py."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packager.base import workfolder, yamlio
from packager.base.errors import UsageError, unreadable
from packager.base.web import fetch
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import Object
from packager.workloads.kinds import Operator

_MAX_BYTES = 16 << 20
_OTHER_WAY = "download the file another way and pass it with --from FILE"


@dataclass(frozen=True, slots=True)
class OperatorManifests:
    """The manifest of an operator."""

    text: bytes  # the bytes of the manifest
    objects: tuple[Object, ...]  # the objects in the manifest
    is_pinned: bool  # whether the manifest is upstream's pinned release, byte for byte

    def of(self, kind: str) -> list[Object]:
        """Return the objects of a kind."""
        return [item for item in self.objects if item.get("kind") == kind]

    @property
    def images(self) -> tuple[str, ...]:
        """The images that the operator's pods are started from, in order, each once."""
        templates = [mapping(mapping(item.get("spec")).get("template")) for item in self.objects]
        specs = [mapping(template.get("spec")) for template in templates]
        containers = [
            mapping(container)
            for spec in specs
            for key in ("initContainers", "containers")
            for container in listing(spec.get(key))
        ]
        return tuple(dict.fromkeys(str(container["image"]) for container in containers if container.get("image")))

    @contextmanager
    def file(self) -> Iterator[Path]:
        """Yield a temporary file with the manifest."""
        with workfolder.temporary() as folder:
            path = folder / "operator.yaml"
            path.write_bytes(self.text)
            yield path


def read_manifests(operator: Operator, file: Path | None = None, *, hint: str = _OTHER_WAY) -> OperatorManifests:
    """Return the manifest of an operator: upstream's release, or the contents of `file`."""
    if file is None:
        text = fetch(operator.url, operator.sha256, hint=hint)
    else:
        try:
            text = file.read_bytes()
        except OSError as error:
            raise unreadable(file, error) from None
    documents, problems = yamlio.load_all(text, str(file or operator.url), max_bytes=_MAX_BYTES)
    if problems:
        raise UsageError(f"{file or operator.url} contains no manifests", problems=problems)
    objects = tuple(item.data for item in documents if isinstance(item.data, dict) and "kind" in item.data)
    if not objects:
        raise UsageError(f"{file or operator.url} contains no manifests")
    return OperatorManifests(text, objects, hashlib.sha256(text).hexdigest() == operator.sha256)
