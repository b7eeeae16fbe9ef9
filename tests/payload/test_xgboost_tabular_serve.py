"""serve.py, with a model that needs no XGBoost: its answers, its limits, and its end on SIGTERM."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.payload.conftest import load_module

serve = load_module("xgboost-tabular", "serve")

MODEL = "/v1/models/xgboost-tabular"


@pytest.fixture
def service() -> Any:
    """A model that takes the first feature for the probability of the second class; 0.25 where it is unknown."""
    return serve.Service(lambda rows: np.nan_to_num(rows[:, 0], nan=0.25), ("size", "count"), ("pear", "plum"))


@pytest.fixture
def address(service: Any) -> Iterator[str]:
    serve.Handler.service = service
    server = serve.Server(("127.0.0.1", 0), serve.Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def ask(address: str, path: str, body: bytes | None = None) -> tuple[int, str]:
    """Return the status and the text of an answer."""
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET" if body is None else "POST", path, body, {"Connection": "close"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_server_describes_its_model_and_returns_one_class_per_row(address: str) -> None:
    body = json.dumps({"instances": [{"size": 0.75, "count": 1}, {"size": None}, {}]}).encode()
    status, text = ask(address, f"{MODEL}:predict", body)
    plum, *pears = json.loads(text)["predictions"]
    assert (status, plum) == (200, {"class": "plum", "probabilities": {"pear": 0.25, "plum": 0.75}})
    assert pears == [{"class": "pear", "probabilities": {"pear": 0.75, "plum": 0.25}}] * 2
    metrics = ask(address, "/metrics")[1]
    assert 'xgboost_answers_total{status="200"} 1\n' in metrics
    assert "xgboost_rows_total 3\n" in metrics
    assert ask(address, "/healthz") == (200, "ok\n")
    status, text = ask(address, MODEL)
    assert (status, json.loads(text)) == (
        200,
        {"ready": True, "features": ["size", "count"], "classes": ["pear", "plum"]},
    )
    assert ask(address, "/")[0] == 404
    assert ask(address, MODEL, b"{}")[0] == 404


def test_model_of_three_classes_returns_the_likeliest(service: Any, address: str) -> None:
    service.classes = ("a", "b", "c")
    service.predict = lambda rows: np.array([[0.25, 0.5, 0.25]] * len(rows))
    [prediction] = json.loads(ask(address, f"{MODEL}:predict", b'{"instances": [{}]}')[1])["predictions"]
    assert (prediction["class"], prediction["probabilities"]) == ("b", {"a": 0.25, "b": 0.5, "c": 0.25})


NO_REQUEST = 'expected {"instances": [{FEATURE: NUMBER, ...}, ...]}'
NO_LIST = "instances: expected a list of 1 to 1,000 objects"
NO_NUMBER = "instances[0]: size: expected a number of 32 bits or null"


def test_malformed_request_is_refused(address: str) -> None:
    for body, error in (
        *((body, NO_REQUEST) for body in ("[]", "{}", "[" * 100_000, '{"instances": [1' + "0" * 5000 + "]}")),
        *((f'{{"instances": {value}}}', NO_LIST) for value in ("1", "[]", json.dumps([{}] * 1001))),
        ('{"instances": [1]}', "instances[0]: expected an object"),
        ('{"instances": [{}, {"age": 1}]}', f"instances[1]: unknown feature 'age'; GET {MODEL} lists them"),
        *((f'{{"instances": [{{"size": {value}}}]}}', NO_NUMBER) for value in ('"1"', "NaN", "1e39")),
    ):
        status, text = ask(address, f"{MODEL}:predict", body.encode())
        assert (status, json.loads(text)) == (400, {"error": error})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("", 411),
        ("Content-Length: 1\r\nContent-Length: 2\r\n", 411),
        (f"Content-Length: {2 << 20}\r\n", 413),
    ],
)
def test_request_without_a_moderate_length_is_refused(address: str, headers: str, status: int) -> None:
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(f"POST {MODEL}:predict HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
        answer = connection.makefile("rb").read().decode()
    assert answer.startswith(f"HTTP/1.1 {status} ")


def test_draining_server_is_not_ready_and_closes_connections(service: Any, address: str) -> None:
    service.is_draining = True
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("Connection")) == (503, "close")
