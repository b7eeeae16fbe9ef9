"""Asks a server whether a source of a package can be fetched: whether it is there, its size, and the right to read it.

Only the beginning of a file is asked for. A server may send anything: answers are bounded in time and in size, and a
secret is sent to one server alone, by https.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from packager.base import jsonio, rest
from packager.base.errors import ToolError
from packager.base.problems import show
from packager.base.values import Value, replace
from packager.publish.reference import parse
from packager.publish.registry import Repository
from packager.publish.transport import HttpTransport, address

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from packager.publish.client import Access
    from packager.publish.transport import Address, Response

HUB, S3, OCI = "hf://", "s3://", "oci://"

_HUB = re.compile(r"hf://(datasets/)?([A-Za-z0-9._-]+)/([A-Za-z0-9._-]+)@([A-Za-z0-9._-]+)((?:/[A-Za-z0-9._@+-]+)*)")
_S3 = re.compile(r"s3://([a-z0-9.-]{3,63})/([-A-Za-z0-9._@+/]+)")
_HUB_SERVER = "https://huggingface.co"
_REGION = "us-east-1"

_AWS = re.compile(r"https://([a-z0-9-]+\.)+amazonaws\.com(\.cn)?(:443)?")
"""The S3 servers for which pods use a role in AWS, as in `sources.sh` of a package."""

_SILENT_SECONDS = 10.0
_SECONDS = 30.0
_MOVED = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_LIST_BYTES = 8 << 20
_LIST_VALUES = 200_000
_MOST_PAGES = 20
_NEXT = re.compile(r'<([^<>]*)>; *rel="next"')
_TITLE = "org.opencontainers.image.title"
_SIZE = re.compile(r"(?:bytes [0-9]+-[0-9]+|bytes \*)/([0-9]{1,18})")


class SourceState(StrEnum):
    """The answer of a server about a source, in a word."""

    THERE = "there"
    MISSING = "missing"
    DENIED = "denied"


class SourceAnswer(Value, frozen=True):
    """The answer about a source.

    Attributes:
        state: Whether it is there, and may be read.
        size: The bytes of all of its files; None if the server does not name them.
        with_key: Whether a key of the user was sent.
    """

    state: SourceState
    size: int | None = None
    with_key: bool = False


class Keys(Value, frozen=True):
    """The servers that a package names, and the keys of its user, by the names of environment variables.

    Attributes:
        package: The variables of the package.
        user: The variables of the user. Their keys are for the servers that the user's own variables name.
        now: The time of the requests.
    """

    package: Mapping[str, str]
    user: Mapping[str, str]
    now: dt.datetime


def look_up(source: str, access: Access, keys: Keys) -> SourceAnswer:
    """Return the answer of the server of a source.

    Args:
        source: The address in the spec.
        access: The way to the network, and to registries.
        keys: The servers and the keys.

    Raises:
        ToolError: The server cannot be reached, or does not answer as it must.
    """
    network = replace(access.network, silent=_SILENT_SECONDS, seconds=_SECONDS)
    if source.startswith(OCI):
        return _artefact(source, replace(access, network=network))
    transport = HttpTransport(network)
    try:
        if source.startswith(HUB):
            return _of_hub(source, transport, keys)
        if source.startswith(S3):
            return _of_bucket(source, transport, keys)
        return _file(address(source), transport)
    finally:
        transport.close()


def _file(first: Address, transport: HttpTransport, secret: Mapping[str, str] | None = None) -> SourceAnswer:
    """Return the answer about a file. The headers of the secret are sent to the first server alone."""
    place, sent = first, secret or {}
    for _ in range(_MOST_REDIRECTS + 1):
        own = sent if place.origin == first.origin else {}
        with transport.opened("GET", place, {**own, "Range": "bytes=0-0"}) as response:
            if response.status not in _MOVED:
                return replace(_answer(response), with_key=bool(sent))
            following = address(response.header("location"), place.text)
        if place.scheme == "https" != following.scheme:
            raise ToolError(f"{place.shown} leads to an address without encryption: {following.shown}")
        place = following
    raise ToolError(f"{first.shown} redirects more than {_MOST_REDIRECTS} times")


def _answer(response: Response) -> SourceAnswer:
    if response.status in (401, 403):
        return SourceAnswer(SourceState.DENIED)
    if response.status in (404, 410):
        return SourceAnswer(SourceState.MISSING)
    if response.status == 200:
        length = response.header("content-length")
        size = int(length) if re.fullmatch("[0-9]{1,18}", length) else None
        return SourceAnswer(SourceState.THERE, size)
    if response.status in (206, 416):
        match = _SIZE.fullmatch(response.header("content-range"))
        return SourceAnswer(SourceState.THERE, int(match[1]) if match else None)
    raise ToolError(f"{response.url.shown} has answered with status {response.status}")


def _of_hub(source: str, transport: HttpTransport, keys: Keys) -> SourceAnswer:
    """Return the answer of a hub about a file, or about all files of a repository."""
    match = _HUB.fullmatch(source)
    if match is None:
        raise ToolError(f"{show(source)} is not an address of a hub's repository")
    kind, owner, name, revision, file = match.groups("")
    server = (keys.package.get("HF_ENDPOINT") or _HUB_SERVER).rstrip("/")
    token = keys.user.get("HF_TOKEN", "")
    is_own = server == (keys.user.get("HF_ENDPOINT") or _HUB_SERVER).rstrip("/") and server.startswith("https://")
    secret = {"Authorization": f"Bearer {token}"} if is_own and _is_header(token) else {}
    files = f"{server}/{kind}{owner}/{name}/resolve/{revision}"
    if file:
        return _file(address(files + rest.path(*file[1:].split("/"))), transport, secret)
    first = address(f"{server}/api/{kind or 'models/'}{owner}/{name}/tree/{revision}?recursive=true")
    place: Address | None = first
    listed: list[tuple[str, int]] = []
    for _ in range(_MOST_PAGES):
        assert place is not None
        with transport.opened("GET", place, secret) as response:
            answer = replace(_answer(response), with_key=bool(secret))
            if answer.state is not SourceState.THERE:
                return answer
            following = _NEXT.search(response.header("link"))
            listed += _listed(response)
        place = address(following[1], place.text) if following else None
        if place is None:
            break
        if place.origin != first.origin:
            raise ToolError(f"{first.shown} lists files at another server: {place.shown}")
    else:
        raise ToolError(f"{first.shown} lists more than {_MOST_PAGES} pages of files")
    if not listed:
        return SourceAnswer(SourceState.MISSING, with_key=bool(secret))
    # A hub lists the files of a gated repository for everybody, and sends them to few.
    readable = _file(address(files + rest.path(*listed[0][0].split("/"))), transport, secret)
    return replace(readable, size=sum(size for _, size in listed))


def _listed(response: Response) -> list[tuple[str, int]]:
    """Return the files in a list of a hub that pods fetch, with their sizes."""
    try:
        entries = jsonio.read(response.read(_LIST_BYTES, "the list of files"), max_values=_LIST_VALUES)
    except jsonio.JsonError:
        entries = None
    if not isinstance(entries, list):
        raise ToolError(f"{response.url.shown}: the hub has sent something else than a list of files")
    files = [entry for entry in entries if isinstance(entry, dict) and entry.get("type") == "file"]
    return [
        (file["path"], file["size"])
        for file in files
        if isinstance(file.get("path"), str) and type(file.get("size")) is int and not _is_of_git(file["path"])
    ]


def _is_of_git(path: str) -> bool:
    return path.rpartition("/")[2].startswith(".git")


def _of_bucket(source: str, transport: HttpTransport, keys: Keys) -> SourceAnswer:
    """Return the answer of an S3 server about an object; with the user's key if it is for this server."""
    match = _S3.fullmatch(source)
    if match is None:
        raise ToolError(f"{show(source)} is not an address of an object in a bucket")
    region = _region(keys)
    if not re.fullmatch("[a-z0-9-]{1,32}", region):
        raise ToolError(f"AWS_REGION is not the name of a region: {show(region)}")
    server = _s3_server(keys.package, region)
    place = address(server + rest.path(match[1], *match[2].split("/")))
    is_own = server == _s3_server(keys.user, keys.user.get("AWS_REGION") or region)
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    key, secret, session = (keys.user.get(name, "") for name in names)
    is_usable = is_own and secret and _is_header(key) and (not session or _is_header(session))
    signature = signed(place, region, key, secret, session, keys.now) if is_usable else {}
    return _file(place, transport, signature)


def _region(keys: Keys) -> str:
    return keys.package.get("AWS_REGION") or _REGION


def may_use_role(source: str, keys: Keys) -> bool:
    """Whether pods can get the key for a source from AWS, by a role that the cluster gives them."""
    return source.startswith(S3) and _AWS.fullmatch(_s3_server(keys.package, _region(keys))) is not None


def _s3_server(variables: Mapping[str, str], region: str) -> str:
    return (variables.get("AWS_ENDPOINT_URL") or f"https://s3.{region}.amazonaws.com").rstrip("/")


def _is_header(text: str) -> bool:
    """Whether a text is a value of a header, and not empty."""
    return re.fullmatch("[!-~]{1,8192}", text) is not None


def signed(  # noqa: PLR0913, PLR0917 - what AWS signs
    place: Address, region: str, key: str, secret: str, session: str, now: dt.datetime
) -> dict[str, str]:
    """Return the headers that sign a GET of an object (AWS Signature Version 4), for 15 minutes.

    Args:
        place: The address, without a query.
        region: The region of the server.
        key: The name of the access key.
        secret: The access key.
        session: The token of a temporary key; empty for others.
        now: The time, in UTC.
    """
    second = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": place.authority, "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": second}
    if session:
        headers["x-amz-security-token"] = session
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    request = "\n".join(["GET", place.target, "", *lines, "", names, "UNSIGNED-PAYLOAD"])
    scope = f"{second[:8]}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", second, scope, hashlib.sha256(request.encode()).hexdigest()])
    digest = f"AWS4{secret}".encode()
    for word in (*scope.split("/"), text):
        digest = hmac.digest(digest, word.encode(), "sha256")
    credential = f"Credential={key}/{scope}, SignedHeaders={names}, Signature={digest.hex()}"
    del headers["host"]  # every request has it
    return {**headers, "Authorization": f"AWS4-HMAC-SHA256 {credential}"}


def _artefact(source: str, access: Access) -> SourceAnswer:
    """Return the answer of a registry about the layers of an artefact that have a title."""
    reference = parse(source)
    with Repository(reference, access) as registry:
        manifest = registry.find_manifest(reference.version or "")
    if manifest is None:
        return SourceAnswer(SourceState.MISSING)
    try:
        layers = jsonio.read_object(manifest[0]).get("layers")
    except jsonio.JsonError:
        layers = None
    titled = [layer for layer in layers if _has_title(layer)] if isinstance(layers, list) else []
    if not titled:
        raise ToolError(f"{source} has no layer with a title, which a file needs")
    return SourceAnswer(SourceState.THERE, sum(layer["size"] for layer in titled))


def _has_title(layer: Any) -> bool:
    annotations = layer.get("annotations") if isinstance(layer, dict) else None
    return isinstance(annotations, dict) and _TITLE in annotations and type(layer.get("size")) is int
