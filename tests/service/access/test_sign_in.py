from __future__ import annotations

import asyncio
import re
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from packager.base import rest
from packager.base.errors import ToolError, UsageError
from packager.service.access.oidc import Provider
from packager.service.access.sign_in import Attempt, Client, Signed, read_secret
from packager.service.failures import Failure

if TYPE_CHECKING:
    from pathlib import Path


def test_client_secret_is_read_from_a_file_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a b:c\n", encoding="utf-8")
    assert read_secret(tmp_path / "secret") == "a b:c"


@pytest.mark.parametrize("text", ["", "\n", "a\nb", "\u00e9", "x" * 1025, "\x00"])
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


def test_sign_ins_with_invented_codes_do_not_delay_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone can begin to sign in, and send any code."""
    is_over, codes = threading.Event(), []

    def post_form(_to: Any, _where: str, form: dict[str, str], **_: Any) -> rest.Answer:
        if form["grant_type"] == "authorization_code":
            codes.append(form["code"])
            is_over.wait(60)
            raise ToolError("the server has ended the connection")
        return rest.Answer(400, "application/json", {"error": "invalid_grant"})

    async def provider() -> Provider:
        return Provider(None, "https://issuer.example/token", None, takes_basic=True, names_itself=False)

    monkeypatch.setattr(rest, "post_form", post_form)
    url = "https://issuer.example"
    issuer: Any = SimpleNamespace(settings=SimpleNamespace(issuer=url, scopes=("openid",)), provider=provider)
    client = Client(issuer, "page", None, "https://train.example")
    attempt = Attempt(state="s", nonce="n", verifier="v", then="/jobs", until=int(time.time()) + 60)
    signed = Signed(issuer=url, subject="1", name="ada", groups=[], until=0, refresh="r")

    async def renew() -> str:
        with pytest.raises(Failure) as caught:
            await client.renew(signed)
        return caught.value.kind

    async def run() -> None:
        attempts = [asyncio.create_task(client.finish(attempt, {"state": "s", "code": "c"})) for _ in range(5)]
        while len(codes) < 2:  # noqa: ASYNC110 - of other threads
            await asyncio.sleep(0.01)
        try:
            async with asyncio.timeout(10):
                assert await renew() == "unauthenticated"  # what the issuer answers
        finally:
            is_over.set()
        failures = await asyncio.gather(*attempts, return_exceptions=True)
        assert {getattr(failure, "kind", "") for failure in failures} == {"issuer-unreachable"}
        assert await renew() == "unauthenticated"

    asyncio.run(run())
