from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError, UsageError
from packager.service import sealing

if TYPE_CHECKING:
    from pathlib import Path


def test_sealer_opens_content_only_with_its_key_and_release() -> None:
    sealer = sealing.Sealer(b"k" * 32)
    sealed = sealer.seal({"0": {"x": "secret"}}, "job-1")
    assert b"secret" not in sealed
    assert sealer.open(sealed, "job-1") == {"0": {"x": "secret"}}
    for other, release in ((sealer, "job-2"), (sealing.Sealer(b"x" * 32), "job-1")):
        with pytest.raises(ToolError, match="the secret key is another one"):
            other.open(sealed, release)


def test_secret_key_is_created_once_beside_the_database(tmp_path: Path) -> None:
    key, created = sealing.key_beside(tmp_path / "server.db")
    assert created == tmp_path / "secret.key"
    assert created.stat().st_mode & 0o777 == 0o600
    assert sealing.key_beside(tmp_path / "server.db") == (key, None)
    created.write_text("short", encoding="ascii")
    with pytest.raises(UsageError, match=r"secret\.key: expected 32 bytes in base64$"):
        sealing.key_beside(tmp_path / "server.db")
