"""Pulls from and pushes to one repository of a registry (OCI distribution-spec 1.1).

A registry may send anything: sizes are limited, and every manifest and blob is checked against its digest.
"""

from __future__ import annotations

import hashlib
import io
from functools import wraps
from typing import IO, TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from packager.base import jsonio
from packager.base.errors import ToolError, VerificationError
from packager.base.values import as_dict
from packager.base.web import PIECE, Content, TransientError
from packager.publish import manifest
from packager.publish.client import RegistryClient
from packager.publish.manifest import INDEX, MANIFEST, MANIFEST_BYTES, descriptor
from packager.publish.reference import dashed, is_digest, is_tag
from packager.publish.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.publish.client import Access
    from packager.publish.manifest import Descriptor
    from packager.publish.reference import PackageReference

    Advance = Callable[[int], object]

Options = ParamSpec("Options")
Result = TypeVar("Result")

_ACCEPTED = ", ".join(
    (
        *(MANIFEST, INDEX),
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    )
)

_WITHOUT_REFERRERS = (400, 404, 405)
"""The answers of registries that do not list referrers; the specification names 404."""

_TAGS_BYTES = 1 << 20
_MOST_TAGS = 1_000
_TRIES = 3
_MOST_VALUES = 50_000  # of a list of referrers


def _entries(content: bytes, digest: str) -> list[dict[str, Any]]:
    """Return the entries of a list of referrers. Raises VerificationError."""
    try:
        index = jsonio.read(content, max_values=_MOST_VALUES)
    except jsonio.JsonError as error:
        raise VerificationError(f"{digest}: the list of what refers to it is not valid: {error}") from None
    entries = index.get("manifests") if isinstance(index, dict) else None
    if not isinstance(entries, list):
        raise VerificationError(f"{digest}: the list of what refers to it is not valid: expected an index")
    return [entry for entry in entries if isinstance(entry, dict)]


def _retried(
    method: Callable[Concatenate[Repository, Options], Result],
) -> Callable[Concatenate[Repository, Options], Result]:
    """Let a method send its requests again after errors that pass."""

    @wraps(method)
    def retried(self: Repository, /, *arguments: Options.args, **options: Options.kwargs) -> Result:
        return self._client.retried(lambda: method(self, *arguments, **options))

    return retried


class Repository:
    """One repository of a registry."""

    def __init__(self, reference: PackageReference, access: Access, *, may_push: bool = False) -> None:
        self._client = RegistryClient(reference, access, may_push=may_push)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._client.close()

    def manifest(self, version: str) -> tuple[bytes, str]:
        """Return a manifest and its digest."""
        present = self.find_manifest(version)
        if present is None:
            raise ToolError(f"{self._client.shown(version)} not found")
        return present

    @_retried
    def find_manifest(self, version: str) -> tuple[bytes, str] | None:
        """Return a manifest and its digest; None if the registry has no such manifest."""
        with self._client.opened("GET", f"manifests/{version}", {"Accept": _ACCEPTED}) as response:
            if response.status == 404:
                return None
            self._client.expect(response, (200,), version)
            content = response.read(MANIFEST_BYTES, "the manifest")
            claimed = response.header("docker-content-digest")
        digest = descriptor(content).digest
        for expected in (version, claimed):
            if is_digest(expected) and expected != digest:
                raise VerificationError(
                    f"{self._client.shown(version)}: the registry has sent another manifest: "
                    f"expected {expected}, found {digest}"
                )
        return content, digest

    def referrers(self, digest: str) -> list[dict[str, Any]]:
        """Return the descriptors of the manifests that refer to another one, as others have written them.

        A registry without the API has them in an index with a tag (distribution-spec 1.1, "Referrers Tag Schema").
        """
        listed = self._referrers(digest)
        return self._tagged_referrers(digest) if listed is None else _entries(listed, digest)

    @_retried
    def _referrers(self, digest: str) -> bytes | None:
        with self._client.opened("GET", f"referrers/{digest}", {"Accept": INDEX}) as response:
            if response.status in _WITHOUT_REFERRERS:
                return None
            self._client.expect(response, (200,), digest)
            return response.read(MANIFEST_BYTES, "the list of referrers")

    def _tagged_referrers(self, digest: str) -> list[dict[str, Any]]:
        present = self.find_manifest(dashed(digest))
        return [] if present is None else _entries(present[0], digest)

    def _add_referrer(self, digest: str, entry: dict[str, Any]) -> None:
        """Add a manifest to the tag that lists those which refer to `digest`."""
        for _ in range(_TRIES):
            entries = self._tagged_referrers(digest)
            if any(other.get("digest") == entry["digest"] for other in entries):
                return
            index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*entries, entry]}
            self._put_manifest(dashed(digest), jsonio.compact_bytes(index), INDEX)
        if all(other.get("digest") != entry["digest"] for other in self._tagged_referrers(digest)):
            raise ToolError(f"the tag {dashed(digest)} is changed by other programs again and again", hint="push again")

    @_retried
    def digest_of(self, tag: str) -> str | None:
        """Return the digest of the manifest with a tag; None if there is no such tag."""
        with self._client.opened("HEAD", f"manifests/{tag}", {"Accept": _ACCEPTED}) as response:
            if response.status == 404:
                return None
            self._client.expect(response, (200,), tag)
            claimed = response.header("docker-content-digest")
        if is_digest(claimed):
            return claimed
        present = self.find_manifest(tag)
        return None if present is None else present[1]

    def put_manifest(self, version: str, content: bytes, kind: str = MANIFEST) -> None:
        """Store a manifest, so that it is listed as one that refers to another manifest if it names one."""
        found = manifest.read(content, self._client.shown(version))
        if self._put_manifest(version, content, kind) or found.subject is None:
            return
        entry: dict[str, Any] = {"mediaType": kind, **as_dict(descriptor(content))}
        if artifact_type := found.artifact_type or (found.config and found.config.media_type):
            entry["artifactType"] = artifact_type
        if found.annotations:
            entry["annotations"] = found.annotations
        self._add_referrer(found.subject.digest, entry)

    @_retried
    def _put_manifest(self, version: str, content: bytes, kind: str) -> bool:
        """Store a manifest, and return whether the registry lists it as one that refers to another manifest."""
        headers, body = {"Content-Type": kind}, Content(content, len(content))
        with self._client.opened("PUT", f"manifests/{version}", headers, body) as response:
            self._client.expect(response, (201,), version)
            self._client.expect_digest(response, descriptor(content).digest)
            return bool(response.header("oci-subject"))

    @_retried
    def tags(self) -> tuple[str, ...]:
        """Return the tags of the repository, as far as one answer lists them. Raises ToolError."""
        with self._client.opened("GET", f"tags/list?n={_MOST_TAGS}", {"Accept": "application/json"}) as response:
            if response.status == 404:
                return ()
            self._client.expect(response, (200,))
            content = response.read(_TAGS_BYTES, "the list of tags")
        try:
            body = jsonio.read(content)
        except jsonio.JsonError:
            body = None
        tags = body.get("tags") if isinstance(body, dict) else None
        return tuple(tag for tag in tags if isinstance(tag, str) and is_tag(tag)) if isinstance(tags, list) else ()

    def content(self, blob: Descriptor) -> bytes:
        """Return a blob of at most MANIFEST_BYTES bytes."""
        if blob.size > MANIFEST_BYTES:
            shown = self._client.shown(blob.digest)
            raise VerificationError(f"{shown}: expected at most {MANIFEST_BYTES >> 20} MiB, found {blob.size:,} bytes")
        stream = io.BytesIO()
        self.download(blob, stream)
        return stream.getvalue()

    def download(self, blob: Descriptor, stream: IO[bytes], advance: Advance = lambda _size: None) -> None:
        """Write a blob to a stream; if the connection breaks, continue where it broke.

        Raises:
            OSError: The stream cannot be written.
        """
        part = _Part(stream, advance)
        retries = self._client.retries()
        while True:
            begin = part.count
            try:
                self._download_rest(blob, part)
                break
            except TransientError as error:
                if part.count - begin >= PIECE:
                    retries.begin()
                retries.wait(error)
        if (part.count, part.digest) != (blob.size, blob.digest):
            raise VerificationError(
                f"{self._client.shown(blob.digest)}: the registry has sent other content: "
                f"expected {blob.size:,} bytes, found {part.count:,} with the digest {part.digest}"
            )

    def upload(
        self, blob: Descriptor, source: bytes | Path, advance: Advance = lambda _size: None, *, start: int = 0
    ) -> bool:
        """Store a blob, which begins at `start` in a file, and return whether it was sent: False if it was there."""
        return Upload(self._client, blob, source, start, advance).run()

    def _download_rest(self, blob: Descriptor, part: _Part) -> None:
        """Receive what is missing of a blob."""
        shown = self._client.shown(blob.digest)
        headers = {"Accept": "application/octet-stream"}
        if part.count:
            headers["Range"] = f"bytes={part.count}-"
        with self._client.opened("GET", f"blobs/{blob.digest}", headers, size=blob.size) as response:
            if response.status == 206 and part.count:
                if not response.header("content-range").startswith(f"bytes {part.count}-"):
                    raise ToolError(f"{shown}: the registry has sent another part than it was asked for")
            else:
                self._client.expect(response, (200,), blob.digest)
                part.restart()
            for piece in response.pieces():
                if part.count + len(piece) > blob.size:
                    raise VerificationError(f"{shown}: the registry has sent more than {blob.size:,} bytes")
                part.add(piece)


class _Part:
    """The beginning of a blob that has been received."""

    def __init__(self, stream: IO[bytes], advance: Advance) -> None:
        self.count = 0  # the number of bytes
        self._stream = stream
        self._start = stream.tell()
        self._advance = advance
        self._hashed = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The digest of what has been received."""
        return f"sha256:{self._hashed.hexdigest()}"

    def add(self, piece: bytes) -> None:
        """Write a piece."""
        self._stream.write(piece)
        self._hashed.update(piece)
        self.count += len(piece)
        self._advance(len(piece))

    def restart(self) -> None:
        """Forget what has been received."""
        if self.count:
            self._stream.seek(self._start)
            self._stream.truncate()
            self._advance(-self.count)
            self.count, self._hashed = 0, hashlib.sha256()
