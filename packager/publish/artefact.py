"""Makes and reads OCI manifests: of a package, whose only layer is its own tar.gz, and of what refers to it.

Flux, Argo CD, containerd and registries with lists of types accept this form, and no other that is known. The same
package and options give the same bytes. Manifests of others follow image-spec 1.1.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

from packager.base import jsonio
from packager.base.errors import ToolError, UsageError, VerificationError
from packager.base.names import LETTER_FIRST
from packager.base.problems import show
from packager.base.values import FieldsError, Meta, Value, from_json
from packager.package import inventory
from packager.publish.reference import is_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST_BYTES = 4 << 20
"""The most bytes of a manifest, and of a config."""

CONFIG = "application/vnd.oci.image.config.v1+json"
EMPTY = b"{}"
"""The config of an artefact that is not an image."""

EMPTY_CONFIG = "application/vnd.oci.empty.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
TAR = "application/vnd.oci.image.layer.v1.tar"
"""The type of the layer with the files that pods fetch."""

_LAYER_ENDS = (".tar+gzip", ".tar.gzip", ".layer.v1.tar")
"""The ends of the types of layers that packages and components of others have."""

_TITLE = "org.opencontainers.image.title"
_DESCRIPTION = "org.opencontainers.image.description"
_VERSION = "org.opencontainers.image.version"
CREATED = "org.opencontainers.image.created"

_PACKAGE = "mlpack.package"
_DIGEST = "mlpack.digest"
_INVENTORY = "mlpack.manifest"
_OVERLAYS = "mlpack.overlays"
_EDITED = "mlpack.edited"
_IMAGES = "mlpack.images"

_INVENTORY_BYTES = 1 << 20
"""The config with the inventory may have so many bytes; Argo CD keeps it in memory, up to 4 MiB."""

_MOST_MANIFESTS = 10_000
ALL_MANIFEST_BYTES = 64 << 20
"""The most bytes of a manifest and all below it."""

_Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}(?![\s\S])")]
_Size = Annotated[int, Meta(ge=0, le=1 << 42)]
_MediaType = Annotated[str, Meta(pattern=r"^[!-~]{0,255}(?![\s\S])")]


class Descriptor(Value, frozen=True):
    """A blob: its digest, and its size in bytes."""

    digest: str
    size: int


class Platform(Value, frozen=True):
    """The platform of a manifest in an index."""

    os: str = ""
    architecture: str = ""
    variant: str = ""


class Entry(Value, frozen=True, rename="camel"):
    """A config, a layer, or a manifest in an index."""

    digest: _Digest
    size: _Size
    media_type: _MediaType = ""
    annotations: Mapping[str, str] | None = None
    platform: Platform | None = None

    @property
    def blob(self) -> Descriptor:
        """The digest and the size."""
        return Descriptor(self.digest, self.size)


class Manifest(Value, frozen=True, rename="camel"):
    """A manifest, or an index of manifests."""

    media_type: _MediaType | None = None
    artifact_type: _MediaType | None = None
    config: Entry | None = None
    layers: tuple[Entry, ...] = ()
    manifests: tuple[Entry, ...] | None = None  # of an index
    subject: Entry | None = None  # the manifest that it refers to
    annotations: Mapping[str, str] | None = None

    @property
    def kind(self) -> str:
        """The media type."""
        return self.media_type or (MANIFEST if self.manifests is None else INDEX)

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """The config and the layers; none for an index."""
        entries = () if self.config is None or self.manifests is not None else (self.config, *self.layers)
        return tuple(entry.blob for entry in entries)


class ArtefactFacts(Value, frozen=True):
    """The facts about a package that can be read without its layer."""

    package: str  # the name
    digest: str  # the digest of the package: of its inventory
    overlays: tuple[str, ...]
    edited: tuple[str, ...]  # the paths of the files that were edited since the package was built
    images: tuple[str, ...]  # the images of the pods
    sealed: str | None = None  # the text of the inventory; None if it is too long
    title: str = ""  # the title of the model; empty if the package does not say it

    @property
    def inventory(self) -> Mapping[str, Any]:
        """The inventory; empty if it is not known."""
        return inventory.parsed(self.sealed.encode(), Path(self.package)) if self.sealed is not None else {}

    @property
    def version(self) -> str | None:
        """The version of the package; None if it has none, or its inventory is not known."""
        version = self.inventory.get("version")
        return None if version is None else str(version)


class Layer(Value, frozen=True):
    """The archive of a package: its name, its digest and size, and the digest of the tar in it."""

    name: str
    blob: Descriptor
    diff_id: str


class Artefact(Value, frozen=True):
    """The manifest and the config of a package, as bytes, and its layer."""

    manifest: bytes
    config: bytes
    layer: Layer

    @property
    def digest(self) -> str:
        """The digest of the manifest, by which registries, Flux and Argo CD name the artefact."""
        return descriptor(self.manifest).digest


class Stored(Value, frozen=True):
    """A package in a registry or a layout, without its layer."""

    shown: str  # its name for messages
    digest: str  # of the manifest
    layer: Descriptor
    file: str  # the name of the layer; empty if it has none
    created: str | None  # the time that the artefact names
    facts: ArtefactFacts | None  # None if another program has stored it


class Source(ABC):
    """The place that artefacts are read from: a repository of a registry, or a layout in a file."""

    @abstractmethod
    def shown(self, version: str) -> str:
        """Return the name of a manifest or a blob for messages."""

    @abstractmethod
    def find_manifest(self, version: str) -> tuple[bytes, str] | None:
        """Return the manifest with a tag or a digest, and its digest; None if there is none."""

    @abstractmethod
    def referrers(self, digest: str) -> list[dict[str, Any]]:
        """Return the descriptors of the manifests that refer to another one, as others have written them."""

    @abstractmethod
    def download(self, blob: Descriptor, stream: IO[bytes], advance: Callable[[int], object] = ...) -> None:
        """Write a blob to a stream, after or while its digest is checked. Raises OSError if that cannot be written."""

    def manifest(self, version: str) -> tuple[bytes, str]:
        """Return the manifest with a tag or a digest, and its digest. Raises ToolError without one."""
        present = self.find_manifest(version)
        if present is None:
            raise ToolError(f"{self.shown(version)} not found")
        return present

    def content(self, blob: Descriptor) -> bytes:
        """Return a blob of at most MANIFEST_BYTES bytes."""
        if blob.size > MANIFEST_BYTES:
            message = f"expected at most {MANIFEST_BYTES >> 20} MiB, found {blob.size:,} bytes"
            raise VerificationError(f"{self.shown(blob.digest)}: {message}")
        stream = io.BytesIO()
        self.download(blob, stream)
        return stream.getvalue()

    def walk(self, *digests: str) -> Iterator[tuple[bytes, Manifest]]:
        """Yield manifests and all below them, each once, and after those below it."""
        found: dict[str, tuple[bytes, Manifest]] = {}
        size = 0
        waiting = [(digest, False) for digest in reversed(digests)]
        while waiting:
            digest, is_complete = waiting.pop()
            if is_complete:
                yield found[digest]
            elif digest not in found:
                content, _ = self.manifest(digest)
                found[digest] = content, read_manifest(content, self.shown(digest))
                size += len(content)
                if len(found) > _MOST_MANIFESTS or size > ALL_MANIFEST_BYTES:
                    most = f"{_MOST_MANIFESTS:,} manifests with {ALL_MANIFEST_BYTES >> 20} MiB"
                    raise VerificationError(f"{self.shown(digest)}: expected at most {most}")
                waiting.append((digest, True))
                waiting += [(child.digest, False) for child in found[digest][1].manifests or ()]

    def stored(self, version: str | None, shown: str) -> Stored:
        """Return the package with a tag or a digest, which messages call `shown`."""
        if version is None:
            raise UsageError(f"{shown} names neither a tag nor a digest", hint=f"for example {shown}:1.0")
        content, digest = self.manifest(version)
        found = read_manifest(content, shown)
        layer = only_layer(found, shown)
        facts = None
        if found.config is not None and found.config.media_type == CONFIG:
            facts = read_facts(self.content(found.config.blob), shown)
        file, created = (layer.annotations or {}).get(_TITLE, ""), (found.annotations or {}).get(CREATED)
        return Stored(shown, digest, layer.blob, file, created, facts)


def read_manifest(content: bytes, shown: str) -> Manifest:
    """Return a manifest from others, which messages call `shown`. Raises VerificationError if it is none."""
    try:
        manifest = from_json(content, Manifest)
    except FieldsError as error:
        raise VerificationError(f"{shown} is not a valid manifest: {error}") from None
    if manifest.config is None and manifest.manifests is None:
        raise VerificationError(f"{shown} is not a manifest: expected a config and layers, or manifests")
    return manifest


def descriptor(content: bytes) -> Descriptor:
    """Return the descriptor of some bytes."""
    return Descriptor(f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))


def compose(  # noqa: PLR0913 - what the publisher chooses
    facts: ArtefactFacts,
    layer: Layer,
    *,
    version: str | None = None,
    created: int | None = None,
    platform: str = "linux/amd64",
    annotations: Mapping[str, str] | None = None,
) -> Artefact:
    """Return the artefact of a package; `version` is the tag, `created` the time in seconds since 1970."""
    labels = {
        _PACKAGE: facts.package,
        _DIGEST: facts.digest,
        _INVENTORY: facts.sealed,
        _OVERLAYS: " ".join(sorted(facts.overlays)),
        _EDITED: "\n".join(sorted(facts.edited)),
        _IMAGES: "\n".join(sorted(facts.images)),
    }
    config = {
        **dict(sorted(zip(("os", "architecture", "variant"), platform.split("/"), strict=False))),
        "config": {"Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id]},
        "history": [{"created_by": "mlpack push"}],
    }
    if facts.sealed is None or len(jsonio.compact_bytes(config)) > _INVENTORY_BYTES:
        del labels[_INVENTORY]
    texts = {
        _TITLE: facts.package,
        _DESCRIPTION: facts.title or None,
        _VERSION: version,
        CREATED: None if created is None else time_text(created),
        _DIGEST: facts.digest,
        **dict(sorted((annotations or {}).items())),
    }
    written = jsonio.compact_bytes(config)
    manifest = _manifest(
        _entry(CONFIG, descriptor(written)),
        _entry(LAYER, layer.blob) | {"annotations": {_TITLE: layer.name}},
        annotations=texts,
    )
    return Artefact(manifest, written, layer)


def of_tar(layer: Descriptor) -> tuple[bytes, bytes]:
    """Return the config and the manifest of an image whose only layer is this tar."""
    rootfs = {"type": "layers", "diff_ids": [layer.digest]}
    config = jsonio.compact_bytes({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs})
    return config, _manifest(_entry(CONFIG, descriptor(config)), _entry(TAR, layer))


def referring(kind: str, content: bytes, subject: Descriptor, annotations: Mapping[str, str]) -> bytes:
    """Return a manifest that refers to `subject`, with the config `EMPTY`; `kind` is its type and that of its layer."""
    config, layer = _entry(EMPTY_CONFIG, descriptor(EMPTY)), _entry(kind, descriptor(content))
    return _manifest(config, layer, kind, _entry(MANIFEST, subject), annotations)


def only_layer(found: Manifest, shown: str, kind: str | None = None) -> Entry:
    """Return the layer of a manifest from others, which must have one, of the type `kind` or of a package's."""
    if found.manifests is not None:
        raise VerificationError(f"{shown} is an index of several artefacts, not a package")
    config_type = "" if found.config is None else found.config.media_type
    if len(found.layers) != 1:
        count = f"{len(found.layers):,}, with a config of the type {config_type}"
        raise VerificationError(f"{shown} is not a package: expected one layer, found {count}")
    layer = found.layers[0]
    if layer.media_type != kind if kind else not layer.media_type.endswith(_LAYER_ENDS):
        raise VerificationError(
            f"{shown} is not a package: expected a layer of the type {kind or LAYER}, "
            f"found {show(layer.media_type)}, with a config of the type {config_type}"
        )
    return layer


class _Settings(Value, frozen=True, rename="pascal"):
    labels: Mapping[str, str]


class _Config(Value, frozen=True):
    config: _Settings


def read_facts(content: bytes, shown: str) -> ArtefactFacts | None:
    """Return the facts about a package in a config from others; None if the config is not one of ours."""
    try:
        labels = from_json(content, _Config).config.labels
    except FieldsError:
        return None
    name, digest, sealed = labels.get(_PACKAGE, ""), labels.get(_DIGEST, ""), labels.get(_INVENTORY)
    if not is_digest(digest) or not re.fullmatch(LETTER_FIRST, name):
        return None
    lists = [tuple(labels.get(label, "").split()) for label in (_OVERLAYS, _IMAGES)]
    found = ArtefactFacts(name, digest, lists[0], tuple(labels.get(_EDITED, "").splitlines()), lists[1], sealed)
    if sealed is not None:
        actual = descriptor(sealed.encode()).digest
        if actual != digest:
            raise VerificationError(f"{shown}: the inventory has another digest: expected {digest}, found {actual}")
        if found.inventory["package"] != name:
            raise VerificationError(f"{shown}: the inventory is that of another package than {name}")
    return found


def file_name(stored: Stored, otherwise: str) -> str:
    """Return the name of the package's archive; one that the registry names is used only if it is a plain name."""
    stem = stored.file.removesuffix(".tar.gz")
    if stored.file.endswith(".tar.gz") and re.fullmatch(LETTER_FIRST, stem) and len(stem) <= 200:
        return stored.file
    return f"{otherwise}.tar.gz"


def time_text(seconds: int) -> str:
    """Return a time in seconds since 1970 as RFC 3339."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _manifest(
    config: dict[str, Any],
    layer: dict[str, Any],
    kind: str | None = None,
    subject: dict[str, Any] | None = None,
    annotations: Mapping[str, str | None] | None = None,
) -> bytes:
    content = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": kind,
        "config": config,
        "layers": [layer],
        "subject": subject,
        "annotations": annotations and {key: text for key, text in annotations.items() if text is not None},
    }
    return jsonio.compact_bytes({key: part for key, part in content.items() if part is not None})


def _entry(kind: str, blob: Descriptor) -> dict[str, Any]:
    return {"mediaType": kind, "digest": blob.digest, "size": blob.size}


def chosen_annotations(pairs: Sequence[str]) -> dict[str, str]:
    """Return the annotations of `--annotation`. Raises UsageError."""
    texts: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals or key in texts:
            raise UsageError(f"--annotation {pair}: expected KEY=VALUE, each key once")
        texts[key] = text
    return texts
