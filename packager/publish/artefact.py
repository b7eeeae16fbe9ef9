"""Makes the OCI image manifest of a package, and reads those of others: one layer, which is the package's own tar.gz.

Flux, Argo CD, containerd and registries with lists of types accept this form, and no other that is known. The same
package and options give the same bytes.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base import jsonio
from packager.base.errors import UsageError, VerificationError
from packager.base.names import LETTER_FIRST
from packager.base.problems import show
from packager.base.values import FieldsError, Value, field, from_json
from packager.package import inventory
from packager.publish import manifest
from packager.publish.manifest import MANIFEST, Descriptor, descriptor
from packager.publish.reference import is_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = "application/vnd.oci.image.config.v1+json"
EMPTY = b"{}"
"""The config of an artefact that is not an image."""

EMPTY_CONFIG = "application/vnd.oci.empty.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
TAR = "application/vnd.oci.image.layer.v1.tar"
"""The type of the layer with the manifest of an operator, or with the files that pods fetch."""

_LAYER_ENDS = (".tar+gzip", ".tar.gzip", ".layer.v1.tar")
"""The ends of the types of layers that packages and components of others have."""

_TITLE = "org.opencontainers.image.title"
_DESCRIPTION = "org.opencontainers.image.description"
_VERSION = "org.opencontainers.image.version"
CREATED = "org.opencontainers.image.created"
SOURCE = "org.opencontainers.image.source"
REVISION = "org.opencontainers.image.revision"

_PACKAGE = "mlpack.package"
_DIGEST = "mlpack.digest"
_INVENTORY = "mlpack.manifest"
_OVERLAYS = "mlpack.overlays"
_EDITED = "mlpack.edited"
_IMAGES = "mlpack.images"
_FOLDER = "mlpack.folder"

_INVENTORY_BYTES = 1 << 20
"""The config with the inventory may have so many bytes; Argo CD keeps it in memory, up to 4 MiB."""

_PLATFORM = re.compile(r"[a-z0-9]{1,32}/[a-z0-9]{1,32}")
_ANNOTATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,252}")
_FOLDER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")


class ArtefactFacts(Value, frozen=True):
    """The facts about a package that can be read without its layer."""

    package: str  # the name
    digest: str  # the digest of the package: of its inventory
    overlays: tuple[str, ...]
    edited: tuple[str, ...]  # the paths of the files that were edited since the package was built
    images: tuple[str, ...]  # the images of the pods
    sealed: str | None = None  # the text of the inventory; None if it is too long
    title: str = ""  # the title of the model; empty if the package does not say it
    folder: str = ""  # the folder in the archive that contains the package; empty if it is at the top

    @property
    def version(self) -> str | None:
        """The version of the package; None if it has none, or its inventory is not known."""
        version = inventory.parsed(self.sealed.encode(), Path(self.package)).get("version") if self.sealed else None
        return None if version is None else str(version)


class Layer(Value, frozen=True):
    """The archive of a package: its name, its digest and size, and the digest of the tar in it."""

    name: str
    blob: Descriptor
    diff_id: str


class ArtefactChoices(Value, frozen=True):
    """The choices of a user for an artefact."""

    version: str | None = None  # the tag; None without one
    created: int | None = None  # the time in seconds since 1970; None without one
    platform: str = "linux/amd64"  # the operating system and the architecture
    annotations: Mapping[str, str] = field(default_factory=dict)  # more annotations


class Artefact(Value, frozen=True):
    """The manifest and the config of a package, as bytes, and its layer."""

    manifest: bytes
    config: bytes
    layer: Layer

    @property
    def digest(self) -> str:
        """The digest of the manifest, by which registries, Flux and Argo CD name the artefact."""
        return descriptor(self.manifest).digest

    @property
    def config_blob(self) -> Descriptor:
        """The config as a blob."""
        return descriptor(self.config)


class Described(Value, frozen=True):
    """The manifest of an artefact in a registry."""

    layer: Descriptor
    config: Descriptor | None  # the config; None if it is not one of an image
    file: str  # the name of the layer; empty if it has none
    annotations: Mapping[str, str]

    @property
    def created(self) -> str | None:
        """The time that the artefact names."""
        return self.annotations.get(CREATED)


def check_choices(choices: ArtefactChoices) -> None:
    """Refuse a platform or an annotation that is not valid, or one that is made from the package. Raises UsageError."""
    if not _PLATFORM.fullmatch(choices.platform):
        raise UsageError(f"--platform {choices.platform}: expected OS/ARCHITECTURE, such as linux/amd64")
    for key, text in choices.annotations.items():
        if not _ANNOTATION.fullmatch(key):
            raise UsageError(f"--annotation: expected KEY=VALUE, found the key {show(key)}")
        if key in (_TITLE, _DESCRIPTION, _VERSION, CREATED) or key.startswith("mlpack."):
            raise UsageError(f"--annotation {key}: this annotation comes from the package")
        if not text.isprintable():
            raise UsageError(f"--annotation {key}: expected printable text on one line")


def compose(facts: ArtefactFacts, layer: Layer, choices: ArtefactChoices) -> Artefact:
    """Return the artefact of a package."""
    config = _config(facts, layer, choices)
    if len(config) > _INVENTORY_BYTES:
        config = _config(facts, layer, choices, with_inventory=False)
    blob = descriptor(config)
    layer_entry = _entry(LAYER, layer.blob) | {"annotations": {_TITLE: layer.name}}
    content = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _entry(CONFIG, blob),
        "layers": [layer_entry],
        "annotations": _annotations(facts, choices),
    }
    return Artefact(jsonio.compact_bytes(content), config, layer)


def of_tar(layer: Descriptor) -> tuple[bytes, bytes]:
    """Return the config and the manifest of an image whose only layer is this tar."""
    rootfs = {"type": "layers", "diff_ids": [layer.digest]}
    config = jsonio.compact_bytes({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs})
    content = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _entry(CONFIG, descriptor(config)),
        "layers": [_entry(TAR, layer)],
    }
    return config, jsonio.compact_bytes(content)


def referring(kind: str, content: bytes, subject: Descriptor, annotations: Mapping[str, str]) -> bytes:
    """Return a manifest that refers to `subject`, with the config `EMPTY`; `kind` is its type and that of its layer."""
    manifest_content = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": kind,
        "config": _entry(EMPTY_CONFIG, descriptor(EMPTY)),
        "layers": [_entry(kind, descriptor(content))],
        "subject": _entry(MANIFEST, subject),
        "annotations": dict(annotations),
    }
    return jsonio.compact_bytes(manifest_content)


def described(content: bytes, shown: str, kinds: tuple[str, ...] = ()) -> Described:
    """Return the content of a manifest from others."""
    found = manifest.read(content, shown)
    if found.manifests is not None:
        raise VerificationError(f"{shown} is an index of several artefacts, not a package")
    kind = "" if found.config is None else found.config.media_type
    if len(found.layers) != 1:
        count = f"{len(found.layers):,}, with a config of the type {kind}"
        raise VerificationError(f"{shown} is not a package: expected one layer, found {count}")
    layer = found.layers[0]
    if layer.media_type not in kinds if kinds else not layer.media_type.endswith(_LAYER_ENDS):
        raise VerificationError(
            f"{shown} is not a package: expected a layer of the type {kinds[0] if kinds else LAYER}, "
            f"found {show(layer.media_type)}, with a config of the type {kind}"
        )
    config = found.config.blob if found.config is not None and kind == CONFIG else None
    return Described(layer.blob, config, (layer.annotations or {}).get(_TITLE, ""), found.annotations or {})


class _Settings(Value, frozen=True, rename="pascal"):
    labels: Mapping[str, str]


class _Config(Value, frozen=True):
    config: _Settings


def facts(content: bytes, shown: str) -> ArtefactFacts | None:
    """Return the facts about a package in a config from others; None if the config is not one of ours."""
    try:
        labels = from_json(content, _Config).config.labels
    except FieldsError:
        return None
    name, digest = labels.get(_PACKAGE, ""), labels.get(_DIGEST)
    if not is_digest(digest) or not re.fullmatch(LETTER_FIRST, name):
        return None
    assert digest is not None
    sealed = labels.get(_INVENTORY)
    if sealed is not None:
        actual = descriptor(sealed.encode()).digest
        if actual != digest:
            raise VerificationError(f"{shown}: the inventory has another digest: expected {digest}, found {actual}")
        if inventory.parsed(sealed.encode(), Path(name))["package"] != name:
            raise VerificationError(f"{shown}: the inventory is that of another package than {name}")
    lists = [tuple(labels.get(label, "").split()) for label in (_OVERLAYS, _IMAGES)]
    edited = tuple(labels.get(_EDITED, "").splitlines())
    folder = labels.get(_FOLDER, name)
    if folder and not _FOLDER_NAME.fullmatch(folder):
        raise VerificationError(f"{shown}: expected the name of a folder at {_FOLDER}, found {show(folder)}")
    if not all(re.fullmatch(LETTER_FIRST, overlay) for overlay in lists[0]):
        raise VerificationError(f"{shown}: expected names of overlays at {_OVERLAYS}")
    return ArtefactFacts(name, digest, lists[0], edited, lists[1], sealed, folder=folder)


def file_name(described: Described, otherwise: str) -> str:
    """Return the name of the package's archive; one that the registry names is used only if it is a plain name."""
    stem = described.file.removesuffix(".tar.gz")
    if described.file.endswith(".tar.gz") and re.fullmatch(LETTER_FIRST, stem) and len(stem) <= 200:
        return described.file
    return f"{otherwise}.tar.gz"


def _config(facts: ArtefactFacts, layer: Layer, choices: ArtefactChoices, *, with_inventory: bool = True) -> bytes:
    labels = {_PACKAGE: facts.package, _DIGEST: facts.digest}
    if with_inventory and facts.sealed is not None:
        labels[_INVENTORY] = facts.sealed
    labels |= {
        _OVERLAYS: " ".join(sorted(facts.overlays)),
        _EDITED: "\n".join(sorted(facts.edited)),
        _IMAGES: "\n".join(sorted(facts.images)),
    }
    if facts.folder != facts.package:
        labels[_FOLDER] = facts.folder
    system, architecture = choices.platform.split("/")
    return jsonio.compact_bytes(
        {
            "architecture": architecture,
            "os": system,
            "config": {"Labels": labels},
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id]},
            "history": [{"created_by": "mlpack push"}],
        }
    )


def time_text(seconds: int) -> str:
    """Return a time in seconds since 1970 as RFC 3339."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _annotations(facts: ArtefactFacts, choices: ArtefactChoices) -> dict[str, str]:
    values = {_TITLE: facts.package}
    if facts.title:
        values[_DESCRIPTION] = facts.title
    if choices.version is not None:
        values[_VERSION] = choices.version
    if choices.created is not None:
        values[CREATED] = time_text(choices.created)
    return {**values, _DIGEST: facts.digest, **dict(sorted(choices.annotations.items()))}


def _entry(kind: str, blob: Descriptor) -> dict[str, Any]:
    return {"mediaType": kind, "digest": blob.digest, "size": blob.size}


def chosen_annotations(pairs: Sequence[str], source: str | None, revision: str | None) -> dict[str, str]:
    """Return the annotations of `--annotation`, `--source` and `--revision`. Raises UsageError."""
    texts: dict[str, str] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or key in texts:
            raise UsageError(f"--annotation {pair}: expected KEY=VALUE, each key once")
        texts[key] = text
    return texts | {key: value for key, value in ((SOURCE, source), (REVISION, revision)) if value is not None}
