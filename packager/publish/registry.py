"""Pulls from and pushes to one repository of a registry (OCI distribution-spec 1.1).

A registry may send anything: sizes are limited, and every manifest and blob is checked against its digest.
"""

from __future__ import annotations

import hashlib
from typing import IO, TYPE_CHECKING, Any, Self

from packager.base import jsonio, rest
from packager.base.errors import ToolError, VerificationError
from packager.base.values import FieldsError, Value, as_dict, from_json
from packager.base.web import Content, TransientError, address
from packager.publish.artefact import INDEX, MANIFEST, Source, descriptor, read_manifest
from packager.publish.client import RegistryClient
from packager.publish.reference import dashed, is_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from packager.publish.artefact import Descriptor
    from packager.publish.client import Access
    from packager.publish.reference import PackageReference

    Advance = Callable[[int], object]

_ACCEPTED = {
    "Accept": ", ".join(
        (
            *(MANIFEST, INDEX),
            "application/vnd.docker.distribution.manifest.v2+json",
            "application/vnd.docker.distribution.manifest.list.v2+json",
        )
    )
}

_WITHOUT_REFERRERS = (400, 404, 405)
"""The answers of registries that do not list referrers; the specification names 404."""

_FINISH_SECONDS = 600.0
"""The seconds that a registry may take to check and store a blob, beside those for its bytes."""

_TRIES = 3


class _Index(Value, frozen=True):
    manifests: list[dict[str, Any]]


def _entries(content: bytes, digest: str) -> list[dict[str, Any]]:
    """Return the entries of a list of referrers. Raises VerificationError."""
    try:
        return from_json(content, _Index).manifests
    except FieldsError as error:
        raise VerificationError(f"{digest}: the list of what refers to it is not valid: {error}") from None


class Repository(Source):
    """One repository of a registry."""

    def __init__(self, reference: PackageReference, access: Access, *, may_push: bool = False) -> None:
        self._client = RegistryClient(reference, access, may_push=may_push)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._client.close()

    def shown(self, version: str) -> str:
        """Return the repository with a tag or a digest."""
        return self._client.shown(version)

    def find_manifest(self, version: str) -> tuple[bytes, str] | None:
        """Return a manifest and its digest; None if the registry has no such manifest."""
        response, content = self._client.ask(
            "GET", f"manifests/{version}", (200, 404), version=version, headers=_ACCEPTED
        )
        if response.status == 404:
            return None
        digest = descriptor(content).digest
        for expected in (version, response.header("docker-content-digest")):
            if is_digest(expected) and expected != digest:
                raise VerificationError(
                    f"{self.shown(version)}: the registry has sent another manifest: "
                    f"expected {expected}, found {digest}"
                )
        return content, digest

    def referrers(self, digest: str) -> list[dict[str, Any]]:
        """Return the descriptors of the manifests that refer to another one, as others have written them.

        A registry without the API has them in an index with a tag (distribution-spec 1.1, "Referrers Tag Schema").
        """
        response, content = self._client.ask(
            "GET", f"referrers/{digest}", (200, *_WITHOUT_REFERRERS), version=digest, headers={"Accept": INDEX}
        )
        return _entries(content, digest) if response.status == 200 else self._tagged_referrers(digest)

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

    def digest_of(self, tag: str) -> str | None:
        """Return the digest of the manifest with a tag; None if there is no such tag."""
        response, _ = self._client.ask("HEAD", f"manifests/{tag}", (200, 404), version=tag, headers=_ACCEPTED)
        if response.status == 404:
            return None
        claimed = response.header("docker-content-digest")
        if is_digest(claimed):
            return claimed
        present = self.find_manifest(tag)
        return None if present is None else present[1]

    def is_to_set(self, tag: str, digest: str, *, force: bool) -> bool:
        """Whether a tag does not name a manifest yet. Raises VerificationError if it names another one, without force.

        `force` moves it.
        """
        present = self.digest_of(tag)
        if present not in (None, digest) and not force:
            message = f"{self.shown(tag)} names another artefact: expected {digest}, found {present}"
            raise VerificationError(message, hint="--force moves the tag")
        return present != digest

    def put_manifest(self, version: str, content: bytes) -> None:
        """Store a manifest, so that it is listed as one that refers to another manifest if it names one."""
        found = read_manifest(content, self.shown(version))
        if self._put_manifest(version, content, found.kind) or found.subject is None:
            return
        entry: dict[str, Any] = {"mediaType": found.kind, **as_dict(descriptor(content))}
        if artifact_type := found.artifact_type or (found.config and found.config.media_type):
            entry["artifactType"] = artifact_type
        if found.annotations:
            entry["annotations"] = found.annotations
        self._add_referrer(found.subject.digest, entry)

    def _put_manifest(self, version: str, content: bytes, kind: str) -> bool:
        """Store a manifest, and return whether the registry lists it as one that refers to another manifest."""
        headers, body = {"Content-Type": kind}, Content(content, len(content))
        response, _ = self._client.ask(
            "PUT", f"manifests/{version}", (201,), version=version, headers=headers, content=body
        )
        self._client.expect_digest(response, descriptor(content).digest)
        return bool(response.header("oci-subject"))

    def store(
        self,
        blobs: Mapping[Descriptor, tuple[bytes | Path, int]],
        manifests: Iterable[bytes],
        advance: Advance = lambda _size: None,
    ) -> tuple[str, ...]:
        """Store blobs, each a part of a file from an offset, and then manifests; return the digests of what is new."""
        sent = [blob.digest for blob, (source, start) in blobs.items() if self.upload(blob, source, advance, start)]
        for content in manifests:
            digest, subject = descriptor(content).digest, read_manifest(content, "").subject
            is_there = self.digest_of(digest) is not None
            if is_there and subject is not None:
                is_there = any(other.get("digest") == digest for other in self.referrers(subject.digest))
            if not is_there:
                self.put_manifest(digest, content)
                sent.append(digest)
        return tuple(sent)

    def download(self, blob: Descriptor, stream: IO[bytes], advance: Advance = lambda _size: None) -> None:
        """Write a blob to a stream; if the connection breaks, continue where it broke."""
        start, count, hashed = stream.tell(), 0, hashlib.sha256()
        shown = self.shown(blob.digest)

        def receive() -> None:
            nonlocal count, hashed
            headers = {"Accept": "application/octet-stream", **({"Range": f"bytes={count}-"} if count else {})}
            with self._client.opened("GET", f"blobs/{blob.digest}", headers, size=blob.size) as response:
                if response.status != 206 or not count:
                    self._client.expect(response, (200,), blob.digest)
                    stream.seek(start)
                    stream.truncate()
                    advance(-count)
                    count, hashed = 0, hashlib.sha256()
                for piece in response.pieces():
                    count += len(piece)
                    if count > blob.size:
                        raise VerificationError(f"{shown}: the registry has sent more than {blob.size:,} bytes")
                    stream.write(piece)
                    hashed.update(piece)
                    advance(len(piece))

        self._client.retried(receive)
        digest = f"sha256:{hashed.hexdigest()}"
        if (count, digest) != (blob.size, blob.digest):
            raise VerificationError(
                f"{shown}: the registry has sent other content: "
                f"expected {blob.size:,} bytes, found {count:,} with the digest {digest}"
            )

    def upload(
        self, blob: Descriptor, source: bytes | Path, advance: Advance = lambda _size: None, start: int = 0
    ) -> bool:
        """Store a blob, which begins at `start` in a file, and return whether it was sent: False if it was there."""
        count, is_begun = 0, False

        def sent(size: int) -> None:
            nonlocal count
            count += size
            advance(size)

        def send() -> bool:
            nonlocal is_begun
            head, _ = self._client.once("HEAD", f"blobs/{blob.digest}", (200, 404))
            if head.status == 200:  # also if only the answer to the last request was lost
                sent(blob.size - count)
                return is_begun
            is_begun = True
            sent(-count)
            begun, _ = self._client.once("POST", "blobs/uploads/", (202,))
            place, query = begun.location(), rest.path(digest=blob.digest)
            response, _ = self._client.once(
                "PUT",
                address(f"{place.text}{f'&{query[1:]}' if '?' in place.target else query}"),
                (201, 404),
                version=blob.digest,
                headers={"Content-Type": "application/octet-stream"},
                content=Content(source, blob.size, start, sent),
                seconds=_FINISH_SECONDS,
            )
            if response.status == 404:
                raise TransientError(self._client.shown(), "the registry has lost the upload")
            self._client.expect_digest(response, blob.digest)
            return True

        return self._client.retried(send)
