"""A task service with a cluster in memory that listens on this machine."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from packager.service.api import app
from packager.service.serving import uvicorn_config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.service.api.conftest import Service


@contextmanager
def listening(service: Service) -> Iterator[str]:
    """Yield the address of a running server for a service."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn_config(app.make(service.server), service.server.limits))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)
