"""The packages of the bundled models, whole: every file as it is written, every overlay as a real kubectl renders it.

A copied file is represented by the path of its source. `make golden` writes all of it again.
"""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.plan import Options, choose, plan
from packager.builder.render import render
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.modelspec.catalog import bundled, find
from packager.modelspec.load import load
from packager.package import tree
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_golden.plugin import GoldenTestFixture

    from packager.builder.plan import Plan
    from packager.package.tree import Tree

GOLDEN = Path(__file__).parents[1] / "golden"
ONE_OF_EACH_KIND = ("hello-mpi", "llm-serving-cuda", "resnet50v1-5-pytorch", "xgboost-tabular")
OTHERS = ("cifar10", "jax", "llm-finetune", "llm-serving-cpu", "resnet50v1-5-fp32")
WITH_EACH_KIND = [
    ("hello-mpi", None, None),
    ("llm-serving", None, "cuda"),
    ("resnet50-pytorch", "fp32", "training"),
    ("xgboost-tabular", None, "cpu"),
]


def planned(model: str, precision: str | None = None, mode: str | None = None) -> Plan:
    loaded = load(find(model, [bundled()]))
    return plan(loaded, choose(loaded.spec, None if precision == "-" else precision, mode), Options())


def built(model: str, precision: str | None = None, mode: str | None = None) -> Tree:
    return render(planned(model, precision, mode))


def rendered(overlay: Path, kubectl: Path) -> list[dict[str, Any]]:
    result = kustomize(overlay, program=str(kubectl))
    assert result.warnings == ()
    return list(yaml.safe_load_all(result.manifests))


def as_difference(text: str, twin: str, name: str) -> str:
    """Return the lines in which a text differs from its twin, whose name is `name`; or the text, if that is shorter."""
    if text == twin:
        return f"as in {name}"
    lines = list(difflib.unified_diff(twin.splitlines(), text.splitlines(), name, "", n=0, lineterm=""))
    difference = "\n".join((f"as in {name}, except:", *lines[2:], ""))
    return difference if len(difference) < len(text) / 2 else text


def test_every_bundled_variant_has_goldens() -> None:
    """A variant in bf16 has the overlays of the one in fp32, with other values."""
    specs = [load(path).spec for path in bundled().glob("*/*spec.yaml")]
    variants = {spec.package_name(variant): variant for spec in specs for variant in spec.variants}
    files = {folder: {path.stem for path in (GOLDEN / folder).iterdir()} for folder in ("packages", "rendered")}
    assert files["packages"] == set(variants)
    assert files["rendered"] == {name for name in variants if variants[name].precision != "bf16"}


@pytest.mark.usefixtures("long_lines")
@pytest.mark.golden_test("../golden/packages/*.yml")
def test_package_has_expected_files(golden: GoldenTestFixture, tmp_path: Path) -> None:
    package = planned(golden["model"], golden.get("precision"), golden.get("mode"))
    contents = _contents(package, tmp_path / "package")
    if twin := golden.get("twin"):
        other = planned(*twin.split())
        others = {
            _named(head, other, package): _named(text, other, package)
            for head, text in _contents(other, tmp_path / "twin").items()
        }
        contents = {head: as_difference(text, others.get(head, ""), other.name) for head, text in contents.items()}
    assert contents == golden.out["files"]


def _named(text: str, one: Plan, other: Plan) -> str:
    """Return a text of the package `one` with the names of `other` in their places."""
    for old, new in ((one.name, other.name), (f"common/{one.spec.framework}/", f"common/{other.spec.framework}/")):
        text = text.replace(old, new)
    return text


def _contents(package: Plan, folder: Path) -> dict[str, str]:
    """Return the text of each file of a package, by its path and permissions."""
    folder.mkdir()
    tree.write(render(package), folder)
    copies = {path: source.path for path, source, _ in package.payload}
    copies["spec.yaml"] = find(package.spec.name, [bundled()])
    contents = {}
    for path in sorted(file for file in folder.rglob("*") if file.is_file()):
        name = path.relative_to(folder).as_posix()
        head = f"{name} {path.stat().st_mode & 0o777:04o}"
        if name in copies:
            assert path.read_bytes() == copies[name].read_bytes()
            contents[head] = f"a copy of {copies[name].relative_to(demo.CHECKOUT)}"
        elif name == "manifest.json":
            contents[head] = "see test_tree.py"
        else:
            contents[head] = path.read_text()
    return contents


@pytest.mark.usefixtures("long_lines")
@pytest.mark.golden_test(*(f"../golden/rendered/{name}*.yml" for name in ONE_OF_EACH_KIND))
def test_overlays_of_each_kind_render_to_expected_manifests(
    golden: GoldenTestFixture, tmp_path: Path, kubectl: Path
) -> None:
    output, made = _output(golden, tmp_path, kubectl)
    assert made == golden.out[output]


@pytest.mark.thorough
@pytest.mark.usefixtures("long_lines")
@pytest.mark.golden_test(*(f"../golden/rendered/{name}*.yml" for name in OTHERS))
def test_overlays_of_other_models_render_to_expected_manifests(
    golden: GoldenTestFixture, tmp_path: Path, kubectl: Path
) -> None:
    output, made = _output(golden, tmp_path, kubectl)
    assert made == golden.out[output]


def _output(golden: GoldenTestFixture, tmp_path: Path, kubectl: Path) -> tuple[str, dict[str, Any]]:
    """Return the name of the output in a golden, and the rendered manifests in the form that it has."""
    package = planned(golden["model"], golden.get("precision"), golden.get("mode"))
    manifests = _manifests(package, tmp_path / "package", kubectl, is_complete=golden.get("complete", False))
    if twin := golden.get("twin"):
        other = planned(*twin.split())
        others = json.loads(_named(json.dumps(_manifests(other, tmp_path / "twin", kubectl)), other, package))
        differences = {
            f"{overlay}: {name}": as_difference(_yaml(item), _yaml(others[overlay][name]), other.name)
            for overlay, items in manifests.items()
            for name, item in items.items()
        }
        return "differences", differences
    return "manifests", manifests


def _yaml(value: object) -> str:
    return yaml.safe_dump(value)


def _manifests(package: Plan, folder: Path, kubectl: Path, *, is_complete: bool = False) -> dict[str, dict[str, Any]]:
    """Return the manifests of each overlay by their names."""
    folder.mkdir()
    tree.write(render(package), folder)
    return {
        overlay.name: shown(overlay, rendered(overlay, kubectl), is_complete=is_complete)
        for overlay in sorted((folder / "quickstart/k8s/mlops").iterdir())
    }


def shown(overlay: Path, manifests: list[dict[str, Any]], *, is_complete: bool = False) -> dict[str, Any]:
    """Return the manifests of an overlay by name, without what the package's golden has.

    A manifest that a file of the overlay contains has only the fields that differ from the file, unless `is_complete`:
    tests/life.py reads such a golden. A ConfigMap has only the names of its files.
    """
    by_name = {}
    # A hash in a name says no more than the content does.
    for manifest in json.loads(re.sub(r'-[2456789bcdfghkmt]{10}"', '-HASH"', json.dumps(manifests))):
        name = f"{manifest['kind']}/{manifest['metadata']['name']}"
        if manifest["kind"] == "ConfigMap" and not manifest["metadata"]["name"].rpartition("-env-")[1]:
            manifest["data"] = sorted(manifest["data"])
        by_name[name] = (None if is_complete else _from_file(overlay, manifest)) or manifest
    return by_name


def _from_file(overlay: Path, manifest: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a manifest that differ from the overlay's file of its kind; None if there is no such file.

    A field is named by its path, and each list item by its index, so that no order is lost.
    """
    for path in sorted(overlay.glob("*.yaml")):
        written = yaml.safe_load(path.read_text())
        if isinstance(written, dict) and written.get("kind") == manifest["kind"] and "-patch" not in path.name:
            before, after = dict(_fields(written)), dict(_fields(manifest))
            changed = {field: value for field, value in after.items() if before.get(field, ...) != value}
            return {f"as in {path.name}, except": changed | dict.fromkeys(before.keys() - after.keys(), "(removed)")}
    return None


def _fields(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each field that contains no other field."""
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _fields(value, f"{path}.{key}" if path else key)
    elif isinstance(node, list) and node:
        for index, value in enumerate(node):
            yield from _fields(value, f"{path}[{index}]")
    else:
        yield path, node


@pytest.fixture(scope="module", params=WITH_EACH_KIND, ids=lambda variant: "-".join(filter(None, variant)))
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages") / "package"
    folder.mkdir()
    tree.write(built(*request.param), folder)
    return folder


def overlays(package: Path) -> list[Path]:
    return sorted((package / "quickstart/k8s/mlops").iterdir())


def test_values_of_mlops_env_reach_manifests(package: Path, kubectl: Path) -> None:
    for overlay in overlays(package):
        env = overlay / "mlops.env"
        text = env.read_text()
        env.write_text(
            text.replace("=ROOT/", "=/nfs/a b/")
            .replace("REGISTRY=", "REGISTRY=example.com:5000/team\n#")
            .replace("OUTPUT_DIR=/nfs/a b/", "OUTPUT_DIR=/elsewhere/")
        )
        manifests = rendered(overlay, kubectl)
        env.write_text(text)
        containers = [
            container for pod in pods(manifests) for container in (*pod["initContainers"], *pod["containers"])
        ]
        assert {container["image"].rpartition("/")[0].partition("/team")[0] for container in containers} == {
            "example.com:5000"
        }
        mounts = {mount["name"]: mount["mountPath"] for container in containers for mount in container["volumeMounts"]}
        assert mounts["scripts"].startswith("/nfs/a b/")
        assert mounts["scripts"].endswith("/quickstart/scripts")
        assert mounts["output"].startswith("/elsewhere/")


def test_values_reach_no_container_or_volume_with_a_longer_name(tmp_path: Path, kubectl: Path) -> None:
    """Kustomize searches names of list items for a regular expression: an unanchored name selects longer ones, too."""
    tree.write(built("hello-mpi"), tmp_path)
    overlay = tmp_path / "quickstart/k8s/mlops/single-node"
    pod = overlay / "pod.yaml"
    mounts = "[{name: output-log, mountPath: /own}]"
    sidecar = f"    - {{name: main-log, image: own/log, workingDir: /own/log, volumeMounts: {mounts}}}\n"
    mark = "  containers:\n    - name: main\n"
    text = pod.read_text()
    pod.write_text(text.replace(mark, f"  containers:\n{sidecar}    - name: main\n"))
    env = overlay / "mlops.env"
    env.write_text(env.read_text().replace("REGISTRY=docker.io", "REGISTRY=changed").replace("=ROOT/", "=/changed/"))
    spec = next(item for item in rendered(overlay, kubectl) if item["kind"] == "Pod")["spec"]
    containers = {container["name"]: container for container in spec["containers"]}
    assert "changed" not in json.dumps(containers["main-log"])
    assert containers["main"]["image"].startswith("changed/")


def test_overlay_of_the_user_renames_all_objects_and_references(package: Path, kubectl: Path) -> None:
    names = [overlay.name for overlay in overlays(package)]
    top = package.parent / "mine"
    top.mkdir(exist_ok=True)
    (top / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: team\nnamePrefix: alice-\n"
        "resources:\n" + "".join(f"  - ../package/quickstart/k8s/mlops/{name}\n" for name in names)
    )
    manifests = rendered(top, kubectl)
    assert {manifest["metadata"]["namespace"] for manifest in manifests} == {"team"}
    maps = {manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == "ConfigMap"}
    assert all(manifest["metadata"]["name"].startswith("alice-") for manifest in manifests)
    used: set[str] = set()
    for pod in pods(manifests):
        used.update(volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume)
        for container in pod["containers"]:
            used.update(source["configMapRef"]["name"] for source in container.get("envFrom", ()))
    assert used == maps


def pods(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pod specs of all workloads."""
    pod_specs = []
    for manifest in manifests:
        match manifest["kind"]:
            case "Pod":
                pod_specs.append(manifest["spec"])
            case "JobSet":
                jobs = [job["template"]["spec"] for job in manifest["spec"]["replicatedJobs"]]
                pod_specs.extend(job["template"]["spec"] for job in jobs)
            case "MPIJob":
                pod_specs.extend(role["template"]["spec"] for role in manifest["spec"]["mpiReplicaSpecs"].values())
            case "LeaderWorkerSet":
                templates = manifest["spec"]["leaderWorkerTemplate"]
                pod_specs.extend(templates[key]["spec"] for key in ("leaderTemplate", "workerTemplate"))
            case "Job" | "Deployment":
                pod_specs.append(manifest["spec"]["template"]["spec"])
    assert pod_specs != []
    return pod_specs
