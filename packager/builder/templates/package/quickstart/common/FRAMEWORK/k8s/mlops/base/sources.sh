#!/bin/sh
# Fetches files for the program of the pod, as the pod's user, before it starts. Each is fetched once for each volume: a
# file beside it has the digest of what was fetched, and a lock lets one of several pods fetch at a time. What has
# arrived is kept when a pod is stopped, and continued. Then it runs what the model does before the program, if there is
# something.
#
# It needs python3 alone. Where the image or the model's requirements have the client of a store, that client asks for
# the bytes: huggingface_hub for files in LFS, which it begins anew after a stop; botocore (a part of boto3); oras. The
# digests and sizes are always checked here.
#
# Usage: sources.sh [SOURCE PATH DIGEST SIZE SECRET]... -- [COMMAND...]
#
# SOURCE  https://HOST/FILE
#         hf://[datasets/]OWNER/NAME@REVISION[/FILE], of the hub at HF_ENDPOINT; without FILE all of its files
#         s3://BUCKET/KEY, of the server at AWS_ENDPOINT_URL; signed with the key in AWS_ACCESS_KEY_ID and
#         AWS_SECRET_ACCESS_KEY; or, at a server of AWS itself, with what botocore finds, such as the role of the pod's
#         ServiceAccount
#         oci://HOST/REPOSITORY@DIGEST, the layers of a manifest that have a title, as ORAS pushes them
# DIGEST  the sha256 of a file, or - where SOURCE itself names a commit or a digest
# SIZE    the most bytes
# SECRET  a variable with a bearer token (for oci:// also USER:PASSWORD), or - for none
set -eu
exec python3 - "$@" <<'END'
import base64, datetime, fcntl, hashlib, hmac, http.client, importlib.util, inspect, json, os, re, resource
import shutil, signal, sys, tempfile, time, urllib.error, urllib.parse, urllib.request
from contextlib import contextmanager
from functools import cache, partial
from typing import NamedTuple
from urllib.response import addinfourl

CHUNK, TRIES, SECONDS, MOST_FILES, MOST_PAGES, MOST_TEXT = 1 << 20, 5, 60, 10_000, 1_000, 32 << 20
TOKEN_SECONDS = 45  # a registry's token is valid for at least a minute
RELATIVE = re.compile(r"[A-Za-z0-9_@+-][A-Za-z0-9._@+-]*(/[A-Za-z0-9_@+-][A-Za-z0-9._@+-]*)*")
DIGEST = re.compile("sha256:[0-9a-f]{64}|git:[0-9a-f]{40}")
AWS = re.compile(r"https://([a-z0-9-]+\.)+amazonaws\.com(\.cn)?(:443)?")
HIDDEN = re.compile(r"(.*/)?\.git[a-z]+")  # .gitattributes is in nearly every repository, and of no use


class File(NamedTuple):
    """A file to fetch.

    The digest is sha256:…, or git:… for the name of a blob in Git. `open_from` asks for the bytes from a number on
    and returns the answer. `download`, if there is one, downloads the whole file to a folder and returns its path.
    """

    url: str
    path: str
    digest: str
    size: int
    open_from: object
    download: object = None


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


def range_header(begun):
    """Return the header that asks for the bytes from a number on."""
    return {"Range": f"bytes={begun}-"} if begun else {}


def opener(url, headers):
    """Return a function that asks for a file from a byte on; `headers` returns the headers of the request."""
    return lambda begun: ask(url, {**headers(), **range_header(begun)})


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
    """Return the next bytes of an answer. An error of TLS, of the network or of a client is not one of a file."""
    try:
        return answer.read(most)
    except Exception as error:
        raise ConnectionError(getattr(error, "strerror", None) or error) from None


def text(answer):
    """Return the content of a short document, and the headers of the answer."""
    with answer:
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

    def listed_file(name, path, digest, size):
        url = f"{endpoint}/{kind}{repository}/resolve/{revision}/{urllib.parse.quote(name)}"
        given = {"revision": revision, "repo_type": "dataset" if kind else "model", "endpoint": endpoint}
        token = os.environ.get(secret) or False
        download = partial(hub_download, repository, name, token=token, **given) if "sha256" in digest else None
        return File(url, path, digest, size, opener(url, lambda: headers), download)

    if digest != "-":
        yield listed_file(name, path, f"sha256:{digest}", size)
        return
    url = f"{endpoint}/api/{kind or 'models/'}{repository}/tree/{revision}?recursive=true"
    count = 0
    for _ in range(MOST_PAGES):
        content, answered = persist(url, lambda: text(ask(url, headers)))
        for entry in json.loads(content):
            listed = entry["path"]
            if entry["type"] != "file" or HIDDEN.fullmatch(listed) or name not in ("", listed):
                continue
            count += 1
            blob = f"sha256:{entry['lfs']['oid']}" if "lfs" in entry else f"git:{entry['oid']}"
            below = place(path, listed, "the repository") if not name else path
            yield listed_file(listed, below, blob, int(entry["size"]))
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


@cache
def hub_client():
    """Return the function of huggingface_hub that downloads a file; None if it is not installed, or too old."""
    if not importlib.util.find_spec("huggingface_hub"):
        return None
    # HF_HUB_OFFLINE is meant for the program, and nothing but the file is asked for.
    os.environ.update(HF_HOME=tempfile.mkdtemp(), HF_HUB_OFFLINE="0")
    os.environ.update(HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_TELEMETRY="1")
    from huggingface_hub import __version__, hf_hub_download

    # Up to 0.22, it writes to a path that the hub names.
    return hf_hub_download if tuple(map(int, __version__.split(".")[:2])) >= (0, 23) else None


def hub_download(repository, name, folder, **others):
    """Download a file of the hub to a folder with huggingface_hub; return its path, or None without a client."""
    client = hub_client()
    return client(repository, name, local_dir=folder, **others) if client else None


def bucket(path, digest, size):
    """Yield the file of a source s3://…: a request that is signed by AWS Signature Version 4, if there is a key."""
    name, _, key = source.removeprefix("s3://").partition("/")
    region = os.environ.get("AWS_REGION") or "us-east-1"
    server = ENDPOINT.rstrip("/") or f"https://s3.{region}.amazonaws.com"
    url = f"{server}/{name}/{urllib.parse.quote(key)}"
    client = s3_client(server, region)
    open_from = partial(s3_object, client, url, name, key) if client else opener(url, lambda: signed(url, region))
    yield File(url, path, f"sha256:{digest}", size, open_from)


def s3_client(server, region):
    """Return botocore's client of S3; None without a key for the server, or without botocore."""
    if not importlib.util.find_spec("botocore"):
        return None
    from botocore.config import Config
    from botocore.session import get_session

    try:
        session = get_session()
        if os.environ.get("AWS_ACCESS_KEY_ID"):
            session.set_credentials(*aws_key())
        elif not AWS.fullmatch(server) or not session.get_credentials():
            return None
        session.get_credentials().get_frozen_credentials()
        options, style = ({"endpoint_url": server}, {"addressing_style": "path"}) if ENDPOINT else ({}, {})
        options["verify"] = os.environ.get("SSL_CERT_FILE")
        times = {"connect_timeout": SECONDS, "read_timeout": SECONDS, "retries": {"total_max_attempts": 1}}
        return session.create_client("s3", region, config=Config(s3=style, **times), **options)
    except Exception as error:  # botocore's own classes of errors, and those of what it calls
        fail(source, f"botocore: {error}")


def s3_object(client, url, bucket_name, key, begun):
    """Return the answer to botocore's request for an object."""
    from botocore import exceptions

    try:
        answer = client.get_object(Bucket=bucket_name, Key=key, **range_header(begun))
    except exceptions.ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        raise urllib.error.HTTPError(url, status, error.response["Error"].get("Message", ""), {}, None) from None
    except exceptions.HTTPClientError as error:
        raise ConnectionError(error) from None
    except Exception as error:
        fail(source, f"botocore: {error}")
    return addinfourl(answer["Body"], {"Content-Range": answer.get("ContentRange", "")}, url, 206 if begun else 200)


def aws_key():
    """Return the id, the secret and the token of the key in the pod's variables."""
    return [os.environ.get(f"AWS_{name}", "") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")]


def signed(url, region):
    """Return the headers that sign a request for an object; none without a key. They are valid for 15 minutes."""
    key, secret, token = aws_key()
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

    opener_of = oras_opener({"Accept": kinds}, secret) or (lambda url: opener(url, headers))
    content, _ = persist(source, lambda: text(opener_of(f"{base}/manifests/{digest}")(0)))
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
        fail(source, "wrong digest of the manifest")
    layers = json.loads(content).get("layers") or []
    titled = [layer for layer in layers if "org.opencontainers.image.title" in layer.get("annotations", {})]
    if not titled or len(titled) > MOST_FILES:
        fail(source, f"it has no layer with a title, or more than {MOST_FILES}")
    for layer in titled:
        below = place(path, layer["annotations"]["org.opencontainers.image.title"], "the manifest")
        url = f"{base}/blobs/{layer['digest']}"
        yield File(url, below, layer["digest"], int(layer["size"]), opener_of(url))


def oras_opener(headers, secret):
    """Return a function like `opener` that asks with the client of ORAS; None if it is not installed, or too old."""
    if not importlib.util.find_spec("oras"):
        return None
    from oras.client import OrasClient
    from requests import RequestException

    if "auth_backend" not in inspect.signature(OrasClient).parameters:
        return None
    do_request = inspect.unwrap(OrasClient.do_request)  # or it would try again for minutes, whatever is wrong
    login = os.environ.get(secret, "")
    user, colon, password = login.partition(":")
    certificates = os.environ.get("SSL_CERT_FILE") or True

    def open_from(url, begun):
        """Ask with a new login, since the client does not renew one that has become too old."""
        status = 401
        for backend in ("basic", "token") if colon else ("token",):
            client = OrasClient(auth_backend=backend, tls_verify=certificates)
            client.session.request = partial(send_encrypted, client.session.request)
            if colon:
                client.auth.set_basic_auth(user, password)
            elif login:
                client.auth.set_token_auth(login)
            try:
                answer = do_request(client, url, headers={**headers, **range_header(begun)}, stream=True)
            except ValueError:  # it cannot log in as the registry asks for
                continue
            except RequestException as error:
                raise ConnectionError(error) from None
            status = answer.status_code
            if status < 300:
                return addinfourl(answer.raw, answer.headers, url, status)
            if status not in (401, 403):
                raise urllib.error.HTTPError(url, status, answer.reason, answer.headers, None)
            if not answer.headers.get("WWW-Authenticate", "").lower().startswith("bearer"):
                break  # or it would take the name of a realm as a host, and send the password to it
        raise urllib.error.HTTPError(url, status, "", {}, None)

    return lambda url: partial(open_from, url)


def send_encrypted(send, method, url, **others):
    """Send a request of the client of ORAS, which sets no timeout, and asks for tokens without TLS."""
    if not url.startswith("https://"):
        raise ValueError("a login is only sent by https")
    return send(method, url, timeout=SECONDS, **others)


def allowed(url, headers, secret):
    """Return the headers with which a registry answers: those of a token that it names, or of a password."""
    known = os.environ.get(secret, "")
    basic = {"Authorization": f"Basic {base64.b64encode(known.encode()).decode()}"} if ":" in known else {}

    def challenge():
        """Return how the registry wants to be asked; None if it answers."""
        try:
            text(ask(url, headers))
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
    granted, _ = persist(source, lambda: text(ask(f"{named['realm']}?{query}", basic)))
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
    try:
        with file.open_from(begun) as answer:
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


def by_client(file, part):
    """Download a file with the client of its store. Whatever goes wrong, this script fetches it, or says what is wrong.

    The client cannot write more than the file's size, or the client's log.
    """
    folder, limits = beside(file.path, "client"), resource.getrlimit(resource.RLIMIT_FSIZE)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        most = max(file.size, CHUNK)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most if limits[1] < 0 else min(most, limits[1]), limits[1]))
        if downloaded := file.download(folder=folder):
            os.replace(downloaded, part)
    except Exception as error:  # there are many clients, and versions of them
        print(f"sources: {plain(error)}; trying without the client", file=sys.stderr, flush=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        shutil.rmtree(folder, ignore_errors=True)


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


def note(file):
    """Note beside a file what it is."""
    with open(beside(file.path, "sha256"), "w") as stream:
        stream.write(f"{file.digest.partition(':')[2]} {file.size}\n")


def is_copied(file):
    """Return whether somebody has copied the file here, at a site without a network."""
    if not os.path.isfile(file.path) or os.path.exists(beside(file.path, "sha256")):
        return False
    return digest_of(file.path, file.digest.partition(":")[0]) == file.digest


def get(file):
    """Fetch a file, unless it was."""
    os.makedirs(os.path.dirname(file.path), exist_ok=True)
    part = beside(file.path, "part")
    kind, _, digest = file.digest.partition(":")
    with locked(file.path):
        if is_there(file.path, file.digest):
            return
        if is_copied(file):
            note(file._replace(size=os.path.getsize(file.path)))
            return
        if file.download and not os.path.exists(part):
            by_client(file, part)
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
        note(file)
    print(f"sources: {os.path.basename(file.path)} is fetched: {file.size} bytes", file=sys.stderr, flush=True)


def copied(path, listing):
    """Yield the files that `mlpack bundle` has fetched, which somebody has copied here with their list."""
    with open(listing) as stream:
        noted, *listed = json.load(stream)
    if noted != source:
        fail(source, f"{listing} lists the files of another source")
    for name, digest, size in listed:
        yield File(source, place(os.path.dirname(path), name, listing), digest, size, lambda _: fail(source, "missing"))


def files(path, digest, size, secret):
    """Return the files of the source."""
    if digest == "-" and os.path.exists(f"{path}.sources.json"):
        return list(copied(path, f"{path}.sources.json"))
    if source.startswith("hf://"):
        return list(hub(path, digest, size, secret))
    if source.startswith("s3://"):
        return list(bucket(path, digest, size))
    if source.startswith("oci://"):
        return list(registry(path, size, secret))
    return [File(source, path, f"sha256:{digest}", size, opener(source, lambda: bearer(secret)))]


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


end = sys.argv.index("--")
words, command = sys.argv[1:end], sys.argv[end + 1 :]
child = 0


def stop(*_):
    """End at once. The first process of a container ignores signals for which it has no handler."""
    if child:
        os.kill(child, signal.SIGKILL)
    os._exit(128 + signal.SIGTERM)


signal.signal(signal.SIGTERM, stop)
child = os.fork()
if not child:  # in a process of its own, since clients change the variables, and wait in code that handles no signal
    ENDPOINT = os.environ.pop("AWS_ENDPOINT_URL", "")  # botocore would ask this server of objects for keys
    os.environ.setdefault("AWS_RESPONSE_CHECKSUM_VALIDATION", "when_required")  # not all servers of S3 have checksums
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
    sys.exit()
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
if code:
    sys.exit(code if code > 0 else 128 - code)
if command:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # or the command would read the end of this script
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the command would, too
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"sources: {command[0]}: {error.strerror}")
END
