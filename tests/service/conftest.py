from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.service import rendering
from packager.service.rendering import Renderer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def renderer() -> Iterator[Renderer]:
    """Fills in templates; on a machine that is busy with other things it may take its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendering, "_SECONDS", 300.0)
        renderer = Renderer()
        yield renderer
        renderer.close()
