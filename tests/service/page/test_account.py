from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from packager.service.page.account import own_path
from tests.service.page.conftest import Site, text_of

if TYPE_CHECKING:
    from pathlib import Path

VIEWS = {
    "/jobs": "viewer",
    "/new": "viewer",
    "/new/countdown": "user",
    "/definitions": "viewer",
    "/definitions/countdown": "viewer",
    "/definitions/countdown/edit": "developer",
    "/new-definition": "developer",
    "/templates": "viewer",
    "/templates/countdown-task": "viewer",
    "/templates/countdown-task/edit": "admin",
    "/new-template": "admin",
    "/projects": "viewer",
    "/tokens": "admin",
}
ROLES = ("viewer", "user", "developer", "admin")


def test_a_token_signs_in_and_out(site: Site) -> None:
    answer = site.send("/sign-in", {"token": site.tokens["user"], "then": "/templates"}, None)
    assert (answer.status_code, answer.headers["location"]) == (303, "/templates")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
    assert site.tokens["user"] not in cookie
    assert "user user" in text_of(site.view("/templates", "user"))
    gone = site.send("/sign-out", role="user")
    assert (gone.status_code, gone.headers["location"]) == (303, "/sign-in")
    assert re.search(r"mlpack_session=(\"\"|null)?;.*(Max-Age=0|expires)", gone.headers["set-cookie"])


def test_a_faulty_token_is_refused_and_not_shown(shared: Site) -> None:
    answer = shared.send("/sign-in", {"token": "mlp_secret"}, None)
    assert answer.status_code == 401
    assert "The token is not valid, was removed, or has expired." in text_of(answer)
    assert "mlp_secret" not in answer.text


def test_the_cookie_is_secure_where_the_server_is_reached_by_https(site: Site) -> None:
    site.server.url = "https://train.example.com"
    answer = site.send("/sign-in", {"token": site.tokens["user"]}, None, Origin="https://train.example.com")
    assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize("path", VIEWS)
def test_each_view_has_the_access_rules_of_the_api(shared: Site, path: str) -> None:
    stranger = shared.view(path, None)
    assert (stranger.status_code, stranger.headers["location"]) == (303, f"/sign-in?then={path}")
    for role in ROLES:
        answer = shared.view(path, role)
        may = ROLES.index(role) >= ROLES.index(VIEWS[path])
        assert answer.status_code == (200 if may else 403), role
        assert may or f"expected the role {VIEWS[path]}, found {role}" in text_of(answer)


@pytest.mark.parametrize("path", [*VIEWS, "/sign-in"])
def test_each_view_forbids_what_comes_from_elsewhere(shared: Site, path: str) -> None:
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


@pytest.mark.parametrize(
    "origin", ["", "null", "https://evil.example", "http://testserver.local.evil.example", "file://"]
)
@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/tokens", "/new/countdown", "/jobs/x/delete"])
def test_a_form_of_another_site_is_refused(shared: Site, path: str, origin: str) -> None:
    answer = shared.send(path, {"token": shared.tokens["admin"]}, Origin=origin)
    assert answer.status_code == 403
    assert "its Origin is another one" in text_of(answer)
    assert "set-cookie" not in answer.headers


def test_the_session_also_opens_the_api_but_not_to_other_sites(site: Site) -> None:
    cookie = {"Cookie": site.sign_in("user")}
    assert site.client.get("/v1/whoami", headers=cookie).json()["roles"] == {"*": "user"}
    body = {"taskDef": "countdown", "process": {"train": {"number": 1}}}
    for headers in ({}, {"Origin": "https://evil.example"}):
        assert site.client.post("/v1/jobs", json=body, headers={**cookie, **headers}).status_code == 403
    own = {**cookie, "Origin": site.origin}
    assert site.client.post("/v1/jobs", json=body, headers=own).status_code == 201


def test_without_tokens_another_site_cannot_change_anything(tmp_path: Path) -> None:
    site = Site(tmp_path / "open.db", trusted=True)
    with site.client:
        assert "asks for no token" in text_of(site.view("/jobs", None))
        assert site.post("/v1/jobs/x/cancel", role=None).status_code == 404
        assert site.post("/v1/jobs/x/cancel", role=None, headers={"Origin": "https://evil.example"}).status_code == 403
        assert (
            site.send("/tokens", {"name": "x", "role": "admin"}, None, Origin="https://evil.example").status_code == 403
        )


def test_a_session_ends_with_its_token(site: Site) -> None:
    identifier = next(item["id"] for item in site.get("/v1/tokens").json()["items"] if item["name"] == "user")
    assert site.view("/jobs", "user").status_code == 200
    assert site.send(f"/tokens/{identifier}/remove").status_code == 303
    assert site.view("/jobs", "user").status_code == 303


def test_a_session_ends_with_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.sign_in("user")
    monkeypatch.setattr("packager.service.sessions.time.time", lambda: 2e10)
    assert site.view("/jobs", "user").headers["location"] == "/sign-in?then=/jobs"


@pytest.mark.parametrize("cookie", ["x", "AAAA", "A" * 80, "A" * 5000, "%00", "ä"])
def test_a_forged_session_is_refused(shared: Site, cookie: str) -> None:
    headers = {b"Cookie": f"mlpack_session={cookie}".encode()}
    assert shared.client.get("/v1/whoami", headers=headers).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "javascript:x",
        "",
        "/sign-out",
        "/a\r\nb",
        "/" * 3000,
    ],
)
def test_signing_in_leads_to_this_server_only(shared: Site, path: str) -> None:
    assert own_path(path) == "/jobs"
    assert shared.send("/sign-in", {"token": shared.tokens["user"], "then": path}, None).headers["location"] == "/jobs"


def test_a_token_is_created_shown_once_and_removed(site: Site) -> None:
    answer = site.send("/tokens", {"name": "ada", "role": "user", "days": "7"})
    assert answer.status_code == 201
    text = re.search(r"mlp_[\w-]{43}", answer.text)
    assert text
    assert site.get("/v1/whoami", None, headers={"x-api-key": text[0]}).json()["name"] == "ada"
    assert text[0] not in site.view("/tokens").text
    assert "ada" in text_of(site.view("/tokens"))


@pytest.mark.parametrize(
    "form", [{"name": "a b", "role": "user"}, {"name": "a", "role": "root"}, {"name": "a", "role": "user", "days": "x"}]
)
def test_a_faulty_token_form_keeps_what_was_filled_in(shared: Site, form: dict[str, str]) -> None:
    answer = shared.send("/tokens", form)
    assert answer.status_code == 422
    assert f'value="{form["name"]}"' in answer.text
    assert "Expected a name of at most 63 letters" in text_of(answer)
