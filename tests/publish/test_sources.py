"""Tests of `packager.publish.sources`: servers that have a source, refuse it, or send anything."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import ToolError
from packager.builder.render import TEMPLATES
from packager.publish import sources
from packager.publish.client import Access
from packager.publish.sources import Keys, SourceAnswer, SourceState, look_up, signed
from packager.publish.transport import Network, address
from tests.web import Web, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.publish.fake_registry import FakeRegistry

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
COMMIT = "0123456789" * 4
TREE = f"/api/models/owner/name/tree/{COMMIT}?recursive=true"
REPOSITORY = f"hf://owner/name@{COMMIT}"
DENIED, MISSING = SourceAnswer(SourceState.DENIED), SourceAnswer(SourceState.MISSING)


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        yield web


def ask(source: str, package: dict[str, str] | None = None, ca_file: str | None = None, **user: str) -> SourceAnswer:
    return look_up(source, Access(Network(ca_file=ca_file)), Keys(package or {}, user, NOW))


def there(size: int | None, *, with_key: bool = False) -> SourceAnswer:
    return SourceAnswer(SourceState.THERE, size, with_key)


def entry(path: str, size: Any) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": size}


def test_size_of_a_file_is_read_without_its_content(web: Web) -> None:
    web.put("/a?token=1", b"x" * 5_000_000)
    assert ask(f"{web.url}/a?token=1") == there(5_000_000)
    assert web.requests[0].headers["Range"] == "bytes=0-0"
    web.put("/part", b"x", 206, **{"Content-Range": "bytes 0-0/77"})
    assert ask(f"{web.url}/part") == there(77)
    web.put("/empty", b"", 416, **{"Content-Range": "bytes */0"})
    assert ask(f"{web.url}/empty") == there(0)


def test_refused_and_missing_files_are_two_states(web: Web) -> None:
    for status, answer in ((401, DENIED), (403, DENIED), (404, MISSING), (410, MISSING)):
        web.put("/a", b"", status)
        assert ask(f"{web.url}/a") == answer


@pytest.mark.parametrize("headers", [{"Content-Range": "bytes 0-0/*"}, {"Content-Range": f"bytes 0-0/{'9' * 30}"}])
def test_size_that_is_not_a_number_is_unknown(web: Web, headers: dict[str, str]) -> None:
    web.put("/a", b"x", 206, **headers)
    assert ask(f"{web.url}/a") == there(None)


def test_redirects_are_few_and_stay_encrypted(web: Web, certificate: tuple[str, str]) -> None:
    web.put("/loop", b"", 302, Location="/loop")
    with pytest.raises(ToolError, match="redirects more than 5 times"):
        ask(f"{web.url}/loop")
    with serving(certificate) as safe:
        safe.put("/a", b"", 302, Location=f"{web.url}/a")
        with pytest.raises(ToolError, match="leads to an address without encryption"):
            ask(f"{safe.url}/a", ca_file=certificate[0])
    web.put("/file", b"", 302, Location="file:///etc/passwd")
    with pytest.raises(ToolError, match="expected an http or https address"):
        ask(f"{web.url}/file")


def test_address_of_an_edited_package_is_refused() -> None:
    for source in ("file:///etc/passwd", "hf://owner", "s3://b/", "https://u:p@host/a", "\x1b[1m"):
        with pytest.raises(ToolError) as error:
            ask(source)
        assert "\x1b" not in str(error.value)


def test_repository_of_a_hub_has_the_size_of_its_files(web: Web) -> None:
    package = {"HF_ENDPOINT": f"{web.url}/"}
    web.put(TREE, [entry("a b", 3), entry(".gitattributes", 100)], Link=f'<{web.url}{TREE}&cursor=x>; rel="next"')
    web.put(f"{TREE}&cursor=x", [{"type": "directory", "path": "d"}, entry("d/m.bin", 40), entry("x", "9"), 1])
    web.put(f"/owner/name/resolve/{COMMIT}/a%20b", b"abc")
    assert ask(REPOSITORY, package) == there(43)
    web.put(f"/owner/name/resolve/{COMMIT}/a%20b", b"", 403)  # a gated repository
    assert ask(REPOSITORY, package).state is SourceState.DENIED
    web.put(f"/datasets/owner/name/resolve/{COMMIT}/d/a.csv", b"12345")
    assert ask(f"hf://datasets/owner/name@{COMMIT}/d/a.csv", package) == there(5)
    assert ask(f"hf://owner/other@{COMMIT}", package) == MISSING
    assert {request.authorization for request in web.requests} == {None}


@pytest.mark.parametrize("content", [b"[", b"{}"])
def test_list_of_a_hub_that_is_not_one_is_refused(web: Web, content: bytes) -> None:
    web.put(TREE, content)
    with pytest.raises(ToolError, match="something else than a list of files"):
        ask(REPOSITORY, {"HF_ENDPOINT": web.url})


@pytest.mark.parametrize("link", ["https://elsewhere.example/x", "{web.url}" + TREE])
def test_list_of_a_hub_ends_and_stays_at_the_hub(web: Web, link: str) -> None:
    web.put(TREE, [], Link=f'<{link.replace("{web.url}", web.url)}>; rel="next"')
    with pytest.raises(ToolError, match=r"at another server|more than 20 pages"):
        ask(REPOSITORY, {"HF_ENDPOINT": web.url})


def test_token_of_the_user_is_sent_only_to_the_hub_that_the_user_names(certificate: tuple[str, str]) -> None:
    with serving(certificate) as hub, serving(certificate) as other:
        source, file = f"{REPOSITORY}/a", f"/owner/name/resolve/{COMMIT}/a"
        hub.put(file, b"", 302, Location=f"{other.url}/blob")
        other.put("/blob", b"abc")
        package = {"HF_ENDPOINT": hub.url}
        user = {"HF_TOKEN": "word"}
        assert ask(source, package, certificate[0], HF_ENDPOINT=hub.url, **user) == there(3, with_key=True)
        assert ask(source, package, certificate[0], **user) == there(3)
        assert [request.authorization for request in hub.requests] == ["Bearer word", None]
        assert {request.authorization for request in other.requests} == {None}


def test_key_of_the_user_signs_only_for_the_server_that_the_user_names(web: Web) -> None:
    web.put("/bucket/a%2Bb/c", b"12345")
    package = {"AWS_ENDPOINT_URL": web.url}
    keys = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "SECRET", "AWS_SESSION_TOKEN": "session"}
    assert ask("s3://bucket/a+b/c", package, AWS_ENDPOINT_URL=web.url, **keys) == there(5, with_key=True)
    assert ask("s3://bucket/a+b/c", package, **keys) == there(5)
    own, other = web.requests
    assert (own.authorization or "").startswith("AWS4-HMAC-SHA256 Credential=AKID/20260102/us-east-1/s3/aws4_request,")
    assert other.authorization is None
    assert not [name for name in other.headers if name.lower().startswith("x-amz-")]


def test_region_cannot_lead_to_another_server() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "SECRET"}
    with pytest.raises(ToolError, match="not the name of a region"):
        ask("s3://bucket/a", {"AWS_REGION": "elsewhere.example/x"}, **keys)


@pytest.mark.parametrize(
    ("token", "signature"),
    [
        ("", "f4d2fa01eb52d82e7888e03f797e7f64b268ef0033873e2b5c673e8fc498933f"),
        ("session", "446f45a43724704d567529570b009476be17d3d0de48eefdafb0da67bd4a8ec6"),
    ],
)
def test_signatures_are_those_of_botocore(token: str, signature: str) -> None:
    """The expected signatures were made by S3SigV4Auth of botocore 1.44.8, for this request, time and key."""
    place = address("https://s3.eu-central-1.amazonaws.com/data.example/a%2Bb/c%401.bin")
    headers = signed(place, "eu-central-1", "AKID", "SECRET", token, NOW)
    assert headers["Authorization"].endswith(f"Signature={signature}")


def test_artefact_of_a_registry_has_the_size_of_its_layers(registry: FakeRegistry) -> None:
    title = {"org.opencontainers.image.title": "a.bin"}
    layers = [{"size": 30, "annotations": title}, {"size": 12, "annotations": title}, {"size": 5}, 1]
    digest = registry.put("team/x", "1", json.dumps({"layers": layers}).encode())
    source = f"oci://{registry.host}/team/x@"
    assert ask(source + digest) == there(42)
    assert ask(f"{source}sha256:{'0' * 64}") == MISSING
    for content in (b"[]", b"{}", b"{", json.dumps({"layers": [{"size": 1}]}).encode()):
        digest = registry.put("team/x", "1", content)
        with pytest.raises(ToolError, match="no layer with a title"):
            ask(source + digest)


def test_role_of_pods_is_for_servers_of_aws_alone() -> None:
    for variables, may in (
        ({}, True),
        ({"AWS_ENDPOINT_URL": "https://vpce-1.s3.eu-west-1.vpce.amazonaws.com/"}, True),
        ({"AWS_ENDPOINT_URL": "https://s3.cn-north-1.amazonaws.com.cn"}, True),
        ({"AWS_ENDPOINT_URL": "http://s3.eu-west-1.amazonaws.com"}, False),
        ({"AWS_ENDPOINT_URL": "https://amazonaws.com.example"}, False),
        ({"AWS_ENDPOINT_URL": "https://example/.amazonaws.com"}, False),
        ({"AWS_ENDPOINT_URL": "https://evilamazonaws.com"}, False),
    ):
        keys = Keys(variables, {}, NOW)
        assert sources.may_use_role("s3://bucket/a", keys) is may, variables
        assert not sources.may_use_role("hf://owner/name@main", keys)


def test_script_of_packages_uses_the_role_for_the_same_servers() -> None:
    script = TEMPLATES[""] / "package/quickstart/common/FRAMEWORK/k8s/mlops/base/sources.sh"
    assert f'AWS = re.compile(r"{sources._AWS.pattern}")' in script.read_text()  # noqa: SLF001
