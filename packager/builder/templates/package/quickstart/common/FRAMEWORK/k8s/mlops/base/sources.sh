#!/bin/sh
# Fetches files for the program of the pod, as the pod's user, before it starts. Each is fetched once for each volume: a
# file beside it has the digest of what was fetched, and a lock lets one of several pods fetch at a time. What has
# arrived is kept when a pod is stopped, and continued. Then it runs what the model does before the program, if there is
# something.
#
# Usage: sources.sh [URL PATH SHA256 SIZE SECRET]... -- [COMMAND...]    SECRET is a variable, or - for none
set -eu
python3 - "$@" <<'END'
import fcntl, hashlib, http.client, os, sys, time, urllib.error, urllib.parse, urllib.request

CHUNK, TRIES, SECONDS = 1 << 20, 5, 60


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, never from https to something else, and takes the secret out of a request to another host."""

    def redirect_request(self, request, *others):
        new = super().redirect_request(request, *others)
        if new is not None and new.type not in ("https", request.type):
            fail(request.full_url, f"it leads from {request.type} to {new.type}")
        if new is not None and origin(new.full_url) != origin(request.full_url):
            new.headers.pop("Authorization", None)
        return new


def origin(url):
    return urllib.parse.urlsplit(url)[:2]


def fail(url, why):
    sys.exit(f"sources: {url.partition('?')[0]}: {why}")


def digest_of(path):
    hashed = hashlib.sha256()
    with open(path, "rb") as stream:
        while chunk := stream.read(CHUNK):
            hashed.update(chunk)
    return hashed.hexdigest()


def fetch(url, part, size, secret):
    """Append to `part` what is missing of it."""
    begun = os.path.getsize(part) if os.path.exists(part) else 0
    if begun > size:
        os.unlink(part)
        begun = 0
    if begun == size:
        open(part, "ab").close()
        return
    headers = {"Range": f"bytes={begun}-"} if begun else {}
    if secret != "-":
        headers["Authorization"] = f"Bearer {os.environ.get(secret, '')}"
    opener = urllib.request.build_opener(Redirects)
    with opener.open(urllib.request.Request(url, headers=headers), timeout=SECONDS) as answer:
        continues = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {begun}-")
        with open(part, "ab" if continues else "wb") as stream:
            while chunk := answer.read(CHUNK):
                stream.write(chunk)
                if stream.tell() > size:
                    raise ValueError(f"it has more than the {size} bytes that the spec names")
    if os.path.getsize(part) < size:
        raise ConnectionError("the connection ended")


def get(url, path, sha256, size, secret):
    """Fetch a file, unless it was."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    folder, name = os.path.split(path)
    mark, part = (os.path.join(folder, f".mlpack-{name}.{end}") for end in ("sha256", "part"))
    with open(os.path.join(folder, f".mlpack-{name}.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path) and os.path.exists(mark):
            with open(mark) as stream:
                if stream.read().strip() == f"{sha256} {os.path.getsize(path)}":
                    return
        for attempt in range(1, TRIES + 1):
            try:
                fetch(url, part, size, secret)
                break
            except urllib.error.HTTPError as error:
                words = {401: "no right to read it", 403: "no right to read it", 404: "not found"}
                if error.code < 500 and error.code not in (408, 416, 429):
                    fail(url, f"{words.get(error.code, error.reason)} (status {error.code})")
                why = f"status {error.code}"
                if error.code == 416:
                    os.unlink(part)
            except ValueError as error:
                os.unlink(part)
                fail(url, error)
            except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
                why = getattr(error, "reason", error)
            if attempt == TRIES:
                fail(url, why)
            print(f"sources: {why}; trying again", file=sys.stderr, flush=True)
            time.sleep(attempt)
        found = digest_of(part)
        if found != sha256:
            os.unlink(part)
            fail(url, f"wrong digest: expected sha256 {sha256}, found {found}")
        os.replace(part, path)
        with open(mark, "w") as stream:
            stream.write(f"{sha256} {size}\n")
    print(f"sources: {name} is fetched: {size} bytes", file=sys.stderr, flush=True)


words = sys.argv[1 : sys.argv.index("--")]
for index in range(0, len(words), 5):
    url, path, sha256, size, secret = words[index : index + 5]
    try:
        get(url, path, sha256, int(size), secret)
    except OSError as error:
        full = "no space left" if error.errno in (28, 122) else f"cannot be written: {error.strerror}"
        fail(url, f"{path}: {full}")
END
while [ "$1" != -- ]; do shift; done
shift
[ $# = 0 ] || exec "$@"
