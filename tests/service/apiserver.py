"""An HTTP server that imitates the Kubernetes API, with objects in memory, for `mlpack serve` in a separate process.

Each new Job runs at once, writes one line to its log, and succeeds.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

Object = dict[str, Any]

_PATH = re.compile(
    r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/(?P<ns>[^/]+))?/(?P<kind>[^/]+)(?:/(?P<name>[^/]+)(?P<log>/log)?)?"
)

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: fake
contexts: [{{name: fake, context: {{cluster: fake, user: fake, namespace: jobs}}}}]
clusters: [{{name: fake, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: fake, user: {{}}}}]
"""


class ApiServer(ThreadingHTTPServer):
    """An API server. Its attributes are for tests.

    Attributes:
        objects: All objects, by plural and name.
        created: `PLURAL/NAME` of each object, in the order in which the objects were created.
        changes: The plural, the type and the object of each watch event.
        changed: The lock of all attributes; notified after each change.
        is_down: Whether watches end.
        watching: The number of open watches.
        log: The log of every pod.
        log_queries: The query of each request for a log.
        refusal: The message with which requests for logs are refused; None to answer them.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[tuple[str, str], Object] = {}
        self.created: list[str] = []
        self.changes: list[tuple[str, str, Object]] = []
        self.changed = threading.Condition()
        self.is_down = False
        self.watching = 0
        self.log = b"done\n"
        self.log_queries: list[dict[str, str]] = []
        self.refusal: str | None = None

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that were killed while they sent a request."""

    def put(self, kind: str, item: Object) -> Object:
        """Store an object, and return it. The caller holds the lock."""
        key = (kind, item["metadata"]["name"])
        word = "MODIFIED" if key in self.objects else "ADDED"
        if word == "ADDED":
            self.created.append("/".join(key))
        number = len(self.changes) + 1
        before = self.objects.get(key, {})
        metadata = {
            "uid": before.get("metadata", {}).get("uid", f"uid-{number}"),
            "creationTimestamp": "2026-11-22T10:00:00Z",
            **item["metadata"],
            "resourceVersion": str(number),
        }
        stored = {**before, **item, "metadata": metadata}
        self.objects[key] = stored
        self.changes.append((kind, word, stored))
        self.changed.notify_all()
        return stored

    def run_job(self, job: Object) -> None:
        """Add a succeeded pod and complete the Job, as the controller and the kubelet do. The caller holds the lock."""
        template = job["spec"]["template"]
        container = template["spec"]["containers"][0]["name"]
        status = {"name": container, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}, "restartCount": 0}
        self.put(
            "pods",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{job['metadata']['name']}-x2x9p",
                    "labels": template["metadata"]["labels"],
                    "ownerReferences": [
                        {
                            "apiVersion": "batch/v1",
                            "kind": "Job",
                            "name": job["metadata"]["name"],
                            "uid": job["metadata"]["uid"],
                        }
                    ],
                },
                "spec": {**template["spec"], "nodeName": "n1"},
                "status": {"phase": "Succeeded", "containerStatuses": [status]},
            },
        )
        self.put("jobs", {**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}})


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: ApiServer

    def do_GET(self) -> None:
        path, query = self._asked()
        if path["log"]:
            self.server.log_queries.append(query)
            if self.server.refusal:
                self._refuse(self.server.refusal, "BadRequest", 400)
                return
            self._send(b"2026-11-22T10:00:01Z " * ("timestamps" in query) + self.server.log)
        elif path["name"]:
            with self.server.changed:
                item = self.server.objects.get((path["kind"], path["name"]))
            self._answer(item)
        elif "watch" in query:
            self._watch(path["kind"], query)
        else:
            with self.server.changed:
                items = [item for key, item in self.server.objects.items() if key[0] == path["kind"]]
                version = str(len(self.server.changes))
            chosen = [item for item in items if _matches(item, query)]
            self._answer({"kind": "List", "metadata": {"resourceVersion": version}, "items": chosen})

    def do_PATCH(self) -> None:
        path, query = self._asked()
        text = self.rfile.read(int(self.headers["content-length"]))
        item = yaml.safe_load(text)
        if "dryRun" in query:
            self._answer(item)
            return
        with self.server.changed:
            is_new = (path["kind"], path["name"]) not in self.server.objects
            stored = self.server.put(path["kind"], item)
            if is_new and path["kind"] == "jobs":
                self.server.run_job(stored)
        self._answer(stored)

    def do_POST(self) -> None:
        path, query = self._asked()
        item = yaml.safe_load(self.rfile.read(int(self.headers["content-length"])))
        with self.server.changed:
            exists = (path["kind"], item["metadata"]["name"]) in self.server.objects
            if not exists and "dryRun" not in query:
                item = self.server.put(path["kind"], item)
        if exists:
            self._refuse("it already exists", "AlreadyExists", 409)
        else:
            self._answer(item)

    def do_DELETE(self) -> None:
        path, _ = self._asked()
        with self.server.changed:
            item = self.server.objects.pop((path["kind"], path["name"]), None)
            if item:
                self.server.changes.append((path["kind"], "DELETED", item))
                self.server.changed.notify_all()
        self._answer(item)

    def _asked(self) -> tuple[dict[str, str], dict[str, str]]:
        parts = urlsplit(self.path)
        match = _PATH.fullmatch(parts.path)
        assert match, self.path
        return match.groupdict(default=""), {key: values[0] for key, values in parse_qs(parts.query).items()}

    def _watch(self, kind: str, query: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        with self.server.changed:
            self.server.watching += 1
        try:
            self._send_changes(kind, query)
        finally:
            with self.server.changed:
                self.server.watching -= 1

    def _send_changes(self, kind: str, query: dict[str, str]) -> None:
        position = int(query.get("resourceVersion", "0"))
        while not self.server.is_down:
            with self.server.changed:
                while len(self.server.changes) == position and not self.server.is_down:
                    self.server.changed.wait(60)
                changes = self.server.changes[position:]
                position = len(self.server.changes)
            for known, word, item in changes:
                if known == kind and _matches(item, query):
                    try:
                        self.wfile.write(json.dumps({"type": word, "object": item}).encode() + b"\n")
                        self.wfile.flush()
                    except OSError:
                        return

    def _answer(self, item: Object | None) -> None:
        if item is None:
            self._refuse("not found", "NotFound", 404)
        else:
            self._send(json.dumps(item).encode())

    def _refuse(self, message: str, reason: str, code: int) -> None:
        status = {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}
        self._send(json.dumps(status).encode(), code)

    def _send(self, body: bytes, code: int = 200) -> None:
        with suppress(OSError):
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


def _matches(item: Object, query: dict[str, str]) -> bool:
    labels = dict(part.split("=") for part in query.get("labelSelector", "").split(",") if part)
    return bool(labels.items() <= item["metadata"].get("labels", {}).items())


Server = TypeVar("Server", bound=ApiServer)


@contextmanager
def served(kind: type[Server]) -> Iterator[Server]:
    """Yield a running API server of the class `kind`."""
    with kind() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.is_down = True
            with server.changed:
                server.changed.notify_all()
            server.shutdown()
            thread.join()
