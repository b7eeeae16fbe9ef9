"""Sends generated requests to a task service: `python -m tests.service.requests -n 10000`.

schemathesis makes valid and invalid requests from the OpenAPI document. Every response must be one that the document
describes, and none may have a status of 5xx.
"""

from __future__ import annotations

import argparse
import collections
import copy
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import hypothesis
import requests
import schemathesis
from jsonschema import ValidationError
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi import checks

from tests.service import bodies
from tests.service.api.conftest import COUNTDOWN, FILLED, Service
from tests.service.contract import Contract
from tests.service.live import listening

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
    checks.ignored_auth,
]
REFUSED = ("400", "401", "403", "404", "405", "409", "412", "413", "415", "422")
# Names of existing objects: random names in paths and bodies would not be found.
NAMES = {"name": ("countdown", "digits", "countdown-task", "digits-task"), "number": ("1", "2")}
BODIES = {
    ("POST", "/v1/jobs"): (FILLED, bodies.filled()),
    ("POST", "/v1/definitions"): (COUNTDOWN, bodies.definition(append_uuid=1)),
    ("PUT", "/v1/definitions/{name}"): (COUNTDOWN, bodies.definition()),
    ("POST", "/v1/templates"): ({"name": "digits-task", "template": bodies.TEMPLATE},),
    ("PUT", "/v1/templates/{name}"): ({"name": "digits-task", "template": bodies.TEMPLATE},),
}
_ENDLESS = "/v1/events"


@dataclass
class Sent:
    """The sent requests and the faults of their responses.

    Attributes:
        seed: The seed of the requests.
        count: The number of requests.
        statuses: The number of responses with each status.
        faults: A message for each different fault.
    """

    seed: int
    count: int = 0
    statuses: collections.Counter[int] = field(default_factory=collections.Counter)
    faults: dict[str, str] = field(default_factory=dict)


def send(folder: Path, count: int, seed: int) -> Sent:
    """Send about `count` requests, the same number to each operation, and return the result."""
    service = Service(folder / "server.db")
    sent = Sent(seed)
    with listening(service) as address:
        headers = {"Authorization": f"Bearer {service.tokens['admin']}"}
        session = requests.Session()
        registered: tuple[tuple[str, Any], ...] = (
            ("templates", {"name": "digits-task", "template": bodies.TEMPLATE}),
            ("definitions", COUNTDOWN),
            ("definitions", bodies.definition()),
            ("jobs", FILLED),
        )
        for path, body in registered:
            session.post(f"{address}/v1/{path}", json=body, headers=headers, timeout=60).raise_for_status()
        document = session.get(f"{address}/openapi.json", timeout=60).json()
        operations = list(_operations(document))
        for operation in operations:
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                _Operation(service, address, session, Contract(copy.deepcopy(document)), sent).send(
                    operation, mode, max(count // len(operations) // 2, 1)
                )
    service.server.close()
    return sent


def _operations(document: dict[str, Any]) -> Iterator[Any]:
    refused = {"negative_data_rejection": {"expected-statuses": [*REFUSED]}}
    schema: Any = schemathesis.openapi.from_dict(document, config=SchemathesisConfig.from_dict({"checks": refused}))
    for result in schema.get_all_operations():
        yield result.ok()


@dataclass
class _Operation:
    service: Service
    address: str
    session: requests.Session
    contract: Contract
    sent: Sent

    def send(self, operation: Any, mode: GenerationMode, count: int) -> None:
        try:
            strategy = operation.as_strategy(generation_mode=mode)
            strategy.validate()
        except Exception as error:  # noqa: BLE001 - nothing can break an operation without parameters
            if mode is GenerationMode.POSITIVE:
                self.sent.faults[operation.label] = f"{operation.label}: {error!r}"
            return

        @hypothesis.seed(self.sent.seed)
        @hypothesis.settings(
            max_examples=count,
            deadline=None,
            database=None,
            derandomize=False,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(strategy)
        def one(case: Any) -> None:
            try:
                self._one(case, random, is_generated=mode is GenerationMode.NEGATIVE)
            except (Failure, FailureGroup, AssertionError, ValidationError) as error:
                key = f"{operation.label}: {type(error).__name__} {getattr(error, 'message', error)!s:.80}"
                self.sent.faults.setdefault(key, f"{operation.label}, {mode.value}: {_shown(error)}")

        random = Random(f"{self.sent.seed} {operation.label} {mode.value}")

        try:
            one()
        except hypothesis.errors.Unsatisfiable:
            return
        except Exception as error:  # noqa: BLE001 - any error of a check
            self.sent.faults[operation.label] = f"{operation.label}: {error!r}"

    def _one(self, case: Any, random: Any, *, is_generated: bool) -> None:
        names = {**NAMES, "release": tuple(name for kind, name in self.service.cluster.objects if kind == "Job")}
        for name in case.path_parameters or {} if not is_generated else ():
            if names.get(name) and random.random() < 0.7:
                case.path_parameters[name] = random.choice(names[name])
        known = BODIES.get((case.method, case.operation.path))
        if known and not is_generated and random.random() < 0.5:
            case.body = {**random.choice(known), **(case.body if random.random() < 0.3 else {})}
        role = "admin" if random.random() < 0.8 else random.choice(("viewer", "user", "developer"))
        headers = {"Authorization": f"Bearer {self.service.tokens[role]}"}
        if case.operation.path.startswith(_ENDLESS):
            headers["Accept"] = "application/json"
        if case.query and case.operation.path.endswith("/logs"):
            case.query.pop("follow", None)
        response = case.call(base_url=self.address, session=self.session, headers=headers, timeout=30)
        self.sent.count += 1
        self.sent.statuses[response.status_code] += 1
        case.validate_response(response, checks=CHECKS, headers=headers)
        plain = SimpleNamespace(
            status_code=response.status_code,
            headers={name.lower(): values[0] for name, values in response.headers.items()},
            content=response.content,
            json=response.json,
        )
        self.contract.check(case.method, str(response.request.path_url).partition("?")[0], plain)


def _shown(error: BaseException) -> str:
    parts = getattr(error, "exceptions", None) or (error,)
    return "\n".join(str(part) for part in parts)[:4000]


def main() -> int:
    """Send the requests, and return the exit code: 1 if a response was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.service.requests", description=__doc__)
    parser.add_argument("-n", type=int, default=1_000, help="how many requests")
    parser.add_argument("--seed", default=str(time.time_ns()), help="the same seed makes the same requests")
    asked = parser.parse_args()
    begin = time.monotonic()
    seed = int(asked.seed) if asked.seed.isdecimal() else int.from_bytes(asked.seed.encode(), "big")
    with tempfile.TemporaryDirectory(prefix="mlpack-requests-") as folder:
        sent = send(Path(folder), asked.n, seed)
    for fault in sent.faults.values():
        sys.stderr.write(f"{fault}\n\n")
    statuses = ", ".join(f"{count} with {status}" for status, count in sorted(sent.statuses.items()))
    seconds = time.monotonic() - begin
    sys.stderr.write(f"seed {seed}: {sent.count} requests in {seconds:.0f} s: {statuses}; {len(sent.faults)} faults\n")
    return 1 if sent.faults else 0


if __name__ == "__main__":
    sys.exit(main())
