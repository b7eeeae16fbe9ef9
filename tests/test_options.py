"""Tests of the site options: their changes, combinations, values, and levels."""

from __future__ import annotations

import difflib
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base import yamlio
from packager.base.errors import RenderError
from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.kubernetes.manifest import Manifest
from packager.kubernetes.podsecurity import Level
from packager.modelspec.catalog import bundled
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from packager.package import tree
from packager.package.layout import OVERLAYS, SITE
from packager.package.opened import opened
from packager.package.options import BY_NAME, KEYS, OPTIONS, conflicts, faults, level, offered
from packager.verify import Checks, verify
from packager.workloads import structures
from tests import kinds
from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_golden.plugin import GoldenTestFixture

    from packager.verify.case import Report
    from tests.conftest import Outcome

FOLDERS = tuple(f"--set={argument}" for argument in kinds.FOLDERS)
SETTINGS = (*(f"--set={argument}" for argument in kinds.SET), *FOLDERS)
COMMON = "quickstart/common/mpi/k8s/mlops"
REST = [option.name for option in offered(()) if not option.places and not option.needs]

PATHS = {"MODEL_DIR": "/srv/m", "OUTPUT_DIR": "/srv/m/output", "DATASET_DIR": "/data"}

SETS = {
    "scratch": (
        *("scratch", "dataset-pvc", "checkpoint-pvc", "model-pvc"),
        *("gpu", "placement", "pull-secret", "service-account", "shared-memory"),
    ),
    "claims": ("pvc", "pvc-create", "package-volume", "weights", "queue", "gang", "exclusive"),
    "claim": (
        *("output-pvc", "device-claim", "elastic", "object-storage", "tracking"),
        *("expose", "autoscale", "gitops"),
    ),
    "nfs": ("nfs", "root"),
    "servers": ("output-nfs", "dataset-nfs", "checkpoint-nfs", "model-nfs", "host-network"),
    "host-path": ("host-path", "rdma"),
    "folders": ("output-host-path", "dataset-host-path", "checkpoint-host-path", "model-host-path"),
}
"""Options that are on together: every option once, and no two that change the same fields."""


def switched(*names: str) -> list[str]:
    return [f"--with={name}" for name in names]


def values(*names: str) -> list[str]:
    keys = [key for name in names if name in BY_NAME for key in BY_NAME[name].keys]
    return [f"--site={key.name}={key.example}" for key in keys]


@pytest.fixture
def build(mlpack: Callable[..., Outcome], tmp_path: Path) -> Callable[..., Path]:
    """A function that builds hello-mpi with options and example values, and returns its folder."""

    def run(*names: str, settings: Sequence[str] = ()) -> Path:
        options = (*switched(*names), *values(*names), *settings)
        done = mlpack("build", "hello-mpi", "--format", "dir", "--force", "--root", "/srv", *options)
        assert done.code == 0, done.stderr
        notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
        assert not [note for note in notes if "do not see its assets" not in note]
        return tmp_path / done.stdout.strip()

    return run


def overlays(package: Path) -> Iterator[Path]:
    yield from sorted((package / OVERLAYS).iterdir())


def rendered(folder: Path, kubectl: Path) -> str:
    return kustomize(folder, program=str(kubectl)).manifests


def workload(overlay: Path, kubectl: Path) -> Manifest:
    documents, _ = yamlio.load_all(rendered(overlay, kubectl).encode(), "")
    [found] = filter(structures.is_workload, (Manifest(document.data) for document in documents))
    return found


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory, kubectl: Path) -> dict[str, str]:
    """The manifests of each overlay without options."""
    loaded = load(bundled() / "hello-mpi" / "spec.yaml", [parse_setting(text[6:]) for text in SETTINGS])
    folder = tmp_path_factory.mktemp("without")
    tree.write(render(plan(loaded, loaded.spec.variants[0], Options(root="/srv"))), folder)
    return {overlay.name: rendered(overlay, kubectl) for overlay in overlays(folder)}


@pytest.mark.golden_test("golden/options/*.yml")
def test_options_change_manifests_and_need_their_values(
    golden: GoldenTestFixture, build: Callable[..., Path], without: dict[str, str], kubectl: Path
) -> None:
    names = SETS[golden["options"]]
    package = build(*names, settings=SETTINGS)
    after = {folder.name: rendered(folder, kubectl) for folder in overlays(package)}
    assert {name: difference(text, after[name]) for name, text in without.items()} == golden.out["differences"]
    report = checked(package, kubectl)
    assert report.problems == ()
    levels = {name: {Level.restricted} for name in names}
    for exceeded in (exceeded for security in report.security for exceeded in security.exceeded):
        # The option root replaces lines of the overlay.
        levels[next((name for name in names if f"/{name}/" in exceeded.place.file), "root")].add(exceeded.level)
    assert {name: max(levels[name], key=list(Level).index) for name in names} == {
        name: BY_NAME[name].level for name in names
    }

    site = package / COMMON / SITE / "site.env"
    complete = site.read_text()
    needed = [(name, key) for name in names for key in BY_NAME[name].keys if not key.usual]
    for name, key in needed:
        site.write_text(complete.replace(f"{key.name}={key.example}\n", ""))
        overlay = next(path for path in overlays(package) if is_on(path, name))
        with pytest.raises(RenderError, match=f"`data.{key.name}` is missing"):
            rendered(overlay, kubectl)
    messages = {fault.message for _, fault in faults(names, {}, PATHS | {"CHECKPOINT_DIR": "/checkpoints"})}
    assert {f"{name} needs {key.name}, such as {key.example}" for name, key in needed} <= messages


def checked(package: Path, kubectl: Path) -> Report:
    with opened(package) as opened_package:
        return verify(opened_package, Checks(kubectls=(str(kubectl),)))


def test_sets_of_options_have_a_golden_and_contain_every_option() -> None:
    goldens = (Path(__file__).parent / "golden/options").iterdir()
    assert {golden.stem for golden in goldens} == SETS.keys()
    assert {name for names in SETS.values() for name in names} == BY_NAME.keys()


def difference(before: str, after: str) -> str:
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=2))[2:]
    return "".join(f"{'@@' if line.startswith('@@') else line}\n" for line in lines)


def test_build_and_verify_name_each_value_without_which_an_option_does_not_render(
    mlpack: Callable[..., Outcome], kubectl: Path
) -> None:
    names = ("pvc", "pvc-create", "package-volume", "weights", "queue")
    done = mlpack("build", "hello-mpi", "--format", "dir", *FOLDERS, *switched(*names))
    verified = mlpack("verify", "hello-mpi", "--kubectl", kubectl)
    assert (done.code, verified.code) == (0, 5)
    needed = [(name, key) for name in names for key in BY_NAME[name].keys if not key.usual]
    for name, key in needed:
        assert f"{name} does not render until {key.name} is set in site.env" in done.stderr
        assert f"{name} needs {key.name}, such as {key.example}" in verified.stdout


def is_on(overlay: Path, name: str) -> bool:
    """Whether an option is switched on in an overlay, some of which do not have it."""
    return re.search(rf"^  - .*/{name} +#", (overlay / "kustomization.yaml").read_text(), re.MULTILINE) is not None


def test_two_storage_options_do_not_render(build: Callable[..., Path], kubectl: Path) -> None:
    overlay = build("all", "nfs") / OVERLAYS / "single-node"
    file = overlay / "kustomization.yaml"
    file.write_text(re.sub(r"^  # (- .*/host-path +# .*)$", r"  \1", file.read_text(), flags=re.MULTILINE))
    with pytest.raises(RenderError, match="test failed"):
        rendered(overlay, kubectl)


def test_queue_places_pods_that_compute_and_sets_the_priority_of_their_workload(
    build: Callable[..., Path], kubectl: Path
) -> None:
    package = build("queue", settings=[setting for setting in SETTINGS if "groups" in setting])
    site = package / COMMON / SITE / "site.env"
    for old, new in (("PRIORITY=none", "PRIORITY=high"), ("PLACING=none", "PLACING=required")):
        replace(site, f"QUEUE_{old}", f"QUEUE_{new}")
    replace(site, "QUEUE_TOPOLOGY=kubernetes.io/hostname", "QUEUE_TOPOLOGY=example.com/rack.a")
    for overlay in overlays(package):
        job = workload(overlay, kubectl)
        assert job.data["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "high"
        for pods in structures.pods(job):
            annotations = {
                key: pods.metadata["annotations"][key] for key in pods.metadata["annotations"] if "kueue" in key
            }
            expected = {"kueue.x-k8s.io/podset-required-topology": "example.com/rack.a"} if pods.computes else {}
            if job.kind == "LeaderWorkerSet":
                expected["kueue.x-k8s.io/podset-group-name"] = "group"
            assert annotations == expected
    assert checked(package, kubectl).problems == ()


AMD = (
    *("--with", "gpu", "--site", "GPU_VENDOR=amd.com", "--site", "GPU_COUNT=2"),
    *("--site", "GPU_RESOURCE=gpu.large"),
)


def test_gpus_of_the_spec_are_replaced_in_main_and_init_containers(
    mlpack: Callable[..., Outcome], tmp_path: Path, kubectl: Path
) -> None:
    """Each spec of llm-finetune on GPUs has nvidia.com/gpu, also as GPUS in mlops.env."""
    assert mlpack("build", "llm-finetune", "--mode", "cuda", "--format", "dir", *AMD).code == 0
    package = tmp_path / "llm-finetune-cuda"
    for overlay in overlays(package):
        [pods] = structures.pods(workload(overlay, kubectl))
        containers = [container for _, container in pods.containers() if container["name"] != "identity"]
        limits = [container["resources"]["limits"] for container in containers]
        assert len(limits) == 2
        assert [{name: limit[name] for name in limit if "/" in name} for limit in limits] == [
            {"amd.com/gpu.large": "2"}
        ] * 2
    assert checked(package, kubectl).problems == ()


def test_queue_and_suspend_cannot_be_combined(
    build: Callable[..., Path], mlpack: Callable[..., Outcome], kubectl: Path
) -> None:
    package = build("queue")
    job = "quickstart/k8s/mlops/multi-node/mpi-job.yaml"
    replace(package / job, "    cleanPodPolicy: Running\n", "    cleanPodPolicy: Running\n    suspend: false\n")
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    line = (package / job).read_text().splitlines().index("    suspend: false") + 1
    why = "queue and suspend cannot be combined: Kueue itself suspends and resumes the workload (remove suspend)"
    assert f"{package}/{job}:{line}:5: {why}\n" in done.stdout


def test_option_comment_lists_its_keys(build: Callable[..., Path]) -> None:
    common = build("all", settings=SETTINGS) / COMMON
    assert {path.name for path in common.iterdir()} == {"base", SITE, *BY_NAME}
    for option in OPTIONS:
        text = (common / option.name / "kustomization.yaml").read_text()
        comment = re.match(r"(#.*\n)+", text)
        assert comment is not None
        assert comment[0].startswith(f"# {option.name}: ")
        for key in (*(key.name for key in option.keys), *option.paths):
            assert re.search(rf"\b{key}\b", comment[0]), f"{option.name} does not say that it reads {key}"
        if option.level != "restricted":
            assert f'"{option.level}"' in comment[0].replace("\n# ", " ")


@pytest.mark.parametrize("names", [(*REST, "nfs"), ("pvc", "pvc-create")])
def test_uncommented_line_equals_build_with_option(build: Callable[..., Path], names: tuple[str, ...]) -> None:
    files = [overlay / "kustomization.yaml" for overlay in overlays(build("all", settings=FOLDERS))]
    edited = []
    for file in files:
        text = file.read_text()
        for name in names:
            text, count = re.subn(rf"^  # (- .*/{name} # .*)$", r"  \1", text, flags=re.MULTILINE)
            assert count == 1
        edited.append(text)
    build("all", *names, settings=FOLDERS)
    assert [file.read_text() for file in files] == edited


def test_pvc_option_needs_no_claim_for_absent_dataset(
    mlpack: Callable[..., Outcome], tmp_path: Path, kubectl: Path
) -> None:
    options = ("--with", "pvc", "--site", "OUTPUT_CLAIM=results")
    done = mlpack("build", "hello-mpi", "--format", "dir", "--set", "dataset=false", *options, "-q")
    assert (done.code, done.stderr) == (0, "")
    package = tmp_path / "hello-mpi"
    assert checked(package, kubectl).problems == ()
    assert not [path for path in package.rglob("*.env") if b"DATASET" in path.read_bytes()]
    assert "name: dataset" not in rendered(package / OVERLAYS / "multi-node", kubectl)
    done = mlpack("build", "hello-mpi", "--format", "dir", "--force", *options)
    assert "note: pvc does not render until DATASET_CLAIM is set" in done.stderr
    assert "CHECKPOINT_CLAIM" not in done.stderr


@pytest.mark.parametrize(("folder", "expected"), [("/out/checkpoints", False), ("/out-of-this", True)])
def test_checkpoints_inside_results_have_no_volume(
    mlpack: Callable[..., Outcome], tmp_path: Path, kubectl: Path, folder: str, *, expected: bool
) -> None:
    settings = ("--set", f"environment.CHECKPOINT_DIR={folder}", "--set", "environment.OUTPUT_DIR=/out")
    assert mlpack("build", "hello-mpi", "--format", "dir", "--with", "all", *settings).code == 0
    package = tmp_path / "hello-mpi"
    assert ("name: checkpoint\n" in rendered(package / OVERLAYS / "single-node", kubectl)) is expected
    assert (package / COMMON / "checkpoint-nfs").exists() is expected


def test_conflicts_list_options_that_exclude_each_other() -> None:
    assert [conflict.location for conflict in conflicts(["pvc", "nfs", "gpu"])] == [("pvc",)]
    assert [conflict.location for conflict in conflicts(["pvc-create"])] == [("pvc-create",)]
    assert [conflict.location for conflict in conflicts(["pvc-create", "nfs"])] == [("pvc-create",)]
    assert [conflict.location for conflict in conflicts(["elastic", "gang"])] == [("elastic",)]
    assert conflicts(["pvc", "pvc-create", *REST]) == []
    assert conflicts(["no", "option"]) == []


def test_level_is_the_lowest_of_all_options() -> None:
    assert level([]) == "restricted"
    assert level(["gpu", "root"]) == "baseline"
    assert level(["host-network", "root"]) == "privileged"


@pytest.mark.parametrize(
    ("names", "site", "environment", "expected"),
    [
        (["nfs"], {"NFS_SERVER": "fd00::1"}, {}, []),
        (["nfs"], {"NFS_SERVER": ""}, {}, ["nfs needs NFS_SERVER, such as nfs.example.com"]),
        (["nfs"], {"NFS_SERVER": "a server"}, {}, ["NFS_SERVER: expected a host's name or address, found 'a server'"]),
        (
            ["gpu"],
            {"GPU_COUNT": "0", "GPU_VENDOR": "amd.com/gpu", "GPU_RESOURCE": "gpu"},
            {},
            [
                "GPU_COUNT: expected a whole number from 1, found '0'",
                "GPU_VENDOR: expected a domain such as nvidia.com, found 'amd.com/gpu'",
            ],
        ),
        (
            ["host-path"],
            {},
            {"MODEL_DIR": "ROOT/m"},
            ["host-path needs MODEL_DIR as an absolute path, found 'ROOT/m'"],
        ),
        ([], {"GPU_COUNT": "none"}, {"MODEL_DIR": "ROOT/m"}, []),
    ],
)
def test_faults_list_values_that_options_cannot_use(
    names: list[str], site: dict[str, str], environment: dict[str, str], expected: list[str]
) -> None:
    found = [fault for _, fault in faults(names, site, PATHS | environment)]
    assert [fault.message for fault in found] == expected
    assert all(str(fault.location[-1]) in fault.message or fault.location == ("DATASET_DIR",) for fault in found)


def test_example_values_are_valid() -> None:
    for key in KEYS.values():
        assert key.complaint(key.example) is None, key.name
        assert key.complaint("") is not None, key.name
        assert key.complaint(f"{key.example}\nOTHER=1") is not None, key.name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--with", "nsf"], "--with nsf: unknown option"),
        (["--with", "nfs", "--with", "pvc"], "nfs and pvc cannot be combined: each sets where results go"),
        (["--with", "pvc-create"], "pvc-create needs pvc or output-pvc, which is off"),
        (["--with", "checkpoint-pvc"], "checkpoint-pvc: it is for checkpoints, and hello-mpi has no CHECKPOINT_DIR"),
        (["--with", "exclusive"], "--with exclusive: it is for a JobSet, and hello-mpi has none"),
        (["--site", "OUTPUT_NFS_PATH=srv"], "expected an absolute path without ':' and '..'"),
        (["--site", "NFS_SERVER"], "--site NFS_SERVER: expected KEY=VALUE"),
        (["--site", "NFS_SEVER=x"], "no option reads 'NFS_SEVER'"),
        (["--with", "./absent"], "--with ./absent: folder not found"),
        (["--with", "./gpu"], "the name 'gpu' is the name of a folder in every package"),
        (["--with", "./empty"], "expected one kustomization.yaml there, found none"),
        (["--with", "./linked"], "link is a link, not a plain file"),
        (["--with", "./large"], "the files are larger than 1,048,576 bytes in total"),
        (["--with", "./ours", "--with", "./more/ours"], "two folders have the name ours"),
    ],
)
def test_build_refuses_invalid_options(
    mlpack: Callable[..., Outcome], tmp_path: Path, arguments: list[str], message: str
) -> None:
    for name in ("gpu", "empty", "linked", "large", "ours", "more/ours"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        if name != "empty":
            folder.joinpath("kustomization.yaml").write_text("kind: Component\n")
    tmp_path.joinpath("linked/link").symlink_to("/etc/passwd")
    tmp_path.joinpath("large/data").write_bytes(bytes(2 << 20))
    done = mlpack("build", "hello-mpi", *arguments)
    assert (done.code, done.stdout) == (2, "")
    assert message in done.stderr
    assert not list(tmp_path.glob("*.tar.gz"))


COMPONENT = """
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
configMapGenerator:
  - {name: ours, envs: [ours.env], options: {disableNameSuffixHash: true}}
patches:
  - target: {kind: Pod}
    patch: |-
      - {op: add, path: /metadata/annotations, value: {cost-center: NUMBER}}
replacements:
  - source: {kind: ConfigMap, name: ours, fieldPath: data.NUMBER}
    targets: [{select: {kind: Pod}, fieldPaths: [metadata.annotations.cost-center]}]
"""


def test_build_includes_local_component(build: Callable[..., Path], tmp_path: Path, kubectl: Path) -> None:
    ours = tmp_path / "site" / "ours"
    ours.mkdir(parents=True)
    ours.joinpath("kustomization.yaml").write_text(COMPONENT)
    ours.joinpath("ours.env").write_text("NUMBER=n4711\n")
    package = build("gpu", "./site/ours")
    shutil.rmtree(ours)
    assert (package / "quickstart/common/mpi/k8s/mlops/ours/ours.env").read_text() == "NUMBER=n4711\n"
    document, _ = yamlio.read(package / OVERLAYS / "single-node/kustomization.yaml")
    data: Any = document.data
    assert [entry.rpartition("/")[2] for entry in data["components"]] == ["gpu", "ours"]
    assert "cost-center: n4711" in rendered(package / OVERLAYS / "single-node", kubectl)
    with opened(package) as opened_package:
        assert opened_package.inventory["spec"]["with"] == ["gpu", "ours"]


def test_package_volume_refuses_output_folder_in_package(
    build: Callable[..., Path], mlpack: Callable[..., Outcome], kubectl: Path
) -> None:
    package = build("package-volume")
    assert "OUTPUT_DIR=/output\n" in (package / OVERLAYS / "single-node" / "mlops.env").read_text()
    refused = mlpack("configure", package, "--overlay", "single-node", "--set", "OUTPUT_DIR=/srv/hello-mpi/output")
    assert refused.code == 0  # the value alone is valid
    report = checked(package, kubectl)
    assert report.kubernetes == ("1.35", "1.36", "1.37")
    assert not [made for made in report.objects if "scripts" in made.name]


def test_verify_refuses_options_for_older_kubernetes(
    build: Callable[..., Path], mlpack: Callable[..., Outcome], kubectl: Path
) -> None:
    package = build("package-volume", "weights", "device-claim")
    done = mlpack("verify", package, "--kubectl", kubectl, "--kubernetes-version", "1.33")
    assert done.code == 5
    for name, since in (("package-volume", "1.35"), ("weights", "1.35"), ("device-claim", "1.34")):
        message = f"{name} needs Kubernetes {since} or later, not 1.33 (switch it off for this cluster)"
        assert message in done.stdout


def test_gitops_keeps_finished_work(build: Callable[..., Path], kubectl: Path) -> None:
    package = build("gitops", settings=["--set=overlays.one-job.kind=Job"])
    job = package / OVERLAYS / "one-job/job.yaml"
    replace(job, "  backoffLimit: 0\n", "  backoffLimit: 0\n  ttlSecondsAfterFinished: 60\n")
    assert "ttlSecondsAfterFinished" not in rendered(job.parent, kubectl)
    replace(job.with_name("job-patch.yaml"), "spec:\n", "spec:\n  ttlSecondsAfterFinished: 60\n")
    [message] = [problem.message for problem in checked(package, kubectl).problems]
    assert message.endswith("gitops is on, and Flux and Argo CD start the work again when it has been deleted")
