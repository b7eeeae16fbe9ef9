"""Writes the reference of the REST API, in Markdown, from its OpenAPI document: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from packager.base import workfolder
from packager.service.api import app
from packager.service.api.document import document
from packager.service.api.reference import Operation, operations
from packager.service.config import ServerConfig
from packager.service.demo.cluster import SimulatedCluster
from packager.service.sealing import Sealer
from packager.service.server import Server
from packager.service.store.store import Store

_INTRODUCTION = """\
# The REST API

<!-- Made by `make docs` from the routes in packager/service/api: edit those. -->

A server answers the same at `/openapi.json` (OpenAPI 3.1) and shows it at `/api`. [What the operations
mean](service/api.md): roles, projects, limits, statuses and errors.
"""


def reference() -> str:
    """Return the whole document."""
    with workfolder.temporary() as folder:
        server = Server(
            ServerConfig(), Store(Path(folder) / "x.db"), SimulatedCluster(), Sealer(bytes(32)), emit=lambda _line: None
        )
        try:
            items = operations(document(app.make(server)))
        finally:
            server.close()
    return "\n".join([_INTRODUCTION, *map(_section, items)])


def _section(item: Operation) -> str:
    lines = [f"## {item.method} {item.path}", "", *item.text.splitlines(), ""]
    if item.inputs:
        lines += ["| name | in | form | meaning |", "|---|---|---|---|"]
    for entry in item.inputs:
        place = f"{entry.place}, required" if entry.required else entry.place
        lines.append(" | ".join((f"| `{entry.name}`", place, entry.form, f"{entry.text or '-'} |")))
    kind = f": {item.answer}" if item.answer else ""
    fields = f" with {', '.join(f'`{field}`' for field in item.fields)}" if item.fields else ""
    return "\n".join(
        [*lines, *([""] if item.inputs else []), f"Answer {' or '.join(item.statuses)}{kind}{fields}.", ""]
    )


if __name__ == "__main__":
    sys.stdout.write(reference())
