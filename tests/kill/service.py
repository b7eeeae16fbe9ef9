"""Kills a task service with SIGKILL while twenty jobs are created, repeatedly, and reports the states of the jobs.

No job may exist twice or be lost, each job's end must be reported to its endpoint, and the database must be sound.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

from tests.service.apiserver import KUBECONFIG, ApiServer, served

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

JOBS = 20
_SECONDS = 300.0
_AT_ONCE = 2  # callbacks to one host

_DEFINITION = {
    "name": "countdown",
    "task_template_name": "countdown-task",
    "user_values_description": "process:\n  train:\n    number: (Required:integer) Where to start\n"
    "endpoints:\n  - endpoint: (Optional) Where to report\n    type: (Optional) event\n",
    "user_values_example": "taskDef: countdown\nprocess:\n  train:\n    number: 5\n",
    "system_values": "image:\n  repository: registry.example.com/busybox\n  tag: '1'\n",
}


class _Hooks(ThreadingHTTPServer):
    """A receiver; attribute: the id, the release, the sequence and the status of each callback."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Hook)
        self.got: list[tuple[str, str, int, str]] = []


class _Hook(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, _Hooks)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.got.append((self.headers["webhook-id"], body["task_id"], body["sequence"], body["status"]))
        with suppress(OSError):
            self.send_response(204)
            self.end_headers()

    def log_message(self, *_: Any) -> None:
        return


class ServiceTrial:
    """A service in a folder; it is killed while jobs are created.

    Args:
        folder: The folder with its files.
        random: The source of the time of the kill.
        database: The database.
    """

    def __init__(self, folder: Path, random: Random, database: str = "s.db") -> None:
        self.folder = folder
        self._random = random
        self._database = database
        self._is_postgres = "://" in database
        self._port = _free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self.killed = 0
        self.released: dict[int, str] = {}

    def run(self, kills: int) -> list[str]:
        """Create the jobs, kill the service so often meanwhile, and return what is wrong afterwards."""
        hooks = _Hooks()
        threading.Thread(target=hooks.serve_forever, daemon=True).start()
        with served(ApiServer) as api, hooks:
            config = {"callbacks": {"allow": ["127.0.0.1"]}, "url": f"http://127.0.0.1:{self._port}"}
            (self.folder / "server.yaml").write_text(json.dumps(config), encoding="utf-8")
            (self.folder / "kubeconfig").write_text(KUBECONFIG.format(port=api.server_port), encoding="utf-8")
            creating = threading.Thread(target=self._create, args=(hooks.server_port,), daemon=True)
            try:
                self._start()
                self._until(lambda: self._call("POST", "/v1/definitions", _DEFINITION)[0] in (201, 409), "a definition")
                creating.start()
                while self.killed < kills:
                    time.sleep(self._random.uniform(0.0, 0.5))
                    self._kill()
                self._until(lambda: not creating.is_alive(), "all jobs to be created")
                self._until(lambda: self._all_told(hooks), "the end of each job to be told")
                self._until(lambda: self._count("SELECT count(*) FROM deliveries WHERE state = 'waiting'") == 0, "rest")
                self._until(self._is_up, "the service to answer")
                return self._wrong(api, hooks)
            finally:
                if self._server:
                    self._server.terminate()
                    self._server.wait(30)
                hooks.shutdown()

    def _kill(self) -> None:
        """Kill the service, and start it again."""
        assert self._server
        self._server.kill()
        self._server.wait()
        self.killed += 1
        self._start()
        if self._random.random() < 0.8:  # else it is killed while it starts, too
            self._until(self._is_up, "the service to answer")

    def _is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/healthz", timeout=30) as answer:
                return bool(answer.read())
        except OSError:
            return False

    def _start(self) -> None:
        argv = [sys.executable, "-m", "packager", "serve", "--insecure-no-auth", "--config=server.yaml"]
        argv += [f"--database={self._database}", f"--listen=127.0.0.1:{self._port}"]
        environment = {**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig")}
        if self._is_postgres:
            environment["MLPACK_SECRET_KEY"] = base64.b64encode(b"k" * 32).decode()
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(argv, cwd=self.folder, env=environment, stderr=log, stdout=log)

    def _create(self, port: int) -> None:
        """Create each job, with a key, until there is an answer."""
        endpoint = {"endpoint": f"http://127.0.0.1:{port}/cb", "type": "event", "headers": {"x-api-key": "k"}}
        for number in range(JOBS):
            filled = {"taskDef": "countdown", "process": {"train": {"number": number}}, "endpoints": [endpoint]}
            while True:
                code, body = self._call("POST", "/v1/jobs", filled, key=f"job-{number}")
                if code == 201:
                    self.released[number] = body["release"]
                    break
                time.sleep(0.05)

    def _call(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self._port}{path}"
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, data, headers, method=method),
                timeout=30,
            ) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, None
        except (OSError, ValueError, http.client.HTTPException):  # the server was killed as it answered
            return 0, None

    def _until(self, condition: Any, what: str) -> None:
        end = time.monotonic() + _SECONDS
        while not condition():
            if time.monotonic() > end:
                log = (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-3000:]
                raise AssertionError(f"not within {_SECONDS:g} s: {what}\n{log}")
            time.sleep(0.1)

    def _all_told(self, hooks: _Hooks) -> bool:
        return {release for _, release, _, status in list(hooks.got) if status == "succeeded"} >= set(
            self.released.values()
        )

    def _count(self, statement: LiteralString) -> int:
        if self._is_postgres:
            with psycopg.connect(self._database) as shared:
                row = shared.execute(statement).fetchone()
                assert row
                return int(row[0])
        connection = sqlite3.connect(self.folder / "s.db", timeout=30)
        try:
            return int(connection.execute(statement).fetchone()[0])
        finally:
            connection.close()

    def _wrong(self, api: ApiServer, hooks: _Hooks) -> list[str]:
        """Return the errors after the kill: missing or duplicate jobs, callbacks, logs and objects."""
        wrong = []
        listed = self._call("GET", "/v1/jobs?limit=200")[1]["items"]
        releases = sorted(self.released.values())
        if sorted(job["release"] for job in listed) != releases or len(set(releases)) != JOBS:
            wrong.append(f"{len(listed)} jobs are listed, {len(set(releases))} were answered")
        if {job["status"] for job in listed} != {"succeeded"}:
            wrong.append(f"statuses: {Counter(job['status'] for job in listed)}")
        numbers = [job["values"]["process"]["train"]["number"] for job in listed]
        if sorted(numbers) != list(range(JOBS)):
            wrong.append(f"jobs for {sorted(numbers)}")
        created = sorted(name.partition("/")[2] for name in api.created if name.startswith("jobs/"))
        if created != releases:
            wrong.append(f"{len(created)} Jobs were created in the cluster")
        wrong += self._wrongly_told(hooks)
        if self._count("SELECT count(*) FROM logs") != JOBS:
            wrong.append("a log was not kept")
        check = [sys.executable, "-m", "packager", "serve", "check", f"--database={self._database}"]
        done = subprocess.run(check, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            wrong.append(done.stdout + done.stderr)
        if "Traceback" in (self.folder / "log").read_text(encoding="utf-8", errors="replace"):
            wrong.append("the log has a traceback")
        return wrong

    def _wrongly_told(self, hooks: _Hooks) -> list[str]:
        """Return the errors in the callbacks that the endpoint received: each in order, and hardly one twice."""
        wrong = []
        for release in self.released.values():
            told = [(sequence, status) for _, known, sequence, status in hooks.got if known == release]
            if [status for _, status in sorted(set(told))] != ["pending", "succeeded"] or told != sorted(told):
                wrong.append(f"{release}: was told {told}")
        repeats = len(hooks.got) - len({identifier for identifier, *_ in hooks.got})
        if repeats > _AT_ONCE * self.killed:
            wrong.append(f"{repeats} callbacks were repeated")
        return wrong


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
