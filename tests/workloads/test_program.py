"""The program of the container that computes: a script of the package, a command, or the image's entrypoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.builder.selection import select
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.kubernetes.manifest import Manifest
from packager.modelspec.load import load
from packager.package import tree
from packager.workloads import structures
from packager.workloads.program import references
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

WORDS = ["./run.sh", "--steps", "$(STEPS)", "$$(STEPS)", "", "a: b", "yes", "1e3", "é\n\t'\"#"]


def spec(overlay: str, *changes: str) -> str:
    """Return the demo without files and script, with `overlay` in the place of its Pod."""
    nothing = ("files: [train.sh]\n => ", ", script: train.sh => , overlays: [single-node]")
    return demo.changed(*nothing, f"{{kind: Pod}} => {overlay}", "environment: {STEPS: 3, CACHE: ROOT/cache}", *changes)


@pytest.fixture
def rendered(tmp_path: Path, kubectl: Path) -> Callable[..., dict[str, dict[str, Any]]]:
    """Renders an overlay as kubectl does, and returns its objects by kind and name."""

    def run(
        text: str,
        overlay: str = "single-node",
        options: Options | None = None,
        files: dict[str, str | bytes] | None = None,
    ) -> dict[str, dict[str, Any]]:
        loaded = load(demo.write(tmp_path / "model", text, files))
        package = tmp_path / "package"
        package.mkdir()
        tree.write(render(plan(loaded, loaded.spec.variants[0], options or Options())), package)
        done = kustomize(package / "quickstart/k8s/mlops" / overlay, program=str(kubectl))
        assert done.warnings == ()
        return {f"{item['kind']}/{item['metadata']['name']}": item for item in yaml.safe_load_all(done.manifests)}

    return run


def container(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the main container of the workload among the objects."""
    [workload] = [item for item in objects.values() if item["kind"] in ("Pod", "Job", "Deployment")]
    pod = workload["spec"] if workload["kind"] == "Pod" else workload["spec"]["template"]["spec"]
    [main] = pod["containers"]
    return dict(main)


def test_command_and_args_reach_kubernetes_unchanged(rendered: Callable[..., Any]) -> None:
    got = container(rendered(spec(f"{{kind: Job, command: {json.dumps(WORDS)}, args: {json.dumps(WORDS)}}}")))
    assert (got["command"], got["args"]) == (WORDS, WORDS)
    assert "workingDir" not in got


@pytest.mark.parametrize(
    ("keys", "program"),
    [
        ("Pod", {}),
        ("Job, command: [], args: [a]", {"args": ["a"]}),
        ("Deployment, ports: {http: {port: 8080}}, command: []", {}),
    ],
)
def test_empty_keys_keep_the_image_s_command(rendered: Callable[..., Any], keys: str, program: dict[str, Any]) -> None:
    got = container(rendered(spec(f"{{kind: {keys}}}")))
    assert {key: got[key] for key in ("command", "args", "workingDir") if key in got} == program


@pytest.mark.parametrize(
    ("overlay", "program"),
    [
        ("multi-node", "{kind: MPIJob, workdir: ., init: {script: train.sh}}"),
        ("multi-node", "{kind: JobSet, workdir: ., roles: {a: {}, b: {}}, success: [a], rendezvous: none}"),
    ],
)
def test_edited_folders_reach_the_program_with_one_slash(
    rendered: Callable[..., Any], tmp_path: Path, kubectl: Path, overlay: str, program: str
) -> None:
    """A user replaces ROOT in some lines of mlops.env by hand; Python keeps two slashes at the start of a path."""
    old = "{kind: Pod}" if overlay == "single-node" else "{kind: MPIJob}"
    text = demo.changed(f"{old} => {program}", "environment: {CACHE: ROOT/cache, NO: ROOT/no}")
    rendered(text, overlay)
    folder = tmp_path / f"package/quickstart/k8s/mlops/{overlay}"
    env = folder / "mlops.env"
    for edited in ("MODEL_DIR", "NO"):
        env.write_text(env.read_text().replace(f"{edited}=ROOT/", f"{edited}=/nfs/"))
    items = [Manifest(item) for item in yaml.safe_load_all(kustomize(folder, program=str(kubectl)).manifests)]
    for pods in (pods for item in items for pods in structures.pods(item)):
        for _, program_container in pods.containers():
            if program_container["name"] != "identity":
                values = {entry["name"]: entry.get("value") for entry in program_container["env"]}
                assert values["HOME"] == "/home/mlpack"
                assert values["MODEL_DIR"] == "/nfs/demo-fp32-training"
                assert (values["OUTPUT_DIR"], values["CACHE"]) == ("/ROOT/demo-fp32-training/output", "/ROOT/cache")
                assert values["NO"] == "/nfs/no"
                assert program_container["workingDir"] == "/nfs/demo-fp32-training/quickstart/scripts"


def test_mpirun_starts_a_command(rendered: Callable[..., Any]) -> None:
    objects = rendered(
        spec(
            "{kind: Pod}", "[single-node] => [multi-node]", "{kind: MPIJob} => {kind: MPIJob, command: [a], args: [b]}"
        ),
        "multi-node",
    )
    replicas = objects["MPIJob/demo-fp32-training-multi-node"]["spec"]["mpiReplicaSpecs"]
    launcher, worker = (replicas[role]["template"]["spec"]["containers"][0] for role in ("Launcher", "Worker"))
    assert launcher["command"][-4:] == ["openmpi", "all", "a", "b"]
    assert "workingDir" not in launcher | worker


def test_environment_of_an_overlay_overrides_variant_and_spec(rendered: Callable[..., Any]) -> None:
    text = spec("{kind: Pod, environment: {STEPS: 5, OWN: a b}}", "variants: => variants: # ")
    data = rendered(text.replace("mode: training", "mode: training, environment: {STEPS: 4}"))[
        "ConfigMap/demo-fp32-training-env-single-node"
    ]["data"]
    assert (data["STEPS"], data["OWN"], data["CACHE"]) == ("5", "a b", "ROOT/cache")


def test_references_are_found_as_kubernetes_expands_them() -> None:
    for word, names in [
        ("$(A)", ["A"]),
        ("x$(A)y$(B)", ["A", "B"]),
        ("$$(A)", []),
        ("$$$(A)", ["A"]),
        ("$A $ (A) $(", []),
        ("$()", [""]),
    ]:
        assert list(references(word)) == names


def test_package_without_files_verifies(mlpack: Mlpack, tmp_path: Path) -> None:
    overlays = "{kind: Job, args: [a], environment: {QUOTED: \"'x'\"}}"
    demo.write(tmp_path / "demo", spec(overlays, "overlays: [single-node] => overlays: [single-node, multi-node]"))
    text = (tmp_path / "demo/spec.yaml").read_text().replace("{kind: MPIJob}", "{kind: MPIJob, command: [a]}")
    (tmp_path / "demo/spec.yaml").write_text(text)
    assert mlpack("build", "./demo", "--format", "dir").code == 0
    done = mlpack("verify", "demo-fp32-training")
    assert (done.code, done.stderr) == (0, "")
    assert mlpack("show", "./demo").stdout.split("\n")[3].split() == [
        *("fp32", "training", "demo-fp32-training", "single-node,", "multi-node", "-"),
    ]


def test_mpijob_passes_arguments_and_folder_to_every_rank(rendered: Callable[..., Any]) -> None:
    text = demo.changed("script: train.sh => script: train.sh, workdir: ., args: [-n, a b]")
    objects = rendered(text, "multi-node")
    roles = objects["MPIJob/demo-fp32-training-multi-node"]["spec"]["mpiReplicaSpecs"]
    (launcher,), (worker,) = (roles[role]["template"]["spec"]["containers"] for role in ("Launcher", "Worker"))
    assert launcher["command"][2:] == ["openmpi", "all", "$(MODEL_DIR)/quickstart/scripts/train.sh", "-n", "a b"]
    folder = "/ROOT/demo-fp32-training/quickstart/scripts"
    assert (launcher["workingDir"], worker["workingDir"]) == (folder, folder)


CHOICE = ("script: train.sh => scripts: [train.sh, src/other.sh]", "[train.sh] => [train.sh, src]")


def test_script_variable_chooses_one_of_several_scripts(rendered: Callable[..., Any]) -> None:
    objects = rendered(demo.changed(*CHOICE), files={"src/other.sh": demo.SCRIPT})
    pod = objects["Pod/demo-fp32-training-single-node"]
    assert container(objects)["command"] == ["$(MODEL_DIR)/quickstart/scripts/$(SCRIPT)"]
    assert pod["metadata"]["annotations"]["mlpack/scripts"] == "train.sh src/other.sh"
    assert objects["ConfigMap/demo-fp32-training-env-single-node"]["data"]["SCRIPT"] == "train.sh"


@pytest.mark.parametrize(
    ("script", "hint"),
    [
        ("../../../bin/sh", ""),
        pytest.param("src/othr.sh", " (did you mean 'src/other.sh'?)", marks=pytest.mark.thorough),
    ],
)
def test_configure_and_verify_refuse_an_unlisted_script(mlpack: Mlpack, tmp_path: Path, script: str, hint: str) -> None:
    demo.write(tmp_path / "demo", demo.changed(*CHOICE), {"src/other.sh": demo.SCRIPT})
    assert mlpack("build", "./demo", "--format", "dir").code == 0
    package = "demo-fp32-training"
    message = f"expected one of train.sh, src/other.sh, found {script!r}"
    done = mlpack("configure", package, "--overlay", "single-node", "--set", f"SCRIPT={script}")
    assert (done.code, done.stderr.splitlines()[0]) == (2, f"error: --set SCRIPT, for single-node: {message}")
    env = tmp_path / package / "quickstart/k8s/mlops/multi-node/mlops.env"
    env.write_text(env.read_text().replace("SCRIPT=train.sh", f"SCRIPT={script}"))
    done = mlpack("verify", package)
    assert done.code == 5
    (problem,) = [line for line in (done.stdout + done.stderr).splitlines() if "data.SCRIPT" in line]
    assert problem.endswith(f"ConfigMap {package}-env-multi-node: data.SCRIPT: {message}{hint}")


INITIAL = "script: train.sh => script: train.sh, workdir: ., init: {script: train.sh, args: [prepare, $(STEPS)]}"
OVERLAYS_WITH_INIT = {
    "single-node": "{kind: Pod}",
    "job": "{kind: Job, init: {command: [mkdir, -p, $(OUTPUT_DIR)/x]}}",
    "server": "{kind: Deployment, ports: {http: {port: 8080}}}",
    "servers": "{kind: JobSet, rendezvous: none, success: [a], roles: {a: {}, b: {}}}",
    "multi-node": "{kind: MPIJob, resources: {limits: {memory: 1Gi}}}",
}


@pytest.mark.parametrize("name", ["job", "servers", "multi-node"])
def test_init_container_has_image_folders_and_variables_of_the_program(rendered: Callable[..., Any], name: str) -> None:
    other = "{kind: Pod} => {kind: Pod}\n" + "".join(
        f"  {key}: {value}\n" for key, value in OVERLAYS_WITH_INIT.items() if key not in ("single-node", "multi-node")
    )
    mpi = "{kind: MPIJob} => " + OVERLAYS_WITH_INIT["multi-node"]
    options = Options(root="/srv", site=select(["nfs"], ["NFS_SERVER=nfs.example.com"]))
    objects = rendered(demo.changed(other, mpi, INITIAL, "environment: {STEPS: 3}"), name, options)
    pods = [pods for item in objects.values() for pods in structures.pods(Manifest(item)) if pods.prepares]
    assert len(pods) == (2 if name == "servers" else 1)
    for pod in pods:
        identity, init = pod.spec["initContainers"]
        main = pod.spec["containers"][0]
        assert (identity["name"], init["name"], init["image"]) == ("identity", "init", main["image"])
        assert {mount["mountPath"] for mount in init["volumeMounts"]} == {
            mount["mountPath"] for mount in main["volumeMounts"]
        }
        assert "/srv/demo-fp32-training" in {mount["mountPath"] for mount in init["volumeMounts"]}
        assert (init["envFrom"], init["resources"]) == (main["envFrom"], main["resources"])
        # The variables that distinguish the pods of a JobSet are for the program only.
        assert init["env"] == [entry for entry in main["env"] if entry["name"] != "JOBSET_NAME"]
        assert init["envFrom"] == [{"configMapRef": {"name": init["envFrom"][0]["configMapRef"]["name"]}}]
        assert f"ConfigMap/{init['envFrom'][0]['configMapRef']['name']}" in objects
        assert init["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert init["workingDir"] == "/srv/demo-fp32-training/quickstart/scripts"
        if name == "job":
            assert init["command"] == ["mkdir", "-p", "$(OUTPUT_DIR)/x"]
        else:
            assert init["command"] == ["$(MODEL_DIR)/quickstart/scripts/train.sh"]
            assert init["args"] == ["prepare", "$(STEPS)"]
