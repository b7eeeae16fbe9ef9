"""The quick start of README.md, line by line as it is printed there; the image is on the node already."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tests.e2e.site import CHECKOUT
from tests.e2e.storage import NodeFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.site import Images, Site

import pytest

IMAGE = "registry.example.com/team/pytorch:2.14.1"

SMALL = "mlpack configure llm-finetune-cpu --cpu 50m --set STEPS=6 --set BATCH_SIZE=2 --set SEQUENCE_LENGTH=64"
"""Makes the work small enough for a test; it runs after the first line."""


@pytest.fixture
def storage(site: Site, new_site: Callable[[str], Site], mpi_image: str) -> Iterator[None]:
    """Create a volume for each claim of the quick start, as a default storage class would."""
    assert mpi_image
    folder = NodeFolder(new_site("privileged"), "/tmp")
    names = {claim: f"{claim}-{site.namespace}" for claim in ("base", "tuned")}
    for claim, name in names.items():
        folder.run(f"mkdir -p {folder.path}/{claim}\nchmod 777 {folder.path}/{claim}")
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": site.namespace, "name": claim},
            "hostPath": {"path": f"{folder.path}/{claim}"},
        }
        site.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    yield
    site.run(f"kubectl delete pv --wait=false {' '.join(names.values())}")
    folder.run(f"rm -r {folder.path}")


@pytest.mark.trains
@pytest.mark.usefixtures("storage")
def test_quick_start_of_the_readme_trains_and_tunes_and_serves_a_model(site: Site, images: Images) -> None:
    images.build(CHECKOUT / "model_specs/llm-finetune", IMAGE)
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
    assert second["loss_before"] < first["loss_before"]
    assert json.loads(output.splitlines()[-1])["model"] == "llm-finetune"


def _pattern(line: str) -> str:
    """Return a regular expression for a line of the README, with other losses, and anything for `…`."""
    return re.sub(r"[0-9]+\\\.[0-9]{4}", "[0-9.]+", re.escape(line)).replace("…", ".*")
