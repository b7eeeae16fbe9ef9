"""A proxy of the API server that can stall all traffic without closing connections."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_LOOK_SECONDS = 0.5


class Line:
    """A proxy that passes bytes between clients on this machine and the API server.

    Attributes:
        port: The port of the proxy.
        whole: An event; while it is not set, no bytes pass, and no connection is closed or refused.
    """

    def __init__(self, server: tuple[str, int]) -> None:
        self.whole = threading.Event()
        self.whole.set()
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop accepting connections; open connections end with their peers."""
        self.whole.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        self.whole.wait()
        with client, socket.create_connection(self._server) as server, selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in ready.select(_LOOK_SECONDS):
                    self.whole.wait()
                    try:
                        data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                        key.data.sendall(data)
                    except OSError:
                        return
                    if not data:
                        return


@contextmanager
def line(kubeconfig: Path) -> Iterator[Line]:
    """Make a kubeconfig use a proxy of its API server during the block, and yield the proxy."""
    text = kubeconfig.read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    [entry] = config["clusters"]
    server = urlsplit(entry["cluster"]["server"])
    assert server.hostname
    connection = Line((server.hostname, server.port or 443))
    address = f"https://127.0.0.1:{connection.port}"
    entry["cluster"] |= {"server": address, "tls-server-name": server.hostname}
    kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
    try:
        yield connection
    finally:
        connection.close()
        kubeconfig.write_text(text, encoding="utf-8")
