from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from packager.service.access.issuer_tokens import Issuer
from packager.service.access.sign_in import Client, Sessions
from packager.service.config import OidcConfig
from packager.service.page.sign_in import own_path
from packager.service.work import Owner
from tests.service.issuer import CLIENT, SECRET, FakeIssuer, running
from tests.service.page.conftest import ORIGIN, Site, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VIEWS = ("/jobs", "/new/countdown", "/definitions/countdown", "/templates/countdown-task", "/overview", "/tokens")


def test_user_signs_in_with_a_token_and_out(site: Site) -> None:
    answer = site.send("/sign-in", {"token": site.tokens["user"], "then": "/templates"}, None)
    assert (answer.status_code, answer.headers["location"]) == (303, "/templates")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
    assert site.tokens["user"] not in cookie
    assert "user user" in text_of(site.view("/templates", "user"))
    gone = site.send("/sign-out", role="user")
    assert (gone.status_code, gone.headers["location"]) == (303, "/sign-in")
    assert re.search(r"mlpack_session=(\"\"|null)?;.*(Max-Age=0|expires)", gone.headers["set-cookie"])


def test_invalid_token_is_refused_and_not_shown(shared: Site) -> None:
    answer = shared.send("/sign-in", {"token": "mlp_secret"}, None)
    assert answer.status_code == 401
    assert "The token is not valid, was removed, or has expired." in text_of(answer)
    assert "mlp_secret" not in answer.text


@pytest.mark.parametrize("path", ["/sign-in", *VIEWS])
def test_each_view_has_a_strict_policy(shared: Site, path: str) -> None:
    answer = shared.view(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert re.findall(r'(?:src|href|action)="(?!/|#|\?)[^"]*"', answer.text) == []
    assert re.findall(r"<script(?! src)|<style|\sstyle=|\son\w+=", answer.text) == []
    assert len(answer.content) < 60_000


@pytest.mark.parametrize("origin", ["", "https://evil.example", "http://testserver.local.evil.example"])
@pytest.mark.parametrize("path", ["/sign-out", "/new/countdown"])
def test_form_from_another_site_is_refused(shared: Site, path: str, origin: str) -> None:
    answer = shared.send(path, {"token": shared.tokens["admin"]}, Origin=origin)
    assert answer.status_code == 403
    assert "its Origin is another one" in text_of(answer)
    assert "set-cookie" not in answer.headers


def test_session_cookie_changes_jobs_by_the_api_from_this_origin_only(site: Site) -> None:
    cookie = {"Cookie": site.sign_in("user")}
    assert site.client.get("/v1/whoami", headers=cookie).json()["roles"] == {"*": "user"}
    body = {"taskDef": "countdown", "process": {"train": {"number": 1}}}
    for headers in ({}, {"Origin": "https://evil.example"}):
        assert site.client.post("/v1/jobs", json=body, headers={**cookie, **headers}).status_code == 403
    own = {**cookie, "Origin": site.origin}
    assert site.client.post("/v1/jobs", json=body, headers=own).status_code == 201


def test_server_without_tokens_refuses_changes_from_another_site(tmp_path: Path) -> None:
    site = Site(tmp_path / "open.db", trusted=True)
    with site.client:
        assert "asks for no token" in text_of(site.view("/jobs", None))
        assert site.post("/v1/jobs/x/cancel", role=None).status_code == 404
        assert site.post("/v1/jobs/x/cancel", role=None, headers={"Origin": "https://evil.example"}).status_code == 403
        assert (
            site.send("/tokens", {"name": "x", "role": "admin"}, None, Origin="https://evil.example").status_code == 403
        )


def test_session_ends_with_its_token(site: Site) -> None:
    identifier = next(item["id"] for item in site.get("/v1/tokens").json()["items"] if item["name"] == "user")
    assert site.view("/jobs", "user").status_code == 200
    assert site.send(f"/tokens/{identifier}/remove").status_code == 303
    assert site.view("/jobs", "user").status_code == 303


def test_session_ends_after_its_time_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.sign_in("user")
    monkeypatch.setattr("packager.service.access.sign_in.time.time", lambda: 2e10)
    assert site.view("/jobs", "user").headers["location"] == "/sign-in?then=%2Fjobs"


@pytest.mark.parametrize("cookie", ["x", "A" * 80, "%00"])
def test_forged_session_cookie_is_refused(shared: Site, cookie: str) -> None:
    headers = {b"Cookie": f"mlpack_session={cookie}".encode()}
    assert shared.client.get("/v1/whoami", headers=headers).status_code == 401


@pytest.mark.parametrize(
    "path",
    ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "/sign-out", "/a\r\nb", "/jöbs"],
)
def test_sign_in_redirects_to_paths_of_this_server_only(shared: Site, path: str) -> None:
    assert own_path(path) == "/jobs"
    assert shared.send("/sign-in", {"token": shared.tokens["user"], "then": path}, None).headers["location"] == "/jobs"


# with an issuer

ATTEMPT = "mlpack_sign_in"
SESSION = "mlpack_session"


class Visitor:
    """A browser without JavaScript, at a site where people sign in with an issuer.

    Attributes:
        cookies: The values of the cookies, by name.
    """

    def __init__(self, site: Site, fake: FakeIssuer) -> None:
        self.site = site
        self.fake = fake
        self.cookies: dict[str, str] = {}

    def get(self, path: str) -> Any:
        header = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = self.site.client.get(path, headers={"Cookie": header} if header else {}, follow_redirects=False)
        self._keep(answer)
        return answer

    def post(self, path: str) -> Any:
        header = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Cookie": header, "Origin": self.site.origin}
        answer = self.site.client.post(path, headers=headers, follow_redirects=False)
        self._keep(answer)
        return answer

    def _keep(self, answer: Any) -> None:
        for line in answer.headers.get_list("set-cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value
            if "Max-Age=0" in line:
                del self.cookies[name]
        self.site.client.cookies.clear()

    def asks(self, then: str = "/jobs") -> dict[str, str]:
        """Begin to sign in with the issuer; return the parameters of the authorization request."""
        answer = self.get(f"/sign-in/issuer?then={then}")
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"].startswith(f"{self.fake.url}/authorize?policy=p1&")
        return {key: values[0] for key, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}

    def is_led_back(self, then: str = "/jobs") -> str:
        """Sign in at the issuer; return the path, with its query, to which the issuer redirects."""
        return self.fake.authorize(self.asks(then)).removeprefix(ORIGIN)

    def signs_in(self, then: str = "/jobs") -> Any:
        answer = self.get(self.is_led_back(then))
        assert (answer.status_code, answer.headers.get("location")) == (303, then), text_of(answer)
        return answer


@pytest.fixture
def visitor(shared: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visitor]:
    """A visitor at the shared site, which has a new issuer."""
    with running() as fake:
        roles: Any = {"ml-users": "user", "ml-admins": "admin"}
        issuer = Issuer(OidcConfig(issuer=fake.url, audience="mlpack", roles=roles, client_id=CLIENT))
        server = shared.server
        shared.client.cookies.clear()
        client = Client(issuer, CLIENT, SECRET, ORIGIN)
        monkeypatch.setattr(server, "issuer", issuer)
        monkeypatch.setattr(server, "client", client)
        monkeypatch.setattr(server, "sessions", Sessions(server.sealer, server.store, client))
        yield Visitor(shared, fake)


def is_refused(answer: Any, message: str, status: int = 401) -> None:
    assert answer.status_code == status, answer.headers
    assert f"You are not signed in {message}" in text_of(answer)
    assert "Sign in with 127.0.0.1" in text_of(answer)
    assert "no-store" in answer.headers["cache-control"]
    assert SESSION not in str(answer.headers.get_list("set-cookie"))


def test_people_sign_in_with_the_issuer_and_sign_out(visitor: Visitor) -> None:
    first = visitor.get("/templates")
    page = visitor.get(first.headers["location"])
    assert 'href="/sign-in/issuer?then=/templates"' in page.text
    assert "With a token" in text_of(page)
    begun = visitor.get("/sign-in/issuer?then=/templates")
    kept = begun.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/sign-in", "Max-Age=600"} <= set(kept.split("; "))
    answer = visitor.signs_in("/templates")
    assert ATTEMPT not in visitor.cookies
    lines = answer.headers.get_list("set-cookie")
    cookie = next(line for line in lines if line.startswith(SESSION))
    assert {"HttpOnly", "SameSite=lax", "Path=/", "Max-Age=43200"} <= set(cookie.split("; "))
    assert "ada user" in text_of(visitor.get("/templates"))
    assert visitor.get("/tokens").status_code == 403
    assert visitor.get("/v1/whoami").json() == {
        "name": "ada",
        "key": f"{visitor.fake.url} u-1",
        "roles": {"*": "user"},
        "projects": ["default"],
    }
    gone = visitor.post("/sign-out")
    assert (gone.status_code, gone.headers["location"]) == (303, "/sign-in?out=issuer")
    bye = visitor.get(gone.headers["location"])
    assert "You have signed out here" in text_of(bye)


def test_addresses_take_turns_to_sign_in_with_the_issuer(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that one address sends in numbers keep nobody else waiting: see test_work.py."""
    owners: list[Owner] = []
    work = visitor.site.server.work
    run = work.run

    async def noted(owner: Owner, ask: Any) -> Any:
        owners.append(owner)
        return await run(owner, ask)

    monkeypatch.setattr(work, "run", noted)
    path = visitor.is_led_back()
    assert owners == []
    assert visitor.get(path).status_code == 303
    assert owners == [Owner("testclient", is_address=True)]


def test_authorization_request_has_fresh_state_nonce_and_code_challenge(visitor: Visitor) -> None:
    """The fake issuer does not check these parameters (RFC 6749, 7636; OpenID Connect Core)."""
    one, two = visitor.asks(), visitor.asks()
    assert one["redirect_uri"] == f"{ORIGIN}/sign-in/answer"
    assert one["scope"] == "openid profile"
    for key in ("state", "nonce", "code_challenge"):
        assert one[key] != two[key]
        assert len(one[key]) == 43


def test_page_can_be_a_public_client(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor.fake.secret = None
    server = visitor.site.server
    assert server.issuer is not None
    monkeypatch.setattr(server, "client", Client(server.issuer, CLIENT, None, ORIGIN))
    visitor.signs_in()


def test_oidc_callback_is_accepted_once_and_only_in_the_starting_browser(visitor: Visitor) -> None:
    path = visitor.is_led_back()
    begun = "this browser has not begun to sign in at http://testserver.local, or more than 10 minutes ago"
    is_refused(Visitor(visitor.site, visitor.fake).get(path), begun)  # login CSRF, in the browser of a victim
    kept = visitor.cookies[ATTEMPT]
    other = visitor.is_led_back()
    is_refused(visitor.get(path), begun)  # the state of an earlier attempt
    assert ATTEMPT in visitor.cookies
    assert visitor.get(other).status_code == 303
    is_refused(visitor.get(other), begun)
    visitor.cookies[ATTEMPT] = kept
    assert visitor.get(path).status_code == 303
    visitor.cookies[ATTEMPT] = kept
    is_refused(visitor.get(path), f"{visitor.fake.url[7:]} has answered 'invalid_grant': 'Code not valid'")


def test_code_of_another_attempt_is_refused(visitor: Visitor) -> None:
    """PKCE makes the code of an attacker worthless in the answer to the attempt of a victim."""
    attacker = Visitor(visitor.site, visitor.fake)
    code = parse_qs(urlsplit(attacker.is_led_back()).query)["code"][0]
    query = parse_qs(urlsplit(visitor.is_led_back()).query)
    path = f"/sign-in/answer?code={code}&state={query['state'][0]}&iss={visitor.fake.url}"
    is_refused(visitor.get(path), f"{visitor.fake.url[7:]} has answered 'invalid_grant': 'PKCE failed'")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("state=", "state=x"), "this browser has not begun to sign in"),
        (("state=", "s="), "this browser has not begun to sign in"),
        (("code=", "c="), "HOST has answered without a code"),
        (("code=", "code=" + "x" * 5000), "HOST has answered without a code"),
        (("code=", "error=access_denied&c="), "HOST has answered 'access_denied'"),
        (
            ("code=", "error=%3Cscript%3E&error_description=%3Cb%3Ehi%1b[31m%E2%80%AE" + "x" * 400 + "&c="),
            "HOST has answered '<script>': '<b>hi\\x1b[31m\\u202e" + "x" * 289 + "...'",
        ),
    ],
)
def test_invalid_oidc_callback_is_refused_with_a_message(
    visitor: Visitor, change: tuple[str, str], message: str
) -> None:
    path = visitor.is_led_back()
    is_refused(visitor.get(path.replace(*change)), message.replace("HOST", visitor.fake.url[7:]))
    assert "<script>" not in visitor.get(path.replace(*change)).text


def test_page_hides_the_error_description_without_a_started_attempt(visitor: Visitor) -> None:
    answer = visitor.get("/sign-in/answer?error=x&error_description=call+555&state=y")
    is_refused(answer, "this browser has not begun")
    assert "call 555" not in answer.text


@pytest.mark.parametrize(
    ("claims", "message", "status"),
    [
        ({"nonce": "x"}, "the token was made for another attempt to sign in", 401),
        ({"aud": "mlpack"}, "the token is not valid: Audience doesn't match", 401),
        ({"groups": ["else"]}, "ada is in no group that has a role", 403),
        ({"preferred_username": "<b>"}, "the claim preferred_username is '<b>': a name becomes a label", 403),
    ],
)
def test_refused_id_token_begins_no_session(
    visitor: Visitor, claims: dict[str, Any], message: str, status: int
) -> None:
    visitor.fake.claims = claims
    is_refused(visitor.get(visitor.is_led_back()), message, status)


@pytest.mark.parametrize(
    ("refused", "message", "status"),
    [
        ((401, {"error": "invalid_client"}), "HOST has answered 'invalid_client'", 503),
        ((400, [1]), "HOST has answered with status 400", 503),
        ((200, {"id_token": 5}), "HOST has answered without an ID token", 401),
        ((200, {"id_token": "x" * 20_000}), "the token is not valid: it is too long", 401),
        ((302, {}), "http://HOST/token redirects to", 503),
    ],
)
def test_invalid_answers_of_the_token_endpoint_are_refused(
    visitor: Visitor, refused: tuple[int, Any], message: str, status: int
) -> None:
    visitor.fake.refused = refused
    is_refused(visitor.get(visitor.is_led_back()), message.replace("HOST", visitor.fake.url[7:]), status)


@pytest.mark.parametrize("address", [None, 5])
def test_invalid_addresses_of_the_issuer_are_not_used(visitor: Visitor, address: Any) -> None:
    visitor.fake.document = {"authorization_endpoint": address}
    is_refused(visitor.get("/sign-in/issuer"), f"{visitor.fake.url[7:]} names no address at which people sign in", 503)


def test_unreachable_issuer_is_reported_on_the_sign_in_view(visitor: Visitor) -> None:
    visitor.fake.is_away = True
    is_refused(visitor.get("/sign-in/issuer"), "the keys of the issuer: http", 503)
    assert "Sign in with" in visitor.get("/sign-in?out=issuer").text


def test_attempt_cookie_and_session_cookie_are_not_interchangeable(visitor: Visitor) -> None:
    visitor.asks()
    attempt = visitor.cookies.pop(ATTEMPT)
    visitor.cookies[SESSION] = attempt
    assert visitor.get("/jobs").status_code == 303
    del visitor.cookies[SESSION]
    visitor.signs_in()
    path = visitor.is_led_back()
    visitor.cookies[ATTEMPT] = visitor.cookies[SESSION]
    is_refused(visitor.get(path), "this browser has not begun")


def test_sign_in_attempt_ends_after_its_time_limit(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    path = visitor.is_led_back()
    later = time.time() + 601
    monkeypatch.setattr("packager.service.access.sign_in.time.time", lambda: later)
    is_refused(visitor.get(path), "this browser has not begun")


def test_session_ends_with_the_id_token(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor.fake.claims = {"exp": int(time.time()) + 300}
    visitor.signs_in()
    assert visitor.get("/v1/whoami").json()["roles"] == {"*": "user"}
    later = time.time() + 301
    monkeypatch.setattr("packager.service.access.sign_in.time.time", lambda: later)
    assert visitor.get("/jobs").headers["location"] == "/sign-in?then=%2Fjobs"
    assert visitor.get("/v1/whoami").status_code == 401


def test_long_sign_in_form_is_refused(site: Site) -> None:
    assert site.send("/sign-in", {"token": "x" * 20_000}, None).status_code == 413
