"""A receiver of callbacks: a server on 127.0.0.1, with or without TLS, that sends the responses a test sets."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from cryptography import x509

from tests.certificates import self_signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Receiver:
    """A receiver of callbacks.

    Attributes:
        chunks: Returns the chunks of the response to the next connection; None stands for silence.
        requests: The received requests.
        names: The server name (SNI) of each TLS connection.
        port: The port of the server.
    """

    def __init__(self) -> None:
        self.chunks: Callable[[], Iterable[bytes | None]] = lambda: [OK]
        self.requests: list[bytes] = []
        self.names: list[str | None] = []
        self.port = 0
        self._connections: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}
        self._is_closed = False

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and write each chunk of the response; for None, wait until the client disconnects."""
        self._connections[asyncio.current_task()] = writer
        with suppress(ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            await self._answer(reader, writer)
        writer.transport.abort() if self._is_closed else writer.close()
        with suppress(ConnectionError, ssl.SSLError, TimeoutError):
            await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-len"))
        self.requests.append(head + await reader.readexactly(size))
        for chunk in self.chunks():
            if chunk is None:
                await reader.read()
                return
            writer.write(chunk)
            await writer.drain()

    async def close(self) -> None:
        """Abort all connections."""
        self._is_closed = True
        for writer in self._connections.values():
            writer.transport.abort()
        await asyncio.gather(*filter(None, self._connections), return_exceptions=True)


@asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """Yield a listening receiver."""
    receiver = Receiver()
    if tls:
        tls.sni_callback = lambda _socket, name, _context: receiver.names.append(name)
    server = await asyncio.start_server(receiver.handle, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        await receiver.close()


def certificates(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the TLS contexts of a server with a certificate for `name`, and of a client that trusts it."""
    certificate, private = self_signed(x509.DNSName(name))
    (folder / "server.pem").write_bytes(certificate + private)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(folder / "server.pem")
    return server, ssl.create_default_context(cadata=certificate.decode())
