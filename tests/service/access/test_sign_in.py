from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError, UsageError
from packager.service.access.sign_in import read_secret

if TYPE_CHECKING:
    from pathlib import Path


def test_client_secret_is_read_from_a_file_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a b:c\n", encoding="utf-8")
    assert read_secret(tmp_path / "secret") == "a b:c"


@pytest.mark.parametrize("text", ["", "a\nb", "x" * 1025])
def test_client_secret_file_without_one_ascii_line_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "secret").write_text(text, encoding="utf-8")
    message = f"oidc.client_secret_file: {tmp_path}/secret: expected one line of at most 1024 ASCII characters"
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        read_secret(tmp_path / "secret")


def test_missing_client_secret_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(
        ToolError, match=r"^oidc\.client_secret_file: .*secret cannot be read: no such file or directory"
    ):
        read_secret(tmp_path / "secret")
