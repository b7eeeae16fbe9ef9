"""Tests that the language model trains on one and two nodes, and resumes on another number of nodes."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.models import paced
from tests.e2e.site import CHECKOUT, Images, last_json
from tests.e2e.test_jobset import pod_of
from tests.e2e.test_truth_verdicts import evict

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.site import Site

pytestmark = pytest.mark.trains

SMALL = (
    "--set environment.STEPS.value=6",
    "--set environment.BATCH_SIZE.value=2",
    "--set environment.SEQUENCE_LENGTH.value=64",
    "--set environment.CHECKPOINT_EVERY.value=2",
    "--set variants.0.resources.requests.cpu=50m",  # other tests need room on the node at the same time
)
MANY = ("--set environment.STEPS.value=20", "--set environment.LOG_EVERY.value=1")
NAME = "llm-finetune-cpu"
ASK = """\
import json, os, sys, urllib.request
from pathlib import Path
sys.path.insert(0, os.environ["MODEL_DIR"] + "/quickstart/scripts")
import torch
from checkpoints import load_base
from tokenizers import Tokenizer

folder = Path(os.environ["OUTPUT_DIR"], "model")
network, tokenizer = load_base(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))
prompt = "def read(self, size):"
tokens = tokenizer.encode(prompt, add_special_tokens=False).ids
computed = []
for _ in range(8):
    with torch.no_grad():
        likeliest = network(torch.tensor([tokens]))[0, -1].log_softmax(0).max(0)
    tokens.append(int(likeliest.indices))
    computed.append([tokenizer.decode(tokens[-1:]), float(likeliest.values)])
body = json.dumps({"prompt": prompt, "max_tokens": 8, "temperature": 0, "logprobs": 1}).encode()
request = urllib.request.Request("http://127.0.0.1:8080/v1/completions", body, {"Content-Type": "application/json"})
answer = json.load(urllib.request.urlopen(request))
served = [[token["token"], token["logprob"]] for token in answer["choices"][0]["logprobs"]["content"]]
print(json.dumps({"model": answer["model"], "served": served, "computed": computed}))
"""


@pytest.fixture(scope="module", autouse=True)
def pytorch(images: Images) -> str:
    return images.build(CHECKOUT / "model_specs/llm-finetune", "localhost/pytorch:2.14.1")


def overlay(site: Site, name: str, *options: str, model: str = "llm-finetune") -> Faulty:
    """Build the model's package for uid 12345, and return one of its overlays."""
    folder = site.build(model, "--force", *SMALL, *options)
    site.run(f"mlpack configure {folder} --overlay {name} --uid 12345 --gid 12346")
    return Faulty(site, folder, name)


def result(package: Faulty) -> dict[str, Any]:
    """Deploy a package, and return the summary that its program prints at the end."""
    deploy = package.run("deploy", "--timeout", "10m", timeout=660)
    assert deploy.code == 0, deploy.err
    summary = last_json(package.run("logs").out)
    assert (summary["uid"], summary["gid"]) == (12345, 12346)
    return summary


def test_language_model_trains_unedited_on_two_nodes(site: Site) -> None:
    summary = result(overlay(site, "multi-node"))
    assert summary["hosts"] == [f"{NAME}-multi-node-node-0-{index}" for index in (0, 1)]
    assert (summary["ranks"], summary["steps"], summary["resumed_from"]) == (2, 6, 0)
    assert summary["loss"] < summary["loss_before"] - 0.5


def test_language_model_resumes_on_another_number_of_nodes_with_the_same_loss(site: Site, claim: str) -> None:
    """One of two nodes is drained, then both are deleted, and one node takes the remaining steps of the same size."""
    single = ("--set environment.GRADIENT_ACCUMULATION.value=2", *MANY)
    checkpoints = claim.replace("output-pvc", "checkpoint-pvc").replace("OUTPUT", "CHECKPOINT")
    shared = (checkpoints, "--set environment.CHECKPOINT_DIR=/checkpoints")
    package = overlay(site, "single-node", *single)
    uninterrupted = result(package)
    assert package.run("delete").code == 0
    interrupted = overlay(site, "multi-node", *shared, *MANY, model=str(paced(site, "llm-finetune")))
    assert interrupted.run("deploy", "--no-wait").code == 0
    interrupted.until_logged('"step": 2,')
    evict(site, pod_of(site, 1).removeprefix("pod/"))
    interrupted.until_logged("resuming after step")
    assert "all pods were started again once after a drain" in interrupted.run("status").out
    assert interrupted.run("delete").code == 0
    resumed = result(overlay(site, "single-node", *shared, *single))
    assert resumed["ranks"] == 1
    assert 2 <= resumed["resumed_from"] < resumed["steps"] == 20
    assert resumed["loss"] == pytest.approx(uninterrupted["loss"], abs=0.05)


def answers(site: Site, package: Path, overlay: str, model: str) -> None:
    """Check that llama.cpp continues a text with the tokens and probabilities of PyTorch."""
    answer = last_json(site.run(f"mlpack exec {package} --overlay {overlay} -- python3 -B -c {shlex.quote(ASK)}"))
    assert answer["model"] == model
    served, computed = (list(zip(*answer[key], strict=True)) for key in ("served", "computed"))
    assert served[0] == computed[0]
    assert served[1] == pytest.approx(computed[1], abs=0.01)


def test_trained_model_answers_by_the_openai_api(site: Site, claim: str) -> None:
    """`mlpack run` trains and then serves; llm-serving serves the same model from the same claim."""
    package = site.build("llm-finetune", "--force", *SMALL, claim)
    site.run(f"mlpack configure {package} --uid 12345 --gid 12346")
    run = site.shell(f"mlpack run {package} --timeout 10m")
    assert run.returncode == 0, run.stderr
    answers(site, package, "serving", "llm-finetune")
    metrics = "urllib.request.urlopen('http://127.0.0.1:8080/metrics').read().decode()"
    printed = f"import urllib.request; print({metrics})"
    text = site.run(f"mlpack exec {package} --overlay serving -- python3 -c {shlex.quote(printed)}")
    assert "llamacpp:tokens_predicted_total" in text

    serving = site.build("llm-serving", "--mode cpu --set variants.0.resources.requests.cpu=50m", claim)
    site.run(f"mlpack configure {serving} --uid 12345 --gid 12346")
    site.run(f"mlpack deploy {serving} --timeout 10m")
    answers(site, serving, "single-node", "llm")


def test_serving_without_a_model_names_the_fix(site: Site) -> None:
    package = overlay(site, "serving")
    deploy = package.run("deploy", "--timeout", "10m", timeout=660)
    assert deploy.code == 7
    assert "train one first, with storage that stays, or set BASE_MODEL" in deploy.err
