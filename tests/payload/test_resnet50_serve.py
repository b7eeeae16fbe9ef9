"""serve.py, with a model that needs no TensorFlow: its answers, its limits, and its end on SIGTERM."""

import http.client
import importlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

checkpoint = importlib.import_module("checkpoint")
serve = importlib.import_module("serve")
settings = importlib.import_module("settings")

MODEL = "/v1/models/resnet50"
ABOUT = "/weights/checkpoint.npz, 30 steps"
NO_REQUEST = 'expected {"instances": [image, ...]}, an image being a list of rows of pixels of 3 numbers'
TOO_LARGE = "instances: expected numbers of 32 bits, found NaN or a larger one"
LARGEST = 64 * 32 * 32 * 3 * 32 + 4096
IMAGE = [[[0.5, 0.5, 0.5]] * 32] * 32


def predict(images: np.ndarray) -> np.ndarray:
    return np.full((len(images), 2), 0.5, np.float32)


@pytest.fixture
def service() -> Any:
    return serve.Service(predict, 32, 30, ABOUT)


@pytest.fixture
def address(service: Any) -> Iterator[str]:
    """The host and port of the server."""
    with answering(service) as where:
        yield where


@contextmanager
def answering(service: Any) -> Iterator[str]:
    """Answer, and say where."""
    serve.Handler.service = service
    server = serve.Server(("127.0.0.1", 0), serve.Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def ask(address: str, path: str, body: bytes | None = None) -> tuple[int, str]:
    """Return the status and the text of an answer."""
    connection = http.client.HTTPConnection(address, timeout=300)
    connection.request("GET" if body is None else "POST", path, body, {"Connection": "close"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_server_describes_its_model_and_returns_one_prediction_per_image(address: str) -> None:
    body = json.dumps({"instances": [IMAGE, IMAGE]}).encode()
    status, text = ask(address, f"{MODEL}:predict", body)
    assert (status, json.loads(text)) == (200, {"predictions": [[0.5, 0.5], [0.5, 0.5]]})
    metrics = ask(address, "/metrics")[1]
    assert 'resnet50_answers_total{status="200"} 1\n' in metrics
    assert "resnet50_images_total 2\n" in metrics
    status, text = ask(address, MODEL)
    [version] = json.loads(text)["model_version_status"]
    assert (status, version["version"], version["state"], version["weights"]) == (200, "30", "AVAILABLE", ABOUT)
    assert ask(address, "/healthz") == (200, "ok\n")
    assert ask(address, "/") == (404, '{"error": "expected /v1/models/resnet50, /healthz or /metrics, found /"}')
    status, text = ask(address, "/v1/models/other:predict", b"{}")
    message = "expected /v1/models/resnet50:predict, found /v1/models/other:predict"
    assert (status, json.loads(text)) == (404, {"error": message})


def test_malformed_request_is_refused(address: str) -> None:
    for body, error in (
        (b"\xff", NO_REQUEST),
        (b"[]", NO_REQUEST),
        (b'{"instances": [[1], [1, 2]]}', NO_REQUEST),
        (b'{"instances": [["a"]]}', NO_REQUEST),
        (json.dumps({"instances": [IMAGE]}).replace("0.5", "NaN", 1).encode(), TOO_LARGE),
        (b'{"instances": 1}', "instances: expected Nx32x32x3 numbers, found one number"),
        (b'{"instances": []}', "instances: expected Nx32x32x3 numbers, found 0"),
        (b'{"instances": [[[[1, 2, 3]]]]}', "instances: expected Nx32x32x3 numbers, found 1x1x1x3"),
    ):
        status, text = ask(address, f"{MODEL}:predict", body)
        assert (status, json.loads(text)) == (400, {"error": error})


def test_request_with_too_many_images_is_refused(address: str) -> None:
    for body, error in (
        (lambda: [IMAGE] * 65, "instances: expected at most 64 images of 32x32 pixels, found more"),
        (lambda: [0] * 1_000_000, "instances: expected at most 64 images of 32x32 pixels, found more"),
        (lambda: [0] * 3_000_000, f"expected at most {LARGEST:,} bytes, for 64 images at most, found 9000015"),
    ):
        status, text = ask(address, f"{MODEL}:predict", json.dumps({"instances": body()}).encode())
        assert (status, json.loads(text)) == (413, {"error": error})


def send(address: str, request: bytes, *, timeout: float = 300) -> bytes:
    """Send bytes unchanged, and return the answer until the connection is closed."""
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=timeout) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


ONE_NUMBER = b"Content-Length: expected one number"


@pytest.mark.parametrize(
    ("headers", "status", "error"),
    [
        (b"", b"411", b"expected a Content-Length"),
        (b"Content-Length: 2\r\nContent-Length: 2\r\n", b"400", ONE_NUMBER),
        (b"Transfer-Encoding: chunked\r\n", b"411", b"found a Transfer-Encoding"),
    ],
)
def test_invalid_content_length_is_refused(address: str, headers: bytes, status: bytes, error: bytes) -> None:
    """The bytes after it are not read as a second request."""
    second = b"POST /smuggled HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
    answer = send(address, b"POST /v1/models/resnet50:predict HTTP/1.1\r\n" + headers + b"\r\n" + second)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert error in answer
    assert answer.count(b"HTTP/1.1") == 1
    assert ask(address, "/healthz") == (200, "ok\n")


def test_request_in_progress_is_answered_after_sigterm(capsys: pytest.CaptureFixture[str], service: Any) -> None:
    """SIGTERM comes while a prediction is computed: the answer comes first, and then the end."""
    is_computing, may_end, stop = threading.Event(), threading.Event(), threading.Event()

    def slow(images: np.ndarray) -> np.ndarray:
        is_computing.set()
        assert may_end.wait(300)
        return predict(images)

    service.predict = slow
    answers: list[tuple[int, str]] = []
    serving = threading.Thread(target=serve.serve, args=(service, 0, stop))
    serving.start()
    while "ready at port" not in (printed := capsys.readouterr().out):
        time.sleep(0.01)
    port = printed.partition("ready at port ")[2].partition(":")[0]
    body = json.dumps({"instances": [IMAGE]}).encode()
    asking = threading.Thread(target=lambda: answers.append(ask(f"127.0.0.1:{port}", f"{MODEL}:predict", body)))
    asking.start()
    assert is_computing.wait(300)
    stop.set()
    may_end.set()
    asking.join()
    serving.join()
    assert answers == [(200, '{"predictions": [[0.5, 0.5]]}')]
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["answers"], result["images"], result["weights"]) == ({"200": 1}, 1, ABOUT)


def test_dataset_weights_take_precedence_over_output_weights(tmp_path: Path) -> None:
    for step, folder in enumerate(("output", "dataset"), start=1):
        (tmp_path / folder).mkdir()
        checkpoint.save(tmp_path / folder, checkpoint.Checkpoint(step, "fp32", [], []))
    environ = {"OUTPUT_DIR": f"{tmp_path}/output", "DATASET_DIR": f"{tmp_path}/dataset"}
    saved, path = serve.find_weights(settings.read_settings(environ), environ)
    assert (saved.step, path) == (2, tmp_path / "dataset/checkpoint.npz")
    path.unlink()
    saved, path = serve.find_weights(settings.read_settings(environ), environ)
    assert (saved.step, path) == (1, tmp_path / "output/checkpoint.npz")


def test_require_weights_refuses_missing_weights(tmp_path: Path) -> None:
    environ = {"OUTPUT_DIR": f"{tmp_path}/output", "DATASET_DIR": f"{tmp_path}/dataset"}
    assert serve.find_weights(settings.read_settings(environ), environ) == (None, None)
    with pytest.raises(settings.SettingsError) as refused:
        serve.find_weights(settings.read_settings(environ), {**environ, "REQUIRE_WEIGHTS": "1"})
    places = f"{tmp_path}/dataset/checkpoint.npz or {tmp_path}/output/checkpoint.npz"
    assert str(refused.value) == f"REQUIRE_WEIGHTS: expected {places}, found neither"
