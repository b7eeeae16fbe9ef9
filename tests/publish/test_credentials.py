"""Tests of the files and helpers of docker and podman."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import ToolError
from packager.base.values import replace
from packager.publish import credentials
from packager.publish.credentials import Login
from packager.publish.reference import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

REFERENCE = parse("oci://registry.example.com:5000/team/model:1")
AUTH = base64.b64encode(b"robot:pa:55").decode()


def entry(**changes: str) -> dict[str, str]:
    return {"auth": AUTH, **changes}


def find(
    config: Any, tmp_path: Path, reference: str = str(REFERENCE), messages: list[str] | None = None
) -> Login | None:
    file = tmp_path / "config.json"
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    texts: list[str] = [] if messages is None else messages
    return credentials.find(parse(reference), (tmp_path / "missing.json", file), texts.append)


def test_login_is_found_under_each_form_of_key(tmp_path: Path) -> None:
    host = "registry.example.com:5000"
    for key in (host, f"https://{host}", f"https://{host}/v1/", f"{host}/", f"{host}/team", f"{host}/team/model"):
        login = find({"auths": {key: entry(), "registry.example.com": entry(auth="eDp5")}}, tmp_path)
        assert login is not None
        assert (login.username, login.password) == ("robot", "pa:55")
    for key in ("https://index.docker.io/v1/", "docker.io", "index.docker.io"):
        assert find({"auths": {key: entry()}}, tmp_path, "oci://docker.io/x:1") is not None


def test_longest_key_wins(tmp_path: Path) -> None:
    keys = {"registry.example.com:5000": "YTph", "registry.example.com:5000/team": "Yjpi", "registry": "Yzpj"}
    login = find({"auths": {key: {"auth": auth} for key, auth in keys.items()}}, tmp_path)
    assert login is not None
    assert login.username == "b"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"identitytoken": "a"}, Login("", "", "a")),
        ({"username": "robot", "password": "c"}, Login("robot", "c")),
        ({}, None),
        ({"auth": ""}, None),
    ],
)
def test_entry_may_have_tokens(content: dict[str, str], expected: Login | None, tmp_path: Path) -> None:
    login = find({"auths": {REFERENCE.host: content}}, tmp_path)
    assert login == (expected and replace(expected, source=str(tmp_path / "config.json")))


def test_broken_file_is_refused_without_its_content(tmp_path: Path) -> None:
    for config in ("{", "[]"):
        with pytest.raises(ToolError, match="is not a file of docker or podman: expected a JSON object"):
            find(config, tmp_path)


def test_broken_auth_is_refused_without_the_secret(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="expected a JSON object with logins") as error:
        find({"auths": {REFERENCE.host: {"auth": "s3cret!"}}}, tmp_path)
    assert "s3cret" not in str(error.value)


def helper(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the helper `test`."""
    program = folder / "docker-credential-test"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


HELPERS: Sequence[tuple[str, str, str | None]] = (
    ('read -r host; printf \'{"ServerURL": "%s", "Username": "robot", "Secret": "s3"}\' "$host"', "robot", None),
    ("echo 'credentials not found in native keychain'; exit 1", "", None),
    ("echo 's3cret: cannot open'; exit 3", "", "docker-credential-test has printed something else than credentials"),
    ("echo s3cret", "", "docker-credential-test has printed something else than credentials"),
    ("sleep 60", "", "docker-credential-test did not finish within 0.2 seconds"),
)


@pytest.mark.parametrize(("script", "user", "message"), HELPERS, ids=["login", "none", "failure", "garbage", "hang"])
def test_helper_is_asked_for_the_host(
    script: str, user: str, message: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper(tmp_path, script, monkeypatch)
    monkeypatch.setattr(credentials, "_HELPER_SECONDS", 0.2 if "sleep" in script else 20)
    messages: list[str] = []
    login = find({"credHelpers": {REFERENCE.host: "test"}}, tmp_path, messages=messages)
    assert (login.username if login else "") == user
    assert messages == ([] if message is None else [f"{REFERENCE.host} is used without credentials: {message}"])


def test_helper_may_give_an_identity_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper(tmp_path, 'echo \'{"Username": "<token>", "Secret": "t0ken"}\'', monkeypatch)
    login = find({"credsStore": "test"}, tmp_path)
    assert login is not None
    assert login.identity_token == "t0ken"  # noqa: S105 - not a password of anything


def test_files_are_read_in_the_order_of_podman_and_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"REGISTRY_AUTH_FILE": "/a.json", "XDG_RUNTIME_DIR": "/run/u", "DOCKER_CONFIG": "/d"}
    names = ["/a.json", "/run/u/containers/auth.json", "/d/config.json"]
    assert [str(file) for file in credentials.files(environment)] == names
    monkeypatch.setenv("HOME", "/home/x")
    assert credentials.files({}) == (Path("/home/x/.docker/config.json"),)


def test_login_hides_its_secrets() -> None:
    assert "s3cret" not in repr(Login("robot", "s3cret", "s3cret", "file"))
