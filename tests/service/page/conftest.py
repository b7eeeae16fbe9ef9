from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

import pytest
from litestar.testing import TestClient

from packager.service.api import limits
from packager.service.page import app
from tests.service import bodies
from tests.service.api.conftest import COUNTDOWN, Service, application

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORIGIN = "http://testserver.local"


class Site(Service):
    """A service with its page, and a browser without JavaScript for each role."""

    def __init__(self, path: Path, *, trusted: bool = False, **more: Any) -> None:
        super().__init__(path, trusted=trusted, **more)
        self.origin = "http://127.0.0.1" if trusted else ORIGIN
        self.sessions: dict[str, str] = {}

    def client_of(self, base: str) -> Any:
        """Return a browser."""
        return TestClient(application(app.make, self.server), base_url=base)

    def sign_in(self, role: str) -> str:
        """Sign in with the token of a role, and return the cookie of the session."""
        if role not in self.sessions:
            form = {"token": self.tokens[role], "then": "/jobs"}
            answer = self.client.post("/sign-in", data=form, headers={"Origin": self.origin}, follow_redirects=False)
            assert answer.status_code == 303, answer.text
            self.sessions[role] = answer.headers["set-cookie"].partition(";")[0]
            self.client.cookies.clear()
        return self.sessions[role]

    def view(self, path: str, role: str | None = "admin", **options: Any) -> Any:
        """Request a view in the session of a role; None for no session."""
        headers = {"Cookie": self.sign_in(role)} if role else {}
        return self.client.get(path, headers=headers, follow_redirects=False, **options)

    def send(self, path: str, form: dict[str, str] | None = None, role: str | None = "admin", **headers: str) -> Any:
        """Send a form in the session of a role; None for no session."""
        cookie = {"Cookie": self.sign_in(role)} if role else {}
        whole = {"Origin": self.origin, **cookie, **headers}
        return self.client.post(path, data=form or {}, headers=whole, follow_redirects=False)


def text_of(answer: Any) -> str:
    """Return the visible text of a view."""
    body = re.sub(r"<(script|style|head)\b.*?</\1>", " ", answer.text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site for the tests of a module that do not change it, and may send many requests without a pause."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_ANONYMOUS_PER_SECOND", 10_000)
        site = Site(tmp_path_factory.mktemp("shared") / "server.db")
    with site.client:
        assert site.post("/v1/definitions", COUNTDOWN).status_code == 201
        yield site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path / "server.db")
    with site.client:
        assert site.post("/v1/definitions", COUNTDOWN).status_code == 201
        yield site


@pytest.fixture
def digits(site: Site) -> Site:
    """The site, with the template and the definition of `bodies`."""
    assert site.post("/v1/templates", {"name": "digits-task", "template": bodies.TEMPLATE}).status_code == 201
    answer = site.post("/v1/definitions", bodies.definition())
    assert answer.status_code == 201, answer.text
    return site
