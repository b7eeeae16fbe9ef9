"""Sends generated requests to a task service: `python -m tests.service.requests -n 10000`.

schemathesis makes valid and invalid requests from the OpenAPI document. Every response must be one that the document
describes, and none may have a status of 5xx. This module is also its module of hooks.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import httpx
import schemathesis

from tests import demo
from tests.service import bodies
from tests.service.api.conftest import COUNTDOWN, FILLED, Service
from tests.service.live import listening

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,negative_data_rejection,unsupported_method,ignored_auth"
)
SETTINGS = """
hooks = "tests.service.requests"
[checks]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 409, 412, 413, 415, 422]
"""
TEMPLATE = {"name": "digits-task", "template": bodies.TEMPLATE}
BODIES: dict[tuple[str, str], tuple[dict[str, Any], ...]] = {
    ("POST", "/v1/jobs"): (FILLED, bodies.filled()),
    ("POST", "/v1/definitions"): (COUNTDOWN, bodies.definition(append_uuid=1)),
    ("PUT", "/v1/definitions/{name}"): (COUNTDOWN, bodies.definition()),
    ("POST", "/v1/templates"): (TEMPLATE,),
    ("PUT", "/v1/templates/{name}"): (TEMPLATE,),
}
REGISTERED = (("templates", TEMPLATE), ("definitions", COUNTDOWN), ("definitions", bodies.definition()))
_RELEASES = "MLPACK_TEST_RELEASES"
_RANDOM = Random(1)


@schemathesis.hook
def map_case(_context: Any, case: Any) -> Any:
    """Name existing objects in most of the valid requests: random names in paths and bodies would not be found."""
    if case.meta is not None and case.meta.generation.mode.is_positive:
        known = {"name": ("countdown", "digits", "countdown-task", "digits-task"), "number": ("1", "2")}
        known["release"] = tuple(os.environ.get(_RELEASES, "none").split())
        for name in (case.path_parameters or {}) if _RANDOM.random() < 0.7 else ():
            case.path_parameters[name] = _RANDOM.choice(known.get(name, ("default",)))
        filled = BODIES.get((case.method, case.operation.path))
        if filled and _RANDOM.random() < 0.5:
            case.body = {**_RANDOM.choice(filled), **(case.body if _RANDOM.random() < 0.3 else {})}
    return case


def send(folder: Path, count: int, seed: int) -> tuple[int, str]:
    """Send about `count` requests, the same number to each operation; return schemathesis's exit code and output."""
    service = Service(folder / "server.db")
    (folder / "schemathesis.toml").write_text(SETTINGS, encoding="utf-8")
    with listening(service) as address:
        header = f"Bearer {service.tokens['admin']}"
        with httpx.Client(base_url=address, headers={"Authorization": header}, timeout=60) as client:
            for path, body in (
                ("templates", TEMPLATE),
                ("definitions", COUNTDOWN),
                ("definitions", bodies.definition()),
            ):
                client.post(f"/v1/{path}", json=body).raise_for_status()
            made = [client.post("/v1/jobs", json=FILLED).raise_for_status().json()["release"] for _ in range(20)]
            paths = client.get("/openapi.json").json()["paths"].values()
        argv = [sys.executable, "-m", "schemathesis.cli", f"--config-file={folder}/schemathesis.toml", "run"]
        argv += [f"{address}/openapi.json", f"--header=Authorization: {header}", f"--checks={CHECKS}"]
        argv += [f"--max-examples={max(count // sum(map(len, paths)), 1)}", f"--seed={seed}", "--phases=fuzzing"]
        argv += ["--generation-database=none", "--request-timeout=30", "--no-color"]
        environment = {**os.environ, "PYTHONPATH": str(demo.CHECKOUT), _RELEASES: " ".join(made)}
        done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    service.server.close()
    return done.returncode, done.stdout + done.stderr


def main() -> int:
    """Send the requests, and return the exit code: 1 if a response was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.service.requests", description=__doc__)
    parser.add_argument("-n", type=int, default=1_000, help="how many requests")
    parser.add_argument("--seed", default=str(time.time_ns()), help="the same seed makes the same requests")
    asked = parser.parse_args()
    seed = int(asked.seed) if asked.seed.isdecimal() else int.from_bytes(asked.seed.encode(), "big")
    with tempfile.TemporaryDirectory(prefix="mlpack-requests-") as folder:
        code, output = send(Path(folder), asked.n, seed)
    sys.stderr.write(output)
    return code


if __name__ == "__main__":
    sys.exit(main())
