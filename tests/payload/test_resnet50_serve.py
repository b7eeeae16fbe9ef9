"""serve.py, with a model that needs no TensorFlow: what it answers, and that it ends with the requests that it has."""

import http.client
import importlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

checkpoint = importlib.import_module("checkpoint")
serve = importlib.import_module("serve")
settings = importlib.import_module("settings")

MODEL = "/v1/models/resnet50"
ABOUT = "/weights/checkpoint.npz, 30 steps"
IMAGE = [[[0.5, 0.5, 0.5]] * 32] * 32


def predict(images: np.ndarray) -> np.ndarray:
    return np.full((len(images), 2), 0.5, np.float32)


@pytest.fixture
def service() -> Any:
    return serve.Service(predict, 32, 30, ABOUT)


@pytest.fixture
def address(service: Any) -> Iterator[str]:
    """Where it answers."""
    serve.Handler.service = service
    server = serve.Server(("127.0.0.1", 0), serve.Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def ask(address: str, path: str, body: bytes | None = None) -> tuple[int, str]:
    """Return the status and the text of an answer."""
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET" if body is None else "POST", path, body, {"Connection": "close"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_it_says_what_it_serves(address: str) -> None:
    status, text = ask(address, MODEL)
    [version] = json.loads(text)["model_version_status"]
    assert (status, version["version"], version["state"], version["weights"]) == (200, "30", "AVAILABLE", ABOUT)
    assert ask(address, "/healthz") == (200, "ok\n")


def test_a_prediction_an_image(address: str) -> None:
    body = json.dumps({"instances": [IMAGE, IMAGE]}).encode()
    status, text = ask(address, f"{MODEL}:predict", body)
    assert (status, json.loads(text)) == (200, {"predictions": [[0.5, 0.5], [0.5, 0.5]]})
    metrics = ask(address, "/metrics")[1]
    assert 'resnet50_answers_total{status="200"} 1\n' in metrics
    assert "resnet50_images_total 2\n" in metrics


@pytest.mark.parametrize(
    ("body", "error"),
    [
        *(
            (body, 'expected {"instances": [image, ...]}, an image being a list of rows of pixels of 3 numbers')
            for body in (b"", b"\xff", b"[]", b"{}", b'{"instances": [[1], [1, 2]]}', b'{"instances": [["a"]]}')
        ),
        (b'{"instances": 1}', "instances: expected Nx32x32x3 numbers, found one number"),
        (b'{"instances": []}', "instances: expected Nx32x32x3 numbers, found 0"),
        (b'{"instances": [[[[1, 2, 3]]]]}', "instances: expected Nx32x32x3 numbers, found 1x1x1x3"),
    ],
)
def test_what_is_no_request(address: str, body: bytes, error: str) -> None:
    status, text = ask(address, f"{MODEL}:predict", body)
    assert (status, json.loads(text)) == (400, {"error": error})


def test_pages_that_there_are_not(address: str) -> None:
    assert ask(address, "/") == (404, '{"error": "expected /v1/models/resnet50, /healthz or /metrics, found /"}')
    status, text = ask(address, "/v1/models/other:predict", b"{}")
    message = "expected /v1/models/resnet50:predict, found /v1/models/other:predict"
    assert (status, json.loads(text)) == (404, {"error": message})


def test_a_request_that_is_being_answered_is_not_lost(capsys: pytest.CaptureFixture[str], service: Any) -> None:
    """SIGTERM comes while a prediction is computed: the answer comes first, and then the end."""
    is_computing, may_end, stop = threading.Event(), threading.Event(), threading.Event()

    def slow(images: np.ndarray) -> np.ndarray:
        is_computing.set()
        assert may_end.wait(30)
        return predict(images)

    service.predict = slow
    answers: list[tuple[int, str]] = []
    serving = threading.Thread(target=serve.serve, args=(service, 0, stop))
    serving.start()
    while "ready at port" not in (printed := capsys.readouterr().out):
        pass
    port = printed.partition("ready at port ")[2].partition(":")[0]
    body = json.dumps({"instances": [IMAGE]}).encode()
    asking = threading.Thread(target=lambda: answers.append(ask(f"127.0.0.1:{port}", f"{MODEL}:predict", body)))
    asking.start()
    assert is_computing.wait(30)
    stop.set()
    may_end.set()
    asking.join()
    serving.join()
    assert answers == [(200, '{"predictions": [[0.5, 0.5]]}')]
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["answers"], result["images"], result["weights"]) == ({"200": 1}, 1, ABOUT)


def test_weights_of_a_training_come_before_those_of_its_own(tmp_path: Path) -> None:
    for step, folder in enumerate(("output", "dataset"), start=1):
        (tmp_path / folder).mkdir()
        checkpoint.save(tmp_path / folder, checkpoint.Checkpoint(step, "fp32", [], []))
    environ = {"OUTPUT_DIR": f"{tmp_path}/output", "DATASET_DIR": f"{tmp_path}/dataset"}
    saved, path = serve.find_weights(settings.read_settings(environ), environ)
    assert (saved.step, path) == (2, tmp_path / "dataset/checkpoint.npz")
    path.unlink()
    saved, path = serve.find_weights(settings.read_settings(environ), environ)
    assert (saved.step, path) == (1, tmp_path / "output/checkpoint.npz")


def test_weights_that_have_to_be_there(tmp_path: Path) -> None:
    environ = {"OUTPUT_DIR": f"{tmp_path}/output", "DATASET_DIR": f"{tmp_path}/dataset"}
    assert serve.find_weights(settings.read_settings(environ), environ) == (None, None)
    with pytest.raises(settings.SettingsError) as refused:
        serve.find_weights(settings.read_settings(environ), {**environ, "REQUIRE_WEIGHTS": "1"})
    places = f"{tmp_path}/dataset/checkpoint.npz or {tmp_path}/output/checkpoint.npz"
    assert str(refused.value) == f"REQUIRE_WEIGHTS: expected {places}, found neither"
