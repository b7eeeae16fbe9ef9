from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError, UsageError
from packager.service.callbacks.courier import SigningSecrets, read_secrets, sign

if TYPE_CHECKING:
    from pathlib import Path


GOOD = "whsec_" + base64.b64encode(b"a" * 32).decode()


def test_signature_equals_the_example_of_standard_webhooks(tmp_path: Path) -> None:
    """The values are those in the tests of the libraries of Standard Webhooks."""
    (tmp_path / "secret").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", encoding="utf-8")
    secrets = read_secrets(tmp_path / "secret", "callbacks.signing_secret_file")
    signature = sign(secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize("text", ["", "c2hvcnQ=", f"{GOOD}\nx", f"{GOOD}\n" * 9])
def test_read_secrets_refuses_files_without_a_valid_secret(text: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(text, encoding="utf-8")
    message = f"callbacks.signing_secret_file: {tmp_path}/secret: expected 24 to 64 bytes in base64, in 1 to 8 lines"
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        read_secrets(tmp_path / "secret", "callbacks.signing_secret_file")


def test_read_secrets_reports_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="secret cannot be read: no such file or directory"):
        read_secrets(tmp_path / "secret", "callbacks.signing_secret_file")


def test_signature_has_each_secret_of_a_file_that_is_read_again(tmp_path: Path) -> None:
    old, new = (base64.b64encode(letter * 32).decode() for letter in (b"o", b"n"))
    file = tmp_path / "secret"
    file.write_text(old, encoding="utf-8")
    secrets = SigningSecrets(file)
    secrets.read_all()
    before = sign(secrets.of("any"), "msg_1", 1, b"{}")
    file.write_text(f"whsec_{new}\n\n{old}\n", encoding="utf-8")
    both = sign(secrets.of("any"), "msg_1", 1, b"{}").split(" ")
    assert (len(both), both[1]) == (2, before)
    assert both[0] == sign([b"n" * 32], "msg_1", 1, b"{}")
    file.write_text("nothing", encoding="utf-8")
    with pytest.raises(UsageError, match=r"^callbacks\.signing_secret_file: .*: expected 24 to 64 bytes"):
        secrets.of("any")


def test_project_secrets_replace_the_secrets_of_the_server(tmp_path: Path) -> None:
    for name, letter in {"server": b"s", "research": b"r"}.items():
        (tmp_path / name).write_bytes(base64.b64encode(letter * 32))
    secrets = SigningSecrets(tmp_path / "server", {"research": tmp_path / "research"})
    assert secrets.of("research") == (b"r" * 32,)
    assert secrets.of("vision") == (b"s" * 32,)
    assert SigningSecrets(None, {"research": tmp_path / "research"}).of("vision") == ()
    (tmp_path / "research").unlink()
    with pytest.raises(ToolError, match=r"^projects\.research\.signing_secret_file: .* cannot be read"):
        secrets.read_all()
