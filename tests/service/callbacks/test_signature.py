from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError, UsageError
from packager.service.callbacks.signature import read_secret, sign

if TYPE_CHECKING:
    from pathlib import Path


def test_the_example_of_the_specification_is_signed_alike(tmp_path: Path) -> None:
    """The values are those in the tests of the libraries of Standard Webhooks."""
    (tmp_path / "secret").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", encoding="utf-8")
    secret = read_secret(tmp_path / "secret")
    signature = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("text", ["", "whsec_", "c2hvcnQ=", "not base64 at all!", "A" * 200])
def test_a_file_without_a_secret_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(text, encoding="utf-8")
    message = f"callbacks.signing_secret_file: {tmp_path}/secret: expected 24 to 64 bytes in base64"
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        read_secret(tmp_path / "secret")


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="secret cannot be read: no such file or directory"):
        read_secret(tmp_path / "secret")
