"""Serve ResNet-50 v1.5 over the REST form of TensorFlow Serving, with the weights that a training has written.

    GET  /v1/models/resnet50           which weights are served, and whether they are
    POST /v1/models/resnet50:predict   {"instances": [image, ...]} -> {"predictions": [1000 probabilities, ...]}
    GET  /healthz                      200 while requests are welcome, else 503
    GET  /metrics                      counters, in Prometheus' text form

An image is IMAGE_SIZE rows of IMAGE_SIZE pixels of 3 numbers, normalised as for training.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
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
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from settings import Settings

NAME = "resnet50"
PORT = 8501

_MODEL = f"/v1/models/{NAME}"
_LARGEST_BODY = 64 << 20
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
        raise RequestError(404, f"expected {_MODEL}, /healthz or /metrics, found {path}")

    def post(self, path: str, body: bytes) -> tuple[int, str, str]:
        """Return the same for a POST.

        Raises:
            RequestError: it is no request for a prediction.
        """
        if path != f"{_MODEL}:predict":
            raise RequestError(404, f"expected {_MODEL}:predict, found {path}")
        images = read_images(body, self.image_size)
        begin = time.perf_counter()
        with self._computes:  # a prediction takes all threads: two at a time would only share them
            predictions = self.predict(images)
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
        RequestError: it holds none, or others than the model takes.
    """
    try:
        instances = json.loads(body)["instances"]
        images = np.asarray(instances, dtype=np.float32)
    except (ValueError, KeyError, TypeError) as error:
        message = 'expected {"instances": [image, ...]}, an image being a list of rows of pixels of 3 numbers'
        raise RequestError(400, message) from error
    if images.ndim != 4 or images.shape[1:] != (size, size, 3) or not len(images):
        found = "x".join(map(str, images.shape))
        raise RequestError(400, f"instances: expected Nx{size}x{size}x3 numbers, found {found or 'one number'}")
    return images


class Handler(BaseHTTPRequestHandler):
    """Answers one connection after the other by what `service` says."""

    protocol_version = "HTTP/1.1"
    timeout = 20  # of a connection on which nothing comes
    service: Service

    def do_GET(self) -> None:
        """Answer a GET."""
        self._answer(lambda: self.service.get(self.path))

    def do_POST(self) -> None:
        """Answer a POST."""
        self._answer(lambda: self.service.post(self.path, self._body()))

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            raise RequestError(411, "expected a Content-Length")
        if int(length) > _LARGEST_BODY:
            raise RequestError(413, f"expected at most {_LARGEST_BODY:,} bytes, found {int(length):,}")
        return self.rfile.read(int(length))

    def _answer(self, answer: Callable[[], tuple[int, str, str]]) -> None:
        try:
            status, kind, text = answer()
        except RequestError as error:
            status, kind, text = error.status, "application/json", json.dumps({"error": str(error)})
            self.close_connection = True  # what is left of the request has not been read
        if status != 200 or not self.path.endswith(":predict"):
            self.service.count(status)
        if self.service.is_draining:
            self.close_connection = True
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Write no line for each request: /metrics counts them."""


class Server(ThreadingHTTPServer):
    """A thread a connection; when it is closed, it waits for those that have a request."""

    daemon_threads = False
    request_queue_size = 256


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
