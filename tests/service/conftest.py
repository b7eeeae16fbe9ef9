from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.service.rendering import Renderer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def renderer() -> Iterator[Renderer]:
    renderer = Renderer()
    yield renderer
    renderer.close()
