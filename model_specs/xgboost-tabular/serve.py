#!/usr/bin/env python3
"""Serve the model that a training has written, in the REST form of KServe and TensorFlow Serving.

    GET  /v1/models/xgboost-tabular           the names of the features and of the classes
    POST /v1/models/xgboost-tabular:predict   {"instances": [{"mean_radius": 17.9, ...}, ...]} -> {"predictions": [...]}
    GET  /healthz                             200 while requests are welcome, else 503
    GET  /metrics                             counters, in Prometheus' text form

A feature that is missing or null counts as unknown. A prediction is a number, or a class with the probability of each.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stopping import Stop

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_PATH = "/v1/models/xgboost-tabular"
_PORT = 8080
_LARGEST_BODY = 1 << 20
_MOST_ROWS = 1_000
_MOST_CONNECTIONS = 64
_REQUEST_SECONDS = 10  # until a request has come, so that slow clients do not keep the places
_LARGEST_NUMBER = 3.4e38  # of 32 bits


class ModelError(Exception):
    """A model that is missing or cannot be read."""


class RequestError(Exception):
    """A request that gets no prediction, and the status of its answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Service:
    """The model, and what was asked of it.

    Attributes:
        predict: Returns a prediction for each row.
        features: The names of the columns of the rows.
        classes: The names of the classes; empty if the model predicts a number.
        is_draining: Whether the process ends as soon as the current requests are answered.
    """

    predict: Callable[[np.ndarray], np.ndarray]
    features: tuple[str, ...]
    classes: tuple[str, ...]
    is_draining: bool = False
    answers: Counter[int] = field(default_factory=Counter)
    rows: int = 0
    seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, path: str) -> tuple[int, str]:
        """Return the status and the text of the answer to a GET. Raises RequestError."""
        match path:
            case "/healthz":
                return (503, "draining\n") if self.is_draining else (200, "ok\n")
            case "/metrics":
                return 200, self._metrics()
            case _ if path == _PATH:
                return 200, json.dumps({"ready": True, "features": self.features, "classes": self.classes})
        raise RequestError(404, f"expected {_PATH}, /healthz or /metrics")

    def post(self, path: str, body: bytes) -> tuple[int, str]:
        """Return the same for a POST. Raises RequestError."""
        if path != f"{_PATH}:predict":
            raise RequestError(404, f"expected {_PATH}:predict")
        with self.lock:  # one at a time: a small text may become large lists
            rows = read_rows(body, self.features)
            begin = time.perf_counter()
            predictions = self.predict(rows)
            self.rows += len(rows)
            self.seconds += time.perf_counter() - begin
        return 200, json.dumps({"predictions": [self._named(prediction) for prediction in predictions.tolist()]})

    def _named(self, prediction: float | list[float]) -> object:
        """Return a prediction as JSON: XGBoost gives the probability of the second of two classes, or of each."""
        if not self.classes:
            return prediction
        probabilities = prediction if isinstance(prediction, list) else [1 - prediction, prediction]
        named = dict(zip(self.classes, probabilities, strict=True))
        return {"class": max(named, key=lambda name: named[name]), "probabilities": named}

    def _metrics(self) -> str:
        with self.lock:
            lines = ["# TYPE xgboost_answers_total counter"]
            lines += [f'xgboost_answers_total{{status="{status}"}} {n}' for status, n in sorted(self.answers.items())]
            lines += ["# TYPE xgboost_rows_total counter", f"xgboost_rows_total {self.rows}"]
            lines += ["# TYPE xgboost_predict_seconds_total counter"]
            lines += [f"xgboost_predict_seconds_total {self.seconds:.6f}"]
        return "".join(f"{line}\n" for line in lines)


def read_rows(body: bytes, features: tuple[str, ...]) -> np.ndarray:
    """Return the rows of a request, NaN where a feature is unknown.

    Raises:
        RequestError: There are none, or too many, or they have other features.
    """
    try:
        instances = json.loads(body)["instances"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RequestError(400, 'expected {"instances": [{FEATURE: NUMBER, ...}, ...]}') from error
    if not isinstance(instances, list) or not 0 < len(instances) <= _MOST_ROWS:
        raise RequestError(400, f"instances: expected a list of 1 to {_MOST_ROWS:,} objects")
    places = {name: number for number, name in enumerate(features)}
    rows = np.full((len(instances), len(features)), np.nan, np.float32)
    for number, instance in enumerate(instances):
        if not isinstance(instance, dict):
            raise RequestError(400, f"instances[{number}]: expected an object")
        for name, value in instance.items():
            if name not in places:
                raise RequestError(400, f"instances[{number}]: unknown feature {name[:100]!r}; GET {_PATH} lists them")
            is_number = isinstance(value, int | float) and abs(value) <= _LARGEST_NUMBER  # not true of NaN
            if value is not None and not is_number:
                raise RequestError(400, f"instances[{number}]: {name}: expected a number of 32 bits or null")
            rows[number, places[name]] = math.nan if value is None else value
    return rows


class Input(io.RawIOBase):
    """A stream that reads a connection until a deadline. The timeout of a socket is no limit: each byte restarts it.

    Attributes:
        deadline: The time, by time.monotonic, after which reading raises TimeoutError.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection
        self.deadline = 0.0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the bytes that have arrived. Raises TimeoutError after the deadline."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of a connection."""

    protocol_version = "HTTP/1.1"
    timeout = _REQUEST_SECONDS
    service: Service

    def setup(self) -> None:
        """Read with a deadline."""
        super().setup()
        self.rfile.close()
        self._input = Input(self.connection)
        self.rfile = io.BufferedReader(self._input)

    def handle_one_request(self) -> None:
        """Answer the next request, or close the connection if it does not come in time."""
        self._input.deadline = time.monotonic() + _REQUEST_SECONDS
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer a GET, whose body, if it has one, is not read."""
        self.close_connection |= self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers
        self._answer(lambda: self.service.get(self.path))

    def do_POST(self) -> None:
        """Answer a POST."""
        self._answer(lambda: self.service.post(self.path, self._body()))

    def _body(self) -> bytes:
        lengths = self.headers.get_all("Content-Length", [])
        if "Transfer-Encoding" in self.headers or len(lengths) != 1 or not lengths[0].isdecimal():
            raise RequestError(411, "expected a Content-Length")
        if len(lengths[0]) > 9 or int(lengths[0]) > _LARGEST_BODY:
            raise RequestError(413, f"expected at most {_LARGEST_BODY:,} bytes")
        return self.rfile.read(int(lengths[0]))

    def _answer(self, answer: Callable[[], tuple[int, str]]) -> None:
        try:
            status, text = answer()
        except RequestError as error:
            status, text = error.status, json.dumps({"error": str(error)})
            self.close_connection = True  # the body may not have been read
        with self.service.lock:
            self.service.answers[status] += 1
        self.close_connection |= self.service.is_draining
        self.connection.settimeout(_REQUEST_SECONDS)
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if text.startswith("{") else "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Write no line for each request: /metrics counts them."""


class Server(ThreadingHTTPServer):
    """A thread for each connection, up to a limit; `server_close` waits until all requests are answered."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self._places = threading.Semaphore(_MOST_CONNECTIONS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread; close it if there are too many."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, *arguments: Any) -> None:
        """Print a traceback, but none for a client that has gone away."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(*arguments)


def load(output: Path) -> Service:
    """Load the model of a training.

    Raises:
        ModelError: The folder has no model, or the file cannot be read or is damaged.
    """
    from xgboost import Booster

    path = output / "model" / "model.json"
    if not path.is_file():
        raise ModelError(f"no model in {path.parent}: train one first, with storage that stays")
    from xgboost.core import XGBoostError

    try:
        booster = Booster(model_file=path)
        classes = tuple(json.loads(booster.attr("classes") or "[]"))
    except (OSError, ValueError, XGBoostError) as error:
        text = str(error).partition("Stack trace")[0].strip()
        raise ModelError(f"{path} cannot be used: {text} (train the model again)") from error
    return Service(booster.inplace_predict, tuple(booster.feature_names or ()), classes)


def main() -> int:
    """Serve until SIGTERM; return 0, or 1 if there is no model that can be used."""
    stop = Stop()
    try:
        Handler.service = service = load(Path(os.environ["OUTPUT_DIR"]))
    except ModelError as error:
        sys.stderr.write(f"ERROR: {error}\n")
        return 1
    server = Server(("", _PORT), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()
    sys.stdout.write(f"ready at port {_PORT}: POST {_PATH}:predict\n")
    sys.stdout.flush()
    stop.deferred = True
    stop.requested.wait()
    service.is_draining = True
    server.shutdown()
    server.server_close()
    answers = {str(status): count for status, count in sorted(service.answers.items())}
    sys.stdout.write(json.dumps({"model": "xgboost-tabular", "answers": answers, "rows": service.rows}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
