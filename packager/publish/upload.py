"""Uploads one blob to a registry: in one request, or in pieces that are continued after an interruption.

Tests: publish/test_registry.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base import rest
from packager.base.web import PIECE, Content, TransientError, address

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.base.web import Address, Response
    from packager.publish.client import RegistryClient
    from packager.publish.manifest import Descriptor

PIECE_BYTES = 32 << 20
"""Larger blobs are sent in several requests of this size: proxies limit the size of one."""

_FINISH_SECONDS = 600.0
"""The seconds that a registry may take to check and store a large blob."""

_BYTES = "application/octet-stream"
_RANGE = re.compile(r"(?:bytes=)?0-([0-9]{1,15})")


class LostUploadError(TransientError):
    """The registry does not know an upload any more, or expects another part of it."""


class Upload:
    """The upload of a blob, which begins at `start` in a file; `advance` gets negative numbers for a repetition."""

    def __init__(
        self,
        client: RegistryClient,
        blob: Descriptor,
        source: bytes | Path,
        start: int,
        advance: Callable[[int], object],
    ) -> None:
        self._client = client
        self._blob = blob
        self._source = source
        self._start = start
        self._advance = advance
        self._is_in_pieces = blob.size > PIECE_BYTES
        self._is_begun = False
        self._place: Address | None = None
        self._offset = 0
        self._shown = 0

    def run(self) -> bool:
        """Upload the blob, and return whether it was sent; see `Repository.upload`."""
        retries = self._client.retries()
        while True:
            begin = self._offset
            try:
                return self._attempt()
            except TransientError as error:
                if self._offset - begin >= PIECE:
                    retries.begin()
                retries.wait(error)

    def _attempt(self) -> bool:
        """Send what is missing, and return whether anything was sent."""
        if self._is_stored():  # also if only the answer to the last request was lost
            self._show(self._blob.size)
            return self._is_begun
        self._is_begun = True
        if self._place is not None:
            self._place, self._offset = self._state(self._place) if self._is_in_pieces else (None, 0)
        if self._place is None:
            with self._client.opened("POST", "blobs/uploads/") as response:
                self._client.expect(response, (202,))
                self._place = response.location()
        if not self._is_in_pieces:
            self._show(0)
            self._finish(self._place, Content(self._source, self._blob.size, self._start, self._sent))
            return True
        while self._offset < self._blob.size:
            size = min(PIECE_BYTES, self._blob.size - self._offset)
            self._show(self._offset)
            self._place, reached = self._send(
                self._place, Content(self._source, size, self._start + self._offset, self._sent)
            )
            if not self._offset < reached <= self._blob.size:
                raise LostUploadError(self._client.shown(), "the registry has lost a part of the upload")
            self._offset = reached
        self._finish(self._place, None)
        return True

    def _is_stored(self) -> bool:
        with self._client.opened("HEAD", f"blobs/{self._blob.digest}") as response:
            if response.status == 404:
                return False
            self._client.expect(response, (200,), self._blob.digest)
            return True

    def _send(self, place: Address, content: Content) -> tuple[Address, int]:
        """Send a piece; return the address of the next request, and the offset that was reached."""
        end = self._offset + content.size
        headers = {"Content-Type": _BYTES, "Content-Range": f"{self._offset}-{end - 1}"}
        with self._client.opened("PATCH", place, headers, content) as response:
            if response.status in (404, 416):
                raise LostUploadError(self._client.shown(), "the registry has lost the upload")
            self._client.expect(response, (202,))
            return response.location(), _reached(response, end)

    def _state(self, place: Address) -> tuple[Address | None, int]:
        """Return the address and the offset at which the upload is continued; None and 0 if it is begun again."""
        with self._client.opened("GET", place) as response:
            reached = _reached(response, 0)
            if response.status != 204 or not 0 < reached <= self._blob.size:
                return None, 0
            next_place = response.location() if response.header("location") else place
            return next_place, 0 if reached == 1 else reached  # an upload without bytes says 0-0, too

    def _finish(self, place: Address, content: Content | None) -> None:
        """End the upload, with the whole blob if it was not sent in pieces."""
        query = rest.path(digest=self._blob.digest)
        where = address(f"{place.text}{f'&{query[1:]}' if '?' in place.target else query}")
        headers = {"Content-Type": _BYTES} if content else {}
        with self._client.opened("PUT", where, headers, content, seconds=_FINISH_SECONDS) as response:
            if response.status == 404:
                raise LostUploadError(self._client.shown(), "the registry has lost the upload")
            self._client.expect(response, (201,), self._blob.digest)
            self._client.expect_digest(response, self._blob.digest)

    def _sent(self, size: int) -> None:
        self._shown += size
        self._advance(size)

    def _show(self, offset: int) -> None:
        """Let the progress say that the bytes before `offset` are stored."""
        if self._shown != offset:
            self._advance(offset - self._shown)
            self._shown = offset


def _reached(response: Response, otherwise: int) -> int:
    """Return the offset in the header Range of an upload; `otherwise` without one."""
    match = _RANGE.fullmatch(response.header("range"))
    return int(match[1]) + 1 if match else otherwise
