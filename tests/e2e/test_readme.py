"""The quick start of README.md, line by line as it is printed there; the image is on the node already."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

from tests.e2e.site import CHECKOUT, last_json
from tests.e2e.storage import NodeFolder, volume

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.site import Images, Site

import pytest

IMAGE = "registry.example.com/team/pytorch:2.14.1"

SMALL = "mlpack configure llm-finetune-cpu --cpu 50m --set STEPS=6 --set BATCH_SIZE=2 --set SEQUENCE_LENGTH=64"
"""Makes the work small enough for a test; it runs after the first line."""


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
"""Asks the server of a pod to continue a text, computes the same in PyTorch, and prints both."""


@pytest.fixture
def storage(site: Site, new_site: Callable[[str], Site], mpi_image: str) -> Iterator[None]:
    """Create a volume for each claim of the quick start, as a default storage class would."""
    assert mpi_image
    folder = NodeFolder(new_site("privileged"), "/tmp")
    names = {claim: f"{claim}-{site.namespace}" for claim in ("base", "tuned")}
    for claim, name in names.items():
        folder.run(f"mkdir -p {folder.path}/{claim}\nchmod 777 {folder.path}/{claim}")
        bound = {"namespace": site.namespace, "name": claim}
        site.apply(volume(name, f"{folder.path}/{claim}", "ReadWriteOnce", claimRef=bound))
    yield
    site.run(f"kubectl delete pv --wait=false {' '.join(names.values())}")
    folder.run(f"rm -r {folder.path}")


@pytest.mark.trains
@pytest.mark.usefixtures("storage")
def test_quick_start_of_the_readme_trains_and_tunes_and_serves_a_model(site: Site, images: Images) -> None:
    """The served model answers as PyTorch computes; llm-serving serves the same model from the same claim."""
    for image in (IMAGE, "localhost/pytorch:2.14.1"):
        images.build(CHECKOUT / "model_specs/llm-finetune", image)
    section = (CHECKOUT / "README.md").read_text(encoding="utf-8").partition("## Quick start")[2].partition("\n## ")[0]
    commands, printed = re.findall(r"^```(?:sh|text)\n(.*?)\n^```$", section, re.MULTILINE | re.DOTALL)
    *lines, forward, ask = commands.splitlines()
    docker = site.folder.parent / f"{site.namespace}.bin/docker"
    docker.write_text('#!/bin/sh\necho "$*" >> "$0.log"\n', encoding="utf-8")
    docker.chmod(0o755)
    output = site.run(f"{lines[0]}\n{SMALL}")
    for line in lines[1:]:
        output += site.run(f"{line} 2>&1", timeout=900)
    assert f"push -- {IMAGE}\n" in docker.with_name("docker.log").read_text(encoding="utf-8")
    forward = forward.replace(" 8080 &", " 18080:8080 > forwarded & trap 'kill $!' EXIT")
    output += site.run(f"{forward}\n{ask.replace('localhost:8080', 'localhost:18080')}", timeout=900)
    for line in printed.splitlines():
        assert re.search(f"^{_pattern(line)}$", output, re.MULTILINE), line
    first, second = (json.loads(line) for line in output.splitlines() if line.startswith('{"model"'))
    assert (first["ranks"], first["steps"], first["resumed_from"]) == (1, 6, 0)
    assert (second["ranks"], second["resumed_from"]) == (2, 0)
    assert second["hosts"] == [f"llm-finetune-cpu-multi-node-node-0-{index}" for index in (0, 1)]
    assert second["loss_before"] < first["loss_before"]
    assert json.loads(output.splitlines()[-1])["model"] == "llm-finetune"

    tuned = site.folder / "llm-finetune-cpu"
    answers(site, tuned, "serving", "llm-finetune")
    metrics = "urllib.request.urlopen('http://127.0.0.1:8080/metrics').read().decode()"
    printed = f"import urllib.request; print({metrics})"
    text = site.in_pod(f"{tuned} --overlay serving", f"python3 -c {shlex.quote(printed)}")
    assert "llamacpp:tokens_predicted_total" in text
    claim = "--with output-pvc --site OUTPUT_CLAIM=tuned --site OUTPUT_FOLDER=llm-finetune-cpu"
    served = site.build("llm-serving", f"--mode cpu --set variants.0.resources.requests.cpu=50m {claim}")
    site.run(f"mlpack configure {served} --uid 12345 --gid 12346")
    site.run(f"mlpack deploy {served} --timeout 10m")
    answers(site, served, "single-node", "llm")


def answers(site: Site, package: Path, overlay: str, model: str) -> None:
    """Check that llama.cpp continues a text with the tokens and probabilities of PyTorch."""
    answer = last_json(site.in_pod(f"{package} --overlay {overlay}", f"python3 -B -c {shlex.quote(ASK)}"))
    assert answer["model"] == model
    served, computed = (list(zip(*answer[key], strict=True)) for key in ("served", "computed"))
    assert served[0] == computed[0]
    assert served[1] == pytest.approx(computed[1], abs=0.01)


def _pattern(line: str) -> str:
    """Return a regular expression for a line of the README, with other losses, and anything for `…`."""
    return re.sub(r"[0-9]+\\\.[0-9]{4}", "[0-9.]+", re.escape(line)).replace("…", ".*")
