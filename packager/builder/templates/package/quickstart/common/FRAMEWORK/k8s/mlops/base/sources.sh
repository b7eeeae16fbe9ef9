#!/bin/sh
# Fetches files for the program of the pod, as the pod's user, before it starts. Each is fetched once for each volume: a
# file beside it has the digest of what was fetched, and a lock lets one of several pods fetch at a time. What has
# arrived is kept when a pod is stopped, and continued. Then it runs what the model does before the program, if there is
# something.
#
# Usage: sources.sh [SOURCE PATH DIGEST SIZE SECRET]... -- [COMMAND...]
#
# SOURCE  https://HOST/FILE
#         hf://[datasets/]OWNER/NAME@REVISION[/FILE], of the hub at HF_ENDPOINT; without FILE all of its files
#         s3://BUCKET/KEY, of the server at AWS_ENDPOINT_URL; signed with the key in AWS_ACCESS_KEY_ID and
#         AWS_SECRET_ACCESS_KEY; or, at a server of AWS itself, with what botocore finds, if it is installed, such as
#         the role of the pod's ServiceAccount
#         oci://HOST/REPOSITORY@DIGEST, the layers of a manifest that have a title, as ORAS pushes them
# DIGEST  the sha256 of a file, or - where SOURCE itself names a commit or a digest
# SIZE    the most bytes
# SECRET  a variable with a bearer token (for oci:// also USER:PASSWORD), or - for none
set -eu
exec python3 - "$@" <<'END'
import base64, datetime, fcntl, hashlib, hmac, http.client, json, os, re, signal, sys, time
import urllib.error, urllib.parse, urllib.request
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

CHUNK, TRIES, SECONDS, MOST_FILES, MOST_PAGES, MOST_TEXT = 1 << 20, 5, 60, 10_000, 1_000, 32 << 20
TOKEN_SECONDS = 45  # a registry's token is valid for at least a minute
RELATIVE = re.compile(r"[A-Za-z0-9_@+-][A-Za-z0-9._@+-]*(/[A-Za-z0-9_@+-][A-Za-z0-9._@+-]*)*")
DIGEST = re.compile("sha256:[0-9a-f]{64}|git:[0-9a-f]{40}")
AWS = re.compile(r"https://([a-z0-9-]+\.)+amazonaws\.com(\.cn)?(:443)?")
HIDDEN = re.compile(r"(.*/)?\.git[a-z]+")  # .gitattributes is in nearly every repository, and of no use


class File(NamedTuple):
    """A file to fetch. The digest is sha256:…, or git:… for the name of a blob in Git; `headers` returns a dict."""

    url: str
    path: str
    digest: str
    size: int
    headers: object


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, never from https to something else, and sends no secret to another host."""

    def redirect_request(self, request, answer, *others):
        new = super().redirect_request(request, answer, *others)
        answer.close()  # or all of its content would be read, which may have no end
        if new is not None and new.type not in ("https", request.type):
            fail(request.full_url, f"it leads from {request.type} to {new.type}")
        if new is not None and origin(new.full_url) != origin(request.full_url):
            new.headers = {name: value for name, value in new.headers.items() if name in ("Accept", "Range")}
        return new


def origin(url):
    return urllib.parse.urlsplit(url)[:2]


def plain(why):
    """Return the words of a server or a library in printable characters, shortened."""
    return re.sub("[^ -~]", "?", f"{why!s:.500}")


def fail(url, why):
    sys.exit(f"sources: {plain(url.partition('?')[0])}: {plain(why)}")


def ask(url, headers):
    return urllib.request.build_opener(Redirects).open(urllib.request.Request(url, headers=headers), timeout=SECONDS)


def persist(url, work, part=None):
    """Return what `work` returns; try again when the network or the server fails for a moment.

    A try that has made the file `part` longer, by CHUNK bytes, is followed by as many others as the first one.
    """
    attempt, reached = 0, 0
    while True:
        attempt, wait = attempt + 1, 0
        try:
            return work()
        except urllib.error.HTTPError as error:
            words = {401: "no right to read it", 403: "no right to read it", 404: "not found"}
            if error.code < 500 and error.code not in (408, 416, 429):
                fail(url, f"{words.get(error.code, error.reason)} (status {error.code})")
            why = f"status {error.code}"
            after = error.headers.get("Retry-After") or ""
            wait = min(int(after), SECONDS) if re.fullmatch("[0-9]{1,9}", after) else 0
        except ValueError as error:
            fail(url, error)
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            why = getattr(error, "reason", error)
        if part and os.path.exists(part) and os.path.getsize(part) >= reached + CHUNK:
            attempt, reached = 1, os.path.getsize(part)
        if attempt == TRIES:
            fail(url, why)
        print(f"sources: {plain(why)}; trying again", file=sys.stderr, flush=True)
        time.sleep(max(attempt, wait))


def received(answer, most):
    """Return the next bytes of an answer. An error of TLS or of the network is not one of a file."""
    try:
        return answer.read(most)
    except OSError as error:
        raise ConnectionError(error.strerror or error) from None


def text(url, headers):
    """Return the content of a short document, and the headers of the answer."""
    with ask(url, headers) as answer:
        content = received(answer, MOST_TEXT + 1)
        if len(content) > MOST_TEXT:
            raise ValueError(f"it has more than {MOST_TEXT} bytes")
        return content, answer.headers


def bearer(secret):
    """Return the headers that send a token."""
    return {} if secret == "-" else {"Authorization": f"Bearer {os.environ.get(secret, '')}"}


def place(folder, name, listed):
    """Return the path of a listed file, which stays below the folder."""
    if not RELATIVE.fullmatch(name):
        fail(source, f"{listed} has a file with the name {name!r}, which is not accepted")
    return os.path.join(folder, name)


def hub(path, digest, size, secret):
    """Yield the files of a source hf://…"""
    kind, repository, revision, name = re.fullmatch("hf://(datasets/)?([^/@]+/[^/@]+)@([^/]+)/?(.*)", source).groups("")
    endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    if secret != "-" and not endpoint.startswith("https://"):
        fail(endpoint, "a secret is only sent by https")
    headers = bearer(secret)
    files = f"{endpoint}/{kind}{repository}/resolve/{revision}/"
    if digest != "-":
        yield File(files + name, path, f"sha256:{digest}", size, lambda: headers)
        return
    url = f"{endpoint}/api/{kind or 'models/'}{repository}/tree/{revision}?recursive=true"
    count = 0
    for _ in range(MOST_PAGES):
        content, answered = persist(url, lambda: text(url, headers))
        for entry in json.loads(content):
            listed = entry["path"]
            if entry["type"] != "file" or HIDDEN.fullmatch(listed) or name not in ("", listed):
                continue
            count += 1
            blob = f"sha256:{entry['lfs']['oid']}" if "lfs" in entry else f"git:{entry['oid']}"
            below = place(path, listed, "the repository") if not name else path
            yield File(files + urllib.parse.quote(listed), below, blob, int(entry["size"]), lambda: headers)
        following = re.search('<([^>]*)>; *rel="next"', answered.get("Link", ""))
        url = urllib.parse.urljoin(url, following[1]) if following else ""
        if not url or count > MOST_FILES:
            break
        if origin(url) != origin(endpoint):
            fail(source, "the hub lists files elsewhere")
    if url or count > MOST_FILES:
        fail(source, f"the hub lists more than {MOST_FILES} files, or more than {MOST_PAGES} pages")
    if not count:
        fail(source, "not found")


def bucket(path, digest, size):
    """Yield the file of a source s3://…: a request that is signed by AWS Signature Version 4, if there is a key."""
    name, _, key = source.removeprefix("s3://").partition("/")
    region = os.environ.get("AWS_REGION") or "us-east-1"
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    server = (endpoint or f"https://s3.{region}.amazonaws.com").rstrip("/")
    url = f"{server}/{name}/{urllib.parse.quote(key)}"
    yield File(url, path, f"sha256:{digest}", size, lambda: signed(url, region, AWS.fullmatch(server)))


@cache
def aws_credentials():
    """Return the credentials that botocore finds and renews; None without any, or without botocore."""
    try:
        import botocore.session
    except ImportError:
        return None
    return botocore.session.get_session().get_credentials()


def aws_key(with_role):
    """Return the id, the secret and the token of a key of AWS; three empty texts without one."""
    names = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
    if os.environ.get(names[0]) or not with_role:
        return [os.environ.get(name, "") for name in names]
    server = os.environ.pop("AWS_ENDPOINT_URL", None)  # botocore would ask this server of objects for keys
    try:
        found = aws_credentials()
        return [part or "" for part in found.get_frozen_credentials()[:3]] if found else ["", "", ""]
    except Exception as error:  # botocore's own classes of errors, and those of what it calls
        fail(source, f"no key from AWS: {error}")
    finally:
        if server is not None:
            os.environ["AWS_ENDPOINT_URL"] = server


def signed(url, region, with_role=False):
    """Return the headers that sign a request for an object; none without a key. They are valid for 15 minutes."""
    key, secret, token = aws_key(with_role)
    if not key:
        return {}
    parts = urllib.parse.urlsplit(url)
    now = datetime.datetime.now(datetime.timezone.utc)
    date, second = f"{now:%Y%m%d}", f"{now:%Y%m%dT%H%M%SZ}"
    headers = {"host": parts.netloc, "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": second}
    if token:
        headers["x-amz-security-token"] = token
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    request = "\n".join(["GET", parts.path, "", *lines, "", names, "UNSIGNED-PAYLOAD"])
    scope = f"{date}/{region}/s3/aws4_request"
    signing = "\n".join(["AWS4-HMAC-SHA256", second, scope, hashlib.sha256(request.encode()).hexdigest()])
    derived = f"AWS4{secret}".encode()
    for word in (date, region, "s3", "aws4_request", signing):
        derived = hmac.digest(derived, word.encode(), "sha256")
    access = f"Credential={key}/{scope}, SignedHeaders={names}, Signature={derived.hex()}"
    del headers["host"]
    return {**headers, "Authorization": f"AWS4-HMAC-SHA256 {access}"}


def registry(path, size, secret):
    """Yield the layers of a source oci://… that have a title."""
    host, repository, digest = re.fullmatch("oci://([^/]+)/(.+)@(sha256:[0-9a-f]{64})", source).groups()
    base = f"https://{host}/v2/{repository}"
    kinds = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
    granted = []

    def headers():
        """Return the headers that the registry accepts, of a token that is still valid."""
        if not granted or time.monotonic() > granted[1] + TOKEN_SECONDS:
            now = time.monotonic()
            granted[:] = allowed(f"{base}/manifests/{digest}", {"Accept": kinds}, secret), now
        return granted[0]

    content, _ = persist(source, lambda: text(f"{base}/manifests/{digest}", headers()))
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
        fail(source, "wrong digest of the manifest")
    layers = json.loads(content).get("layers") or []
    titled = [layer for layer in layers if "org.opencontainers.image.title" in layer.get("annotations", {})]
    if not titled or len(titled) > MOST_FILES:
        fail(source, f"it has no layer with a title, or more than {MOST_FILES}")
    for layer in titled:
        below = place(path, layer["annotations"]["org.opencontainers.image.title"], "the manifest")
        yield File(f"{base}/blobs/{layer['digest']}", below, layer["digest"], int(layer["size"]), headers)


def allowed(url, headers, secret):
    """Return the headers with which a registry answers: those of a token that it names, or of a password."""
    known = os.environ.get(secret, "")
    basic = {"Authorization": f"Basic {base64.b64encode(known.encode()).decode()}"} if ":" in known else {}

    def challenge():
        """Return how the registry wants to be asked; None if it answers."""
        try:
            text(url, headers)
        except urllib.error.HTTPError as error:
            if error.code >= 500 or error.code in (408, 429):
                raise
            return (error.headers.get("WWW-Authenticate") or "") if error.code == 401 else "Basic"

    wanted = persist(source, challenge)
    if wanted is None:
        return headers
    scheme, _, words = wanted.partition(" ")
    if scheme.lower() == "basic":
        return {**headers, **basic}
    named = dict(re.findall('([a-z]+)="([^"]*)"', words))
    if not named.get("realm", "").startswith("https://"):
        fail(source, "the registry names no address for tokens")
    query = urllib.parse.urlencode({name: named[name] for name in ("service", "scope") if name in named})
    if known and not basic:
        return {**headers, "Authorization": f"Bearer {known}"}
    granted, _ = persist(source, lambda: text(f"{named['realm']}?{query}", basic))
    token = json.loads(granted)
    return {**headers, "Authorization": f"Bearer {token.get('token') or token['access_token']}"}


def digest_of(path, kind):
    hashed = hashlib.sha256() if kind == "sha256" else hashlib.sha1(f"blob {os.path.getsize(path)}\0".encode())
    with open(path, "rb") as stream:
        while chunk := stream.read(CHUNK):
            hashed.update(chunk)
    return f"{kind}:{hashed.hexdigest()}"


def fetch(file, part):
    """Append to `part` what is missing of it."""
    begun = os.path.getsize(part) if os.path.exists(part) else 0
    if begun > file.size:
        os.unlink(part)
        begun = 0
    if begun == file.size:
        open(part, "ab").close()
        return
    headers = {**file.headers(), **({"Range": f"bytes={begun}-"} if begun else {})}
    try:
        with ask(file.url, headers) as answer:
            continues = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {begun}-")
            with open(part, "ab" if continues else "wb") as stream:
                while chunk := received(answer, CHUNK):
                    stream.write(chunk)
                    if stream.tell() > file.size:
                        os.unlink(part)
                        raise ValueError(f"it has more than the {file.size} bytes that are expected")
    except urllib.error.HTTPError as error:
        if error.code == 416:
            os.unlink(part)
        raise
    if os.path.getsize(part) < file.size:
        raise ConnectionError("the connection ended")


def beside(path, end):
    """Return the path of a file of this script beside another one."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".mlpack-{name}.{end}")


@contextmanager
def locked(path):
    """Keep the other pods from fetching or writing the same while the block runs."""
    with open(beside(path, "lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_there(path, digest):
    """Return whether a file was fetched."""
    if not os.path.exists(path) or not os.path.exists(beside(path, "sha256")):
        return False
    with open(beside(path, "sha256"), errors="replace") as stream:
        return stream.read().strip() == f"{digest.partition(':')[2]} {os.path.getsize(path)}"


def get(file):
    """Fetch a file, unless it was."""
    os.makedirs(os.path.dirname(file.path), exist_ok=True)
    part = beside(file.path, "part")
    kind, _, digest = file.digest.partition(":")
    with locked(file.path):
        if is_there(file.path, file.digest):
            return
        has_begun = os.path.exists(part)
        persist(file.url, lambda: fetch(file, part), part)
        found = digest_of(part, kind)
        if found != file.digest and has_begun:  # with bytes of another file, or of what this one was before
            os.unlink(part)
            persist(file.url, lambda: fetch(file, part), part)
            found = digest_of(part, kind)
        if found != file.digest:
            os.unlink(part)
            fail(file.url, f"wrong digest: expected {kind} {digest}, found {found.partition(':')[2]}")
        os.replace(part, file.path)
        with open(beside(file.path, "sha256"), "w") as stream:
            stream.write(f"{digest} {file.size}\n")
    print(f"sources: {os.path.basename(file.path)} is fetched: {file.size} bytes", file=sys.stderr, flush=True)


def files(path, digest, size, secret):
    """Return the files of the source."""
    if source.startswith("hf://"):
        return list(hub(path, digest, size, secret))
    if source.startswith("s3://"):
        return list(bucket(path, digest, size))
    if source.startswith("oci://"):
        return list(registry(path, size, secret))
    return [File(source, path, f"sha256:{digest}", size, lambda: bearer(secret))]


def is_complete(listing):
    """Return whether all files of a listing are there, so that nobody has to be asked for it again."""
    if not os.path.exists(listing):
        return False
    try:
        with open(listing) as stream:
            noted, *listed = json.load(stream)
        return noted == source and all(is_there(path, digest) for path, digest in listed)
    except (TypeError, ValueError):  # its node was lost while it was written
        return False


def write(listing, wanted):
    """Write down what the files of the source are."""
    with locked(path):
        with open(f"{listing}.new", "w") as stream:
            json.dump([source, *([file.path, file.digest] for file in wanted)], stream)
        os.replace(f"{listing}.new", listing)


# The first process of a container ignores signals for which it has no handler.
signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
end = sys.argv.index("--")
words, command = sys.argv[1:end], sys.argv[end + 1 :]
for index in range(0, len(words), 5):
    source, path, digest, most, secret = words[index : index + 5]
    listing = beside(path, "list") if digest == "-" else ""
    try:
        if listing and is_complete(listing):
            continue
        wanted = files(path, digest, int(most), secret)
        if any(file.size < 0 or not DIGEST.fullmatch(file.digest) for file in wanted):
            raise ValueError
        if sum(file.size for file in wanted) > int(most):
            fail(source, f"it has more than the {most} bytes that the spec names")
        for file in wanted:
            get(file)
        if listing:
            write(listing, wanted)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        fail(source, "the server's answer is not understood")
    except OSError as error:
        full = "no space left" if error.errno in (28, 122) else f"cannot be written: {error.strerror}"
        fail(source, f"{path}: {full}")
if command:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # or the command would read the end of this script
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the command would, too
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"sources: {command[0]}: {error.strerror}")
END
