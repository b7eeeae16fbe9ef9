"""The script of packages that fetches files: from Hugging Face's hub, S3 servers and registries of the test."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.builder.fetching import SCRIPT, fetch, files, sha256
from tests.web import Web, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMIT = "0123456789" * 4
SMALL, LARGE = b'{"layers": 2}\n', os.urandom(200_000)
TREE = f"/api/models/owner/name/tree/{COMMIT}?recursive=true"
FILES = f"/owner/name/resolve/{COMMIT}/"


def entry(path: str, content: bytes, *, is_lfs: bool = False, **others: Any) -> dict[str, Any]:
    """Return a file as the hub lists it: with the digest of LFS, or the name of a blob in Git."""
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
    lfs = {"lfs": {"oid": sha256(content), "size": len(content), "pointerSize": 134}} if is_lfs else {}
    return {"type": "file", "path": path, "size": len(content), "oid": blob, **lfs, **others}


def hub(web: Web, *entries: dict[str, Any], **contents: bytes) -> None:
    """Have a repository with files."""
    web.put(TREE, list(entries))
    for path, content in contents.items():
        web.put(FILES + path, content)


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


REPOSITORY = f"hf://owner/name@{COMMIT}"


def test_repository_of_the_hub_is_fetched_once(tmp_path: Path, web: Web) -> None:
    hub(web, entry("config.json", SMALL), {"type": "directory", "path": "shards"}, entry(".gitattributes", b"x"))
    web.answers[TREE] = (200, {"Link": f'<{web.url}{TREE}&cursor=x>; rel="next"'}, web.answers[TREE][2])
    web.put(
        f"{TREE}&cursor=x",
        [entry("shards/a b.bin", b"") | {"path": "shards/a.bin"}, entry("m.bin", LARGE, is_lfs=True)],
    )
    for name, content in (("config.json", SMALL), ("shards/a.bin", b""), ("m.bin", LARGE)):
        web.put(FILES + name, content)
    code, errors = fetch(tmp_path, REPOSITORY, HF_ENDPOINT=web.url)
    assert code == 0, errors
    assert files(tmp_path) == {"config.json": SMALL, "shards/a.bin": b"", "m.bin": LARGE}
    asked = len(web.requests)
    assert fetch(tmp_path, REPOSITORY, HF_ENDPOINT=web.url) == (0, "")
    assert len(web.requests) == asked
    (tmp_path / "data/m.bin").unlink()
    assert fetch(tmp_path, REPOSITORY, HF_ENDPOINT=web.url)[0] == 0
    assert [request.path for request in web.requests[asked:]] == [TREE, f"{TREE}&cursor=x", f"{FILES}m.bin"]


def test_single_file_of_the_hub_is_fetched_by_its_sha256_or_its_commit(tmp_path: Path, web: Web) -> None:
    web.put("/datasets/owner/name/resolve/main/a/b.csv", SMALL)
    source = "hf://datasets/owner/name@main/a/b.csv"
    assert fetch(tmp_path / "sha", source, digest=sha256(SMALL), size=len(SMALL), HF_ENDPOINT=f"{web.url}/")[0] == 0
    assert (tmp_path / "sha/data").read_bytes() == SMALL
    hub(web, entry("config.json", SMALL), entry("other", LARGE), **{"config.json": SMALL})
    assert fetch(tmp_path / "commit", f"{REPOSITORY}/config.json", HF_ENDPOINT=web.url)[0] == 0
    assert (tmp_path / "commit/data").read_bytes() == SMALL
    code, errors = fetch(tmp_path / "missing", f"{REPOSITORY}/missing", HF_ENDPOINT=web.url)
    assert (code, errors) == (1, f"sources: {REPOSITORY}/missing: not found\n")


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ([entry("../outside", SMALL)], "which is not accepted"),
        ([entry("a\x1b[31m", SMALL)], "which is not accepted"),
        ([entry("a", SMALL, oid="../../b")], "the server's answer is not understood"),
        (None, "the server's answer is not understood"),
        ([entry("a", SMALL, size=2_000_000)], "it has more than the 1000000 bytes that the spec names"),
        ([entry("a", SMALL, is_lfs=True) | {"lfs": {"oid": "0" * 64}}], "wrong digest: expected sha256 0000"),
        ([entry("a", LARGE) | {"size": len(SMALL)}], "wrong digest: expected git "),
    ],
)
def test_hostile_hub_is_refused(tmp_path: Path, web: Web, listed: object, why: str) -> None:
    web.put(TREE, listed)
    web.put(f"{FILES}a", SMALL)
    code, errors = fetch(tmp_path, REPOSITORY, HF_ENDPOINT=web.url)
    assert code == 1
    assert why in errors
    assert "\x1b" not in errors
    assert files(tmp_path) == {}


def test_list_that_leads_to_another_host_is_refused(tmp_path: Path, web: Web) -> None:
    web.put(TREE, [entry("a", SMALL)], Link='<https://elsewhere.example/next>; rel="next"')
    code, errors = fetch(tmp_path, REPOSITORY, HF_ENDPOINT=web.url)
    assert code == 1
    assert "the hub lists files elsewhere" in errors


@pytest.mark.thorough
def test_list_without_end_is_refused(tmp_path: Path, web: Web) -> None:
    web.put(TREE, [], Link=f'<{TREE}>; rel="next"')
    code, errors = fetch(tmp_path, REPOSITORY, HF_ENDPOINT=web.url)
    assert code == 1
    assert "more than 1000 pages" in errors
    assert len(web.requests) == 1000


def test_keys_of_a_bucket_are_not_sent_to_another_host(tmp_path: Path, web: Web) -> None:
    with serving() as other:
        web.put("/bucket/a", b"", 307, Location=f"{other.url}/a")
        other.put("/a", SMALL)
        names = "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"
        keys: dict[str, Any] = {f"AWS_{name}": "word" for name in names}
        digest = sha256(SMALL)
        assert (
            fetch(tmp_path, "s3://bucket/a", digest=digest, size=len(SMALL), AWS_ENDPOINT_URL=web.url, **keys)[0] == 0
        )
        (request,) = other.requests
        assert (request.path, request.authorization) == ("/a", None)
        assert not [name for name in request.headers if name.lower().startswith("x-amz-")]


def test_secret_is_not_sent_to_a_hub_without_tls(tmp_path: Path, web: Web) -> None:
    code, errors = fetch(tmp_path, REPOSITORY, login="WORD", WORD="word", HF_ENDPOINT=web.url)
    assert (code, errors) == (1, f"sources: {web.url}: a secret is only sent by https\n")
    assert web.requests == []


@pytest.mark.parametrize("with_clients", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_object_of_a_bucket_is_fetched_with_and_without_keys(tmp_path: Path, web: Web, *, with_clients: bool) -> None:
    web.put("/bucket/a%2Bb/c.bin", LARGE)
    source = "s3://bucket/a+b/c.bin"
    keys: dict[str, Any] = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "SECRET"}
    for number, given in enumerate(({}, keys)):
        code, errors = fetch(
            tmp_path / str(number),
            source,
            digest=sha256(LARGE),
            size=len(LARGE),
            with_clients=with_clients,
            AWS_ENDPOINT_URL=web.url,
            **given,
        )
        assert code == 0, errors
        assert (tmp_path / str(number) / "data").read_bytes() == LARGE
        assert "SECRET" not in errors
    anonymous, signed = (request.authorization for request in web.requests)
    assert anonymous is None
    assert signed is not None
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKID/")


def test_signatures_are_those_of_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    """The expected signatures were made by S3SigV4Auth of botocore 1.44.8, for this request, time and key."""

    signature = "446f45a43724704d567529570b009476be17d3d0de48eefdafb0da67bd4a8ec6"

    class Fixed(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Fixed:
            return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)

    program = SCRIPT.read_text(encoding="utf-8").partition("<<'END'\n")[2].partition("\nend = sys.argv")[0]
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - the script of this repository
    names["datetime"] = type("Clock", (), {"datetime": Fixed, "timezone": dt.timezone})
    for name, value in (("ACCESS_KEY_ID", "AKID"), ("SECRET_ACCESS_KEY", "SECRET"), ("SESSION_TOKEN", "session")):
        monkeypatch.setenv(f"AWS_{name}", value)
    url = "https://s3.eu-central-1.amazonaws.com/data.example/a%2Bb/c%401.bin"
    assert names["signed"](url, "eu-central-1")["Authorization"].endswith(f"Signature={signature}")


@pytest.fixture
def aws(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The variables of a pod with a role, and an object, in a test for whose script the server is one of AWS.

    The test runs with botocore, as a pod does whose image or requirements have it. EKS Pod Identity answers so.
    """
    script, pattern = tmp_path / "sources.sh", r'r"https://([a-z0-9-]+\.)+amazonaws\.com(\.cn)?(:443)?"'
    assert pattern in SCRIPT.read_text()
    script.write_text(SCRIPT.read_text().replace(pattern, f'"{web.url}"'))
    monkeypatch.setattr("tests.builder.fetching.SCRIPT", script)
    until = f"{dt.datetime.now(dt.UTC) + dt.timedelta(hours=6):%Y-%m-%dT%H:%M:%SZ}"
    web.put("/role", {"AccessKeyId": "ROLE", "SecretAccessKey": "SECRET", "Token": "session", "Expiration": until})
    web.put("/bucket/a", SMALL)
    return {"AWS_ENDPOINT_URL": web.url, "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{web.url}/role"}


@pytest.mark.thorough
def test_object_is_asked_for_with_the_role_of_the_pod(tmp_path: Path, web: Web, aws: dict[str, Any]) -> None:
    code, errors = fetch(tmp_path, "s3://bucket/a", digest=sha256(SMALL), size=len(SMALL), with_clients=True, **aws)
    assert code == 0, errors
    (asked, sent) = web.requests
    headers = {name.lower(): value for name, value in sent.headers.items()}
    assert (asked.path, sent.path, headers["x-amz-security-token"]) == ("/role", "/bucket/a", "session")
    assert (sent.authorization or "").startswith("AWS4-HMAC-SHA256 Credential=ROLE/")


@pytest.mark.thorough
def test_role_of_the_pod_is_not_used_for_another_server(tmp_path: Path, web: Web) -> None:
    web.put("/bucket/a", SMALL)
    given: dict[str, Any] = {"AWS_ROLE_ARN": "arn:aws:iam::1:role/x", "AWS_WEB_IDENTITY_TOKEN_FILE": __file__}
    given |= {"AWS_ENDPOINT_URL": web.url, "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{web.url}/role"}
    given |= {"with_clients": True}
    assert fetch(tmp_path, "s3://bucket/a", digest=sha256(SMALL), size=len(SMALL), **given)[0] == 0
    assert [(request.path, request.authorization) for request in web.requests] == [("/bucket/a", None)]


def manifest(**layers: bytes) -> bytes:
    """Return the manifest of an artefact with a layer for each file."""
    title = "org.opencontainers.image.title"
    listed = [
        {"digest": f"sha256:{sha256(content)}", "size": len(content), "annotations": {title: name.replace("_", ".")}}
        for name, content in layers.items()
    ]
    return json.dumps({"schemaVersion": 2, "layers": [*listed, {"digest": "sha256:0", "size": 1}]}).encode()


ALLOWED = {"Bearer": "Bearer granted", "Basic": "Basic dXNlcjp3b3Jk", None: None}


@pytest.mark.parametrize(
    ("scheme", "given", "with_clients"),
    [
        ("Bearer", "user:word", False),
        ("Bearer", "", False),
        ("Basic", "user:word", False),
        ("Basic", "", False),
        (None, "", False),
        pytest.param("Bearer", "user:word", True, marks=pytest.mark.thorough),
        pytest.param("Basic", "user:word", True, marks=pytest.mark.thorough),
    ],
)
def test_artefact_of_a_registry_is_fetched(
    tmp_path: Path, certificate: tuple[str, str], scheme: str | None, given: str, *, with_clients: bool
) -> None:
    text = manifest(a_bin=LARGE, b_json=SMALL)
    with serving(certificate) as web:
        host = web.url.removeprefix("https://")
        path = f"/v2/team/x/manifests/sha256:{sha256(text)}"
        web.put(path, text)
        if scheme is not None:
            web.put(f"{path} allowed", text)
            named = f'Bearer realm="{web.url}/token",service="s",scope="repository:team/x:pull"'
            challenge = named if scheme == "Bearer" else 'Basic realm="registry"'
            web.put(path, b"", 401, **{"WWW-Authenticate": challenge})
            web.put("/token?service=s&scope=repository%3Ateam%2Fx%3Apull", {"token": "granted"})
        for content in (LARGE, SMALL):
            blob = f"/v2/team/x/blobs/sha256:{sha256(content)}"
            web.put(blob, content)
            if scheme is not None:
                web.put(f"{blob} allowed", content)
                web.put(blob, b"", 401, **{"WWW-Authenticate": challenge})
            web.allows[blob] = web.allows[path] = ALLOWED[scheme]
        source = f"oci://{host}/team/x@sha256:{sha256(text)}"
        trusted: dict[str, Any] = {"SSL_CERT_FILE": certificate[0], "with_clients": with_clients}
        code, errors = fetch(tmp_path, source, login="LOGIN", LOGIN=given, **trusted)
        if scheme == "Basic" and not given:
            assert (code, errors) == (1, f"sources: {source}: no right to read it (status 401)\n")
            return
        assert code == 0, errors
        assert files(tmp_path) == {"a.bin": LARGE, "b.json": SMALL}
        blobs = [request for request in web.requests if "/blobs/" in request.path]
        assert blobs[-1].authorization == ALLOWED[scheme]
        assert with_clients or {request.authorization for request in blobs} == {ALLOWED[scheme]}
        assert with_clients == any("python-requests" in request.headers["User-Agent"] for request in blobs)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (manifest(a=SMALL).replace(b'"a"', b'"../a"'), "which is not accepted"),
        (json.dumps({"layers": []}).encode(), "it has no layer with a title"),
    ],
    ids=["outside", "empty"],
)
def test_hostile_artefact_is_refused(tmp_path: Path, certificate: tuple[str, str], text: bytes, why: str) -> None:
    with serving(certificate) as web:
        source = f"oci://{web.url.removeprefix('https://')}/team/x@sha256:{sha256(text)}"
        web.put(f"/v2/team/x/manifests/sha256:{sha256(text)}", text)
        code, errors = fetch(tmp_path, source, SSL_CERT_FILE=certificate[0])
        assert code == 1
        assert why in errors
        web.put(f"/v2/team/x/manifests/sha256:{sha256(text)}", text + b" ")
        assert "wrong digest of the manifest" in fetch(tmp_path, source, SSL_CERT_FILE=certificate[0])[1]
    assert files(tmp_path) == {}


@pytest.mark.thorough
def test_login_is_not_sent_by_the_client_of_a_registry_without_tls(
    tmp_path: Path, certificate: tuple[str, str], web: Web
) -> None:
    with serving(certificate) as registry:
        digest = sha256(b"{}")
        refused = {"WWW-Authenticate": f'Bearer realm="{web.url}/token"'}
        registry.put(f"/v2/x/manifests/sha256:{digest}", b"", 401, **refused)
        registry.put(f"/v2/x/manifests/sha256:{digest} allowed", b"", 401, **refused)
        source = f"oci://{registry.url.removeprefix('https://')}/x@sha256:{digest}"
        trusted: dict[str, Any] = {"SSL_CERT_FILE": certificate[0], "with_clients": True}
        code, errors = fetch(tmp_path, source, login="LOGIN", LOGIN="user:word", **trusted)
    assert (code, errors) == (1, f"sources: {source}: no right to read it (status 401)\n")
    assert web.requests == []


def in_xet(web: Web, name: str, content: bytes) -> None:
    """Have a file of the hub in Xet storage, whose content is in one block that is not compressed."""
    digest, block = "cd" * 32, "ab" * 32
    chunks = [content[begin : begin + 100_000] for begin in range(0, len(content), 100_000)]
    sizes = [len(chunk).to_bytes(3, "little") for chunk in chunks]
    stored = b"".join(b"\0" + size + b"\0" + size + chunk for size, chunk in zip(sizes, chunks, strict=True))
    known: dict[str, Any] = {"X-Repo-Commit": COMMIT, "ETag": f'"{sha256(content)}"'}
    known |= {"X-Linked-Size": str(len(content)), "X-Xet-Hash": digest, "X-Xet-Refresh-Route": f"{web.url}/xet-token"}
    web.put(FILES + name, content, **known)
    given: dict[str, Any] = {"X-Xet-Cas-Url": web.url, "X-Xet-Access-Token": "word"}
    given |= {"X-Xet-Token-Expiration": "9999999999"}
    web.put("/xet-token", {"accessToken": "word", "exp": 9_999_999_999, "casUrl": web.url}, **given)
    all_chunks = {"start": 0, "end": len(chunks)}
    at = {"range": all_chunks, "url": f"{web.url}/block", "url_range": {"start": 0, "end": len(stored) - 1}}
    term = {"hash": block, "unpacked_length": len(content), "range": all_chunks}
    listed = {"offset_into_first_range": 0, "terms": [term], "fetch_info": {block: [at]}}
    web.put(f"/v1/reconstructions/{digest}", listed)
    web.put("/block", stored, 206, **{"Content-Range": f"bytes 0-{len(stored) - 1}/{len(stored)}"})


@pytest.mark.thorough
def test_large_file_of_the_hub_is_fetched_from_xet_storage_by_its_client(tmp_path: Path, web: Web) -> None:
    """The program after it still has the variables of the pod, and the client leaves nothing on the volume."""
    hub(web, entry("config.json", SMALL), entry("m.bin", LARGE, is_lfs=True), **{"config.json": SMALL})
    in_xet(web, "m.bin", LARGE)
    given: dict[str, Any] = {"HF_ENDPOINT": web.url, "HF_HUB_OFFLINE": "1", "with_clients": True}
    code, errors = fetch(tmp_path, REPOSITORY, command=("sh", "-c", "env >&2"), **given)
    assert code == 0, errors
    assert {line for line in errors.splitlines() if line.startswith("HF_")} == {
        f"HF_ENDPOINT={web.url}",
        "HF_HUB_OFFLINE=1",
    }
    assert files(tmp_path) == {"config.json": SMALL, "m.bin": LARGE}
    paths = [request.path for request in web.requests if not request.path.startswith("/v")]
    assert paths == [TREE, f"{FILES}config.json", f"{FILES}m.bin", "/xet-token", "/block"]
    assert not [path for path in (tmp_path / "data").iterdir() if path.is_dir()]
    asked = len(web.requests)
    assert fetch(tmp_path, REPOSITORY, **given) == (0, "")
    assert len(web.requests) == asked


@pytest.mark.thorough
def test_file_is_fetched_without_the_client_if_the_client_fails(tmp_path: Path, web: Web) -> None:
    hub(web, entry("m.bin", LARGE, is_lfs=True), **{"m.bin": LARGE})
    code, errors = fetch(tmp_path, REPOSITORY, with_clients=True, HF_ENDPOINT=web.url)
    assert code == 0, errors
    assert re.search("^sources: [ -~]+; trying without the client$", errors, re.MULTILINE)
    assert files(tmp_path) == {"m.bin": LARGE}
