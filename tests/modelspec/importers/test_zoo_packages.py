"""All packages of Intel's Model Zoo v2.2.0 that have a spec, by facts about each: what their imports contain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from packager.modelspec.importing import Imported, ModelDestination, import_intel
from tests.modelspec.importers.test_zoo import SPECS, write

if TYPE_CHECKING:
    from pathlib import Path

# The folder of the spec, the package, how many scripts and downloads it has, and the overlays of its manifests; or
# whether its code is too large for ConfigMaps, and its spec names no image.
PACKAGES = """
k8s        bert-large-fp32-training-k8s            0 0 multi-node=MPIJob single-node=Pod
k8s        resnet50v1-5-fp32-inference-k8s         0 0 serving=Deployment
k8s        resnet50v1-5-fp32-training-k8s          0 0 multi-node=MPIJob single-node=Pod
k8s        rfcn-fp32-inference-k8s                 0 0 preprocess=Job accuracy=Job serving=Pod
k8s        wide-deep-large-ds-fp32-training-k8s    0 0 train=Job serving=Deployment single-node=Pod
ml         scikit-learn-census                     1 1 imageless
pytorch    dlrm-bf16-training                      1 0 imageless
pytorch    pytorch-resnet50-bf16-inference         3 0
pytorch    pytorch-resnet50-fp32-inference         3 0
tensorflow bert-large-bfloat16-inference           3 1
tensorflow bert-large-bfloat16-training            3 0
tensorflow bert-large-fp32-inference               3 1
tensorflow bert-large-fp32-training                3 0
tensorflow densenet169-fp32-inference              3 1
tensorflow faster-rcnn-fp32-inference              2 1
tensorflow faster-rcnn-int8-inference              2 1
tensorflow inceptionv3-fp32-inference              3 1
tensorflow inceptionv3-int8-inference              3 1
tensorflow inceptionv4-fp32-inference              3 1
tensorflow inceptionv4-int8-inference              3 1
tensorflow maskrcnn-fp32-inference                 1 0
tensorflow mlperf-gnmt-fp32-inference              3 1
tensorflow mobilenet-v1-fp32-inference             3 1
tensorflow mobilenet-v1-int8-inference             3 1
tensorflow ncf-fp32-inference                      3 1
tensorflow preprocess-coco-val                     1 0 imageless
tensorflow resnet101-fp32-inference                3 1
tensorflow resnet101-int8-inference                3 1
tensorflow resnet50-fp32-inference                 3 1
tensorflow resnet50-int8-inference                 2 1
tensorflow resnet50v1-5-bfloat16-inference         3 1
tensorflow resnet50v1-5-bfloat16-training          3 0
tensorflow resnet50v1-5-fp32-inference             3 1
tensorflow resnet50v1-5-fp32-training              3 0
tensorflow resnet50v1-5-int8-inference             3 1
tensorflow rfcn-fp32-inference                     2 1
tensorflow rfcn-int8-inference                     2 1
tensorflow ssd-mobilenet-fp32-inference            2 1
tensorflow ssd-mobilenet-int8-inference            2 1
tensorflow ssd-resnet34-fp32-inference             4 2
tensorflow ssd-resnet34-fp32-training              1 0
tensorflow ssd-resnet34-int8-inference             2 2
tensorflow transformer-lt-official-fp32-inference  2 1
tensorflow transformer-mlperf-bfloat16-training    2 0 large
tensorflow transformer-mlperf-fp32-training        3 0 large
tensorflow unet-fp32-inference                     1 1
tensorflow wavenet-fp32-inference                  1 1
tensorflow wide-deep-fp32-inference                2 1
tensorflow wide-deep-large-ds-fp32-inference       2 1
tensorflow wide-deep-large-ds-fp32-training        3 0
tensorflow wide-deep-large-ds-int8-inference       2 1
"""
POD = {"containers": [{"name": "main", "image": "example/net:1", "command": ["train", "$(MODEL_DIR)"]}]}
MPI = {"Launcher": {"template": {"spec": POD}}, "Worker": {"replicas": 2}}
SPEC_OF = {
    "Pod": POD,
    "MPIJob": {"mpiReplicaSpecs": MPI},
    "Deployment": {"replicas": 3, "template": {"spec": POD}},
}


def tree_of(row: str) -> dict[str, str]:
    """Return the files of a package that a row of the table describes."""
    framework, package, scripts, downloads, *traits = row.split()
    code = f"code/{package}"
    words = {"<model name>": package.upper()}
    if "imageless" not in traits:
        words["<docker image>"] = "example/net:1"
    value: dict[str, Any] = {
        "args": [f"PACKAGE_NAME={package}"],
        "documentation": {"text_replace": words},
        "files": [{"source": code, "destination": "quickstart"}],
        "downloads": [
            {"source": f"https://models.example/{number}.pb", "destination": f"{number}.pb"}
            for number in range(int(downloads))
        ],
    }
    spec = {"releases": {"v": {"tag_specs": ["{base}{own}"]}}, "slice_sets": {"own": [value]}}
    tree = {
        f"{SPECS}/{framework}/{package}_spec.yml": yaml.safe_dump(spec),
        f"{SPECS}/{framework}/base_spec.yml": "slice_sets: {base: [{partials: [x]}]}\n",
        **{f"{code}/run{number}.sh": "#!/bin/sh\n" for number in range(int(scripts))},
        **({f"{code}/net.txt": "x" * 600_000} if "large" in traits else {}),
    }
    for trait in (trait for trait in traits if "=" in trait):
        use, kind = trait.split("=")
        tree[f"{code}/mlops/{use}/kustomization.yaml"] = "kind: Kustomization\n"
        # A step of a Workflow becomes a Job: for its name, the overlay is called after it.
        values = {"kind": kind, "metadata": {"name": use}, "spec": SPEC_OF.get(kind)}
        if kind == "Job":
            step = {"name": use, "container": POD["containers"][0]}
            values = {"kind": "Workflow", "spec": {"templates": [step]}}
        tree[f"{code}/mlops/{use}/workload.yaml"] = yaml.safe_dump(values)
        data = {"MODEL_DIR": "/workspace/net", "REPLICAS": "3", "WORKERS": "5"}
        tree[f"{code}/mlops/{use}/config-map.yaml"] = yaml.safe_dump({"kind": "ConfigMap", "data": data})
    return tree


def test_all_packages_of_the_zoo_are_imported(tmp_path: Path) -> None:
    rows = PACKAGES.strip().splitlines()
    assert len(rows) == 51
    for row in rows:
        write(tmp_path / "zoo", tree_of(row))
    folders = [tmp_path / "zoo" / SPECS / framework for framework in ("k8s", "ml", "pytorch", "tensorflow")]
    results = {}
    for folder in folders:
        for result in import_intel(folder, ModelDestination(tmp_path / folder.name), downloads=True):
            assert isinstance(result, Imported), result
            results[folder.name, result.folder.name] = result
    for row in rows:
        framework, package, scripts, downloads, *traits = row.split()
        spec = yaml.safe_load((results[framework, package].folder / "spec.yaml").read_text(encoding="utf-8"))
        (variant,) = spec["variants"]
        assert "-".join((spec.get("package", spec["name"]), *variant.get("precision", "").split())) in package
        assert spec["title"] == package.upper()
        assert spec["framework"] == ("tensorflow" if framework == "k8s" else framework)
        assert len(spec.get("downloads", ())) == int(downloads)
        assert spec["image"]["registry"] == ("localhost" if "imageless" in traits else "docker.io")
        kinds = {name: overlay["kind"] for name, overlay in spec["overlays"].items()}
        if framework == "k8s":
            assert kinds == dict(trait.split("=") for trait in traits)
            _check_variables(spec, results[framework, package])
            continue
        assert kinds == {"single-node": "Pod"}
        assert len(variant.get("scripts", [variant.get("script")])) == int(scripts)
        assert ("CODE_DIR" in spec["environment"]) is ("large" in traits)


def _check_variables(spec: dict[str, Any], result: Imported) -> None:
    """Check that variables whose names the package uses are renamed, or left out if they have the same value."""
    taken = {"Deployment": {"WORKERS"}, "MPIJob": {"REPLICAS", "MODEL_WORKERS"}}
    for overlay in spec["overlays"].values():
        names = taken.get(overlay["kind"], {"REPLICAS", "WORKERS"})
        assert set(overlay["environment"]) == names, overlay["kind"]
    messages = [finding.message for finding in result.findings]
    kinds = [overlay["kind"] for overlay in spec["overlays"].values()]
    assert ("REPLICAS is set by the package, to the same value" in messages) is ("Deployment" in kinds)
