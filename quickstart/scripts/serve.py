"""Serve ResNet-50 v1.5 over the REST form of TensorFlow Serving, with the weights that a training has written.

    GET  /v1/models/resnet50           which weights are served, and whether they are
    POST /v1/models/resnet50:predict   {"instances": [image, ...]} -> {"predictions": [1000 probabilities, ...]}
    GET  /healthz                      200 while requests are welcome, else 503
    GET  /metrics                      counters, in Prometheus' text form

An image is IMAGE_SIZE rows of IMAGE_SIZE pixels of 3 numbers, normalised as for training; a request has at most 64.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import numpy as np

import checkpoint
from checkpoint import Checkpoint, CheckpointError
from ranks import print_error, print_line
from runtime import count_threads, start_tensorflow
from settings import SettingsError, describe_keys, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from settings import Settings

NAME = "resnet50"
PORT = 8501

_MODEL = f"/v1/models/{NAME}"
_MOST_IMAGES = 64
_NUMBER_BYTES = 32  # of a number as text: Python writes a float64 with up to 24 characters
_LARGEST_BODY = 64 << 20
_LARGEST_BODIES = 2 * _LARGEST_BODY  # of all requests that are being read or wait for their turn
_MOST_CONNECTIONS = 512
_IDLE_SECONDS = 20  # of a connection: until the next request and its headers have come
_BODY_SECONDS = 60
_LINGER_SECONDS = 2
_DRAIN_SECONDS = 25  # the package's grace period, without what its preStop takes, is 30 s


class RequestError(Exception):
    """A request that is not answered with a prediction, and with which status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Service:
    """What is served, and what has been asked for.

    Attributes:
        predict: Images to probabilities.
        image_size: Height and width of an image.
        version: The number of steps that the weights were trained for.
        about: What the model's page says of the weights.
    """

    predict: Callable[[np.ndarray], np.ndarray]
    image_size: int
    version: int
    about: str
    is_draining: bool = False
    requests: dict[int, int] = field(default_factory=dict)
    images: int = 0
    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _computes: threading.Lock = field(default_factory=threading.Lock)
    _reserved: int = 0

    @property
    def largest_body(self) -> int:
        """How many bytes a request may have."""
        numbers = _MOST_IMAGES * self.image_size**2 * 3
        return min(_LARGEST_BODY, numbers * _NUMBER_BYTES + 4096)

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Hold the memory for the body of a request.

        Raises:
            RequestError: too much is held for others.
        """
        with self._lock:
            if self._reserved + size > _LARGEST_BODIES:
                raise RequestError(503, "too many large requests at a time: send it again later")
            self._reserved += size
        try:
            yield
        finally:
            with self._lock:
                self._reserved -= size

    def count(self, status: int, images: int = 0, seconds: float = 0.0) -> None:
        """Remember an answer."""
        with self._lock:
            self.requests[status] = self.requests.get(status, 0) + 1
            self.images += images
            self.seconds += seconds

    def get(self, path: str) -> tuple[int, str, str]:
        """Return the status, the type and the text that a GET of `path` is answered with.

        Raises:
            RequestError: there is no such page.
        """
        if path == "/healthz":
            return (503, "text/plain", "draining\n") if self.is_draining else (200, "text/plain", "ok\n")
        if path == "/metrics":
            return 200, "text/plain; version=0.0.4", self._metrics()
        if path == _MODEL:
            status = {"error_code": "OK", "error_message": ""}
            version = {"version": str(self.version), "state": "AVAILABLE", "status": status, "weights": self.about}
            return 200, "application/json", json.dumps({"model_version_status": [version]})
        raise RequestError(404, f"expected {_MODEL}, /healthz or /metrics, found {path[:200]}")

    def post(self, path: str, body: bytes) -> tuple[int, str, str]:
        """Return the same for a POST.

        Raises:
            RequestError: it is no request for a prediction.
        """
        if path != f"{_MODEL}:predict":
            raise RequestError(404, f"expected {_MODEL}:predict, found {path[:200]}")
        with self._computes:  # a prediction takes all threads, and reading much memory: two at a time would share them
            images = read_images(body, self.image_size)
            begin = time.perf_counter()
            predictions = self.predict(images)
        if not np.isfinite(predictions).all():
            raise RequestError(400, "instances: the numbers are so large that there is no prediction")
        self.count(200, len(images), time.perf_counter() - begin)
        return 200, "application/json", json.dumps({"predictions": predictions.tolist()})

    def _metrics(self) -> str:
        with self._lock:
            lines = ["# TYPE resnet50_answers_total counter"]
            for status, count in sorted(self.requests.items()):
                lines.append(f'resnet50_answers_total{{status="{status}"}} {count}')
            lines += ["# TYPE resnet50_images_total counter", f"resnet50_images_total {self.images}"]
            lines += ["# TYPE resnet50_predict_seconds_total counter"]
            lines += [f"resnet50_predict_seconds_total {self.seconds:.6f}"]
        return "".join(f"{line}\n" for line in lines)


def read_images(body: bytes, size: int) -> np.ndarray:
    """Return the images of a request.

    Raises:
        RequestError: it holds none, or too many, or others than the model takes.
    """
    _require_moderate(body, size)
    try:
        instances = json.loads(body)["instances"]
        if isinstance(instances, list) and len(instances) > _MOST_IMAGES:
            raise RequestError(413, f"instances: expected at most {_MOST_IMAGES} images, found {len(instances):,}")
        with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite
            images = np.asarray(instances, dtype=np.float32)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        message = 'expected {"instances": [image, ...]}, an image being a list of rows of pixels of 3 numbers'
        raise RequestError(400, message) from error
    if images.ndim != 4 or images.shape[1:] != (size, size, 3) or not len(images):
        found = "x".join(map(str, images.shape))
        raise RequestError(400, f"instances: expected Nx{size}x{size}x3 numbers, found {found or 'one number'}")
    if not np.isfinite(images).all():
        raise RequestError(400, "instances: expected numbers of 32 bits, found NaN or a larger one")
    return images


def _require_moderate(body: bytes, size: int) -> None:
    """See that reading the JSON takes no more memory than images do: an empty list of two bytes takes 64 as an object.

    Raises:
        RequestError: it would.
    """
    lists, numbers = _MOST_IMAGES * (1 + size + size**2), _MOST_IMAGES * size**2 * 3
    if body.count(b"[") > lists + 16 or body.count(b",") > numbers + 16:
        raise RequestError(
            413, f"instances: expected at most {_MOST_IMAGES} images of {size}x{size} pixels, found more"
        )
    if body.count(b"{") > 16 or body.count(b'"') > 64:
        raise RequestError(400, "expected nothing but numbers in the images, found texts or objects")


class _Input(io.RawIOBase):
    """What comes by a connection until a deadline: a timeout of the socket alone begins anew with each byte.

    Attributes:
        deadline: The time, by time.monotonic, after which reading raises TimeoutError.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection
        self.deadline = time.monotonic() + _IDLE_SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """Answers one connection after the other by what `service` says."""

    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    service: Service

    def setup(self) -> None:
        """Read with a deadline."""
        super().setup()
        self.rfile.close()
        self._input = _Input(self.connection)
        self.rfile = io.BufferedReader(self._input, 64 << 10)

    def handle_one_request(self) -> None:
        """Wait for the next request, but not for ever."""
        self._input.deadline = time.monotonic() + _IDLE_SECONDS
        super().handle_one_request()

    def handle_expect_100(self) -> bool:
        """Say whether the body may come, before it does."""
        try:
            self._length()
        except RequestError as error:
            self._send(error.status, "application/json", json.dumps({"error": str(error)}))
            return False
        return super().handle_expect_100()

    def do_GET(self) -> None:
        """Answer a GET; a body of it would be taken for the next request."""
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True
        self._answer(lambda: self.service.get(self.path))

    def do_POST(self) -> None:
        """Answer a POST."""
        self._answer(self._post)

    def _post(self) -> tuple[int, str, str]:
        length = self._length()
        with self.service.reserve(length):
            self._input.deadline = time.monotonic() + _BODY_SECONDS
            try:
                body = self.rfile.read(length)
            except TimeoutError:
                raise RequestError(408, f"expected {length:,} bytes within {_BODY_SECONDS} seconds") from None
            if len(body) < length:
                raise RequestError(400, f"expected {length:,} bytes, found {len(body):,}")
            return self.service.post(self.path, body)

    def _length(self) -> int:
        """Return how long the body is.

        Raises:
            RequestError: it is too long, or the headers do not say so, or say several things.
        """
        if "Transfer-Encoding" in self.headers:
            raise RequestError(411, "expected a Content-Length, found a Transfer-Encoding")
        lengths = self.headers.get_all("Content-Length", [])
        if not lengths:
            raise RequestError(411, "expected a Content-Length")
        if len(lengths) > 1 or not re.fullmatch("[0-9]+", lengths[0]):
            raise RequestError(400, "Content-Length: expected one number")
        most = self.service.largest_body
        if len(lengths[0]) > 18 or int(lengths[0]) > most:
            message = f"expected at most {most:,} bytes, for {_MOST_IMAGES} images at most, found {lengths[0][:18]}"
            raise RequestError(413, message)
        return int(lengths[0])

    def _answer(self, answer: Callable[[], tuple[int, str, str]]) -> None:
        try:
            status, kind, text = answer()
        except RequestError as error:
            status, kind, text = error.status, "application/json", json.dumps({"error": str(error)})
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever one request brings about, the others are answered
            print_error(f"{type(error).__name__} in a request: {error}")
            status, kind, text = 500, "application/json", json.dumps({"error": type(error).__name__})
        self._send(status, kind, text)

    def _send(self, status: int, kind: str, text: str) -> None:
        if status != 200 or not self.path.endswith(":predict"):
            self.service.count(status)
        is_unread = status >= 400 and self.command == "POST"
        if is_unread or self.service.is_draining:
            self.close_connection = True
        data = text.encode()
        self.connection.settimeout(_BODY_SECONDS)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if status == 503:
            self.send_header("Retry-After", "1")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        if is_unread:
            self._linger()

    def _linger(self) -> None:
        """Take what still comes for a moment: who sends on when a connection is closed does not get the answer."""
        self._input.deadline = time.monotonic() + _LINGER_SECONDS
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while self.rfile.read1():
                pass

    def log_message(self, *_: Any) -> None:
        """Write no line for each request: /metrics counts them."""


class Server(ThreadingHTTPServer):
    """A thread a connection; when it is closed, it waits for those that have a request."""

    daemon_threads = False
    request_queue_size = 256

    def __init__(self, *arguments: Any) -> None:
        self._places = threading.Semaphore(_MOST_CONNECTIONS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread; close it when there are too many."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, *_: Any) -> None:
        """Write a line for what is an error here, and none for a client that has gone away."""
        error = sys.exception()
        if not isinstance(error, OSError):
            print_error(f"{type(error).__name__} in a connection: {error}")


def main() -> int:
    """Run the program; end with 0 when it was stopped, return 1 when refused or failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=describe_keys(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=PORT)
    port = parser.parse_args().port
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        settings = read_settings(os.environ)
        saved, source = find_weights(settings, os.environ)
        service = load(settings, saved, source)
    except (SettingsError, CheckpointError) as error:
        print_error(error)
        return 1
    serve(service, port, stop)
    sys.stdout.flush()
    os._exit(0)  # threads of idle connections would hold the process


def find_weights(settings: Settings, environ: Mapping[str, str]) -> tuple[Checkpoint | None, Path | None]:
    """Return the checkpoint to serve and where it is: DATASET_DIR comes before OUTPUT_DIR.

    Raises:
        SettingsError: REQUIRE_WEIGHTS is set, and there is none.
        CheckpointError: the file is damaged.
    """
    folders = [folder for folder in (settings.dataset_dir, settings.output_dir) if folder]
    for folder in folders:
        saved = checkpoint.load(folder)
        if saved:
            return saved, folder / checkpoint.FILE_NAME
    if environ.get("REQUIRE_WEIGHTS", "").strip() not in ("", "0"):
        places = " or ".join(str(folder / checkpoint.FILE_NAME) for folder in folders)
        raise SettingsError(f"REQUIRE_WEIGHTS: expected {places}, found neither")
    return None, None


def load(settings: Settings, saved: Checkpoint | None, path: Path | None) -> Service:
    """Build the model, and compute once, so that the first request is not the slow one.

    Raises:
        CheckpointError: the weights are of another model.
    """
    threads = count_threads(ranks_here=1)
    print_line(f"serving on {socket.gethostname()}: uid {os.getuid()}, gid {os.getgid()}, {threads} threads")
    about = f"{path}, {saved.step} steps" if saved else "RANDOM: there is no checkpoint in DATASET_DIR or OUTPUT_DIR"
    print_line(f"weights: {about}" if saved else f"*** WEIGHTS ARE {about} ***")
    start_tensorflow(threads, "fp32", settings.seed)
    import tensorflow as tf

    from model import resnet50

    model = resnet50(settings.image_size)
    if saved:
        checkpoint.require_same_layout(saved.weights, [variable.numpy() for variable in model.variables])
        model.set_weights(saved.weights)
    shape = (None, settings.image_size, settings.image_size, 3)  # any number of images: no reason to recompile
    predict = tf.function(
        lambda images: tf.nn.softmax(model(images, training=False)), input_signature=[tf.TensorSpec(shape)]
    )
    predict(np.zeros((1, *shape[1:]), np.float32))
    return Service(lambda images: predict(images).numpy(), settings.image_size, saved.step if saved else 0, about)


def serve(service: Service, port: int, stop: threading.Event) -> None:
    """Answer until `stop`, and then the requests that are there; in the end, print a line of JSON."""
    Handler.service = service
    server = Server(("", port), Handler)
    answering = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2})
    answering.start()
    print_line(f"ready at port {server.server_port}: POST {_MODEL}:predict")
    stop.wait()
    service.is_draining = True
    print_line("draining: SIGTERM")
    server.shutdown()
    closing = threading.Thread(target=server.server_close, daemon=True)
    closing.start()
    closing.join(_DRAIN_SECONDS)
    result = {"model": "resnet50v1-5", "precision": "fp32", "mode": "serving", "weights": service.about}
    answers = {str(status): count for status, count in sorted(service.requests.items())}
    print_line(json.dumps({**result, "answers": answers, "images": service.images}))


if __name__ == "__main__":
    sys.exit(main())
