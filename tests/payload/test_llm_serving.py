"""The programs of llm-serving with stand-ins for what only its images have, and the flags of vLLM in its sources."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from packager.modelspec.load import load
from tests.payload.conftest import load_module

VERSION = "0.31.0"
FLAGS = """
    --served-model-name --max-model-len --gpu-memory-utilization --tensor-parallel-size --pipeline-parallel-size
    --nnodes --node-rank --master-addr --shutdown-timeout --headless --host --port
"""
"""The flags of `vllm serve` in the sources of VERSION: vllm/engine/arg_utils.py, entrypoints/launchers/cli_args.py."""

COMMON = ["--served-model-name", "llm", "--tensor-parallel-size", "4", "--gpu-memory-utilization", "0.9"]
SERVED = ["--host", "0.0.0.0", "--port", "8080", "--shutdown-timeout", "100"]  # noqa: S104 - in a pod
GROUP = {"LWS_GROUP_SIZE": "2", "LWS_LEADER_ADDRESS": "set-0.set"}
GROUP_FLAGS = ["--pipeline-parallel-size", "2", "--nnodes", "2", "--node-rank"]


def serve(specs: Path, folder: Path, **variables: str) -> list[str]:
    """Run the program, and return the arguments with which it starts vLLM."""
    vllm = folder / "bin/vllm"
    vllm.parent.mkdir()
    vllm.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    vllm.chmod(0o755)
    (folder / "output/model").mkdir(parents=True)
    (folder / "output/model/config.json").touch()
    own = {"MODEL": "", "MODEL_NAME": "llm", "CONTEXT_LENGTH": "", "GPU_MEMORY": "0.9", "GPUS": "4"}
    environment = {"PATH": f"{vllm.parent}:/usr/bin:/bin", "OUTPUT_DIR": str(folder / "output"), **own, **variables}
    program = str(specs / "llm-finetune/vllm.sh")
    done = subprocess.run(["sh", program], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else [str(done.returncode), done.stderr]


def test_pod_by_itself_serves_the_trained_model(specs: Path, tmp_path: Path) -> None:
    assert serve(specs, tmp_path) == ["serve", f"{tmp_path}/output/model", *COMMON, *SERVED]


def test_leader_of_a_group_serves(specs: Path, tmp_path: Path) -> None:
    words = serve(specs, tmp_path, **GROUP, LWS_WORKER_INDEX="0")
    group = [*GROUP_FLAGS, "0", "--master-addr", "set-0.set"]
    assert words == ["serve", f"{tmp_path}/output/model", *COMMON, *group, *SERVED]


def test_worker_of_a_group_has_no_server(specs: Path, tmp_path: Path) -> None:
    words = serve(specs, tmp_path, **GROUP, LWS_WORKER_INDEX="1")
    group = [*GROUP_FLAGS, "1", "--master-addr", "set-0.set", "--headless"]
    assert words == ["serve", f"{tmp_path}/output/model", *COMMON, *group]


def test_folder_without_a_model_is_reported(specs: Path, tmp_path: Path) -> None:
    message = "/nowhere has no config.json: MODEL in mlops.env names the folder of the model\n"
    assert serve(specs, tmp_path, MODEL="/nowhere") == ["2", message]


def test_flags_are_those_of_the_version_in_the_image(specs: Path) -> None:
    text = (specs / "llm-finetune/vllm.sh").read_text(encoding="utf-8")
    assert set(re.findall(r"--[a-z-]+", text)) == set(FLAGS.split())
    spec = load(specs / "llm-finetune/llm-serving.spec.yaml").spec
    image = spec.variants[1].image
    assert image is not None
    assert image.tag == f"v{VERSION}"
    assert image.digest
    assert f"vLLM {VERSION}" in spec.description


@pytest.fixture
def convert(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program that converts a model, without the libraries that only the image has."""
    for name, attribute in (
        ("gguf", ""),
        ("torch", ""),
        ("checkpoints", "load_base"),
        ("llama", "UnsupportedModelError"),
    ):
        module = ModuleType(name)
        module.__dict__[attribute] = OSError
        monkeypatch.setitem(sys.modules, name, module)
    return load_module("llm-finetune", "convert")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"MODEL": ""}, "trained"),
        ({"MODEL": "other"}, "other"),
        ({"BASE_MODEL": "other", "OUTPUT_DIR": "nowhere"}, "other"),
    ],
)
def test_model_to_convert_is_the_named_one_or_the_trained_one(
    convert: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = {"trained": Path("output/model"), "other": Path("other")}
    for folder in folders.values():
        folder.mkdir(parents=True)
        (folder / "config.json").touch()
    assert convert.find({"OUTPUT_DIR": "output", **variables}) == folders[expected]
