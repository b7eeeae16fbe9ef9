"""Tests of options that are added to a package after its build: they are the same as those of a build with them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from packager.base import envfile
from packager.builder.plan import Options, choose, plan
from packager.builder.rebuild import components
from packager.builder.render import component_digest, render
from packager.builder.selection import select
from packager.configure import additions
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.modelspec.catalog import bundled
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from packager.package import kustomization, layout, tree
from packager.package.layout import INVENTORY, OVERLAYS
from packager.package.opened import opened
from packager.package.options import BY_NAME, CLAIM_OPTIONS, offered
from tests import everything, kinds
from tests.files import replace
from tests.test_options import SETS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.conftest import Mlpack

COMMON = "quickstart/common/mpi/k8s/mlops"
GPU = f"{COMMON}/gpu/kustomization.yaml"


def build(folder: Path, options: Options, spec: Path | None = None) -> Path:
    """Write a package; without a spec, one with an overlay of every kind and every folder that an option can mount."""
    folders = ("environment.OUTPUT_DIR=/output", *kinds.FOLDERS)
    settings = [] if spec else [*kinds.SETTINGS, *map(parse_setting, folders)]
    loaded = load(spec or bundled() / "hello-mpi/spec.yaml", settings, may_mount=True)
    folder.mkdir(parents=True)
    tree.write(render(plan(loaded, choose(loaded.spec, None, None), options)), folder)
    return folder


def values(names: Iterable[str]) -> list[str]:
    return [f"{key.name}={key.example}" for name in names for key in BY_NAME[name].keys]


def add(mlpack: Mlpack, package: Path, overlay: str, names: Iterable[str]) -> None:
    """Add those options to an overlay that fit it, with example values."""
    with opened(package) as opened_package:
        planned = components(opened_package).plan
    traits = planned.traits_of(next(one for one in planned.overlays if one.name == overlay))
    chosen = [name for name in names if BY_NAME[name] in offered(traits)]
    done = mlpack(
        "configure",
        package,
        *("--overlay", overlay),
        *(f"--with={name}" for name in chosen),
        *(f"--site={value}" for value in values(chosen)),
        *(("--uid", "0", "--gid", "0", "--fs-group", "0") if "root" in chosen else ()),
    )
    assert done.code == 0, done.stderr


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def env(package: Path) -> set[tuple[str, str]]:
    return {(line.key, line.value) for line in envfile.lines((package / COMMON / "site/site.env").read_bytes())}


@pytest.mark.parametrize(
    "names", [SETS["claim"], *(pytest.param(SETS[key], marks=pytest.mark.thorough) for key in SETS if key != "claim")]
)
def test_added_options_equal_those_of_a_build_with_them(
    mlpack: Mlpack, tmp_path: Path, kubectl: Path, names: tuple[str, ...]
) -> None:
    added = build(tmp_path / "added/hello-mpi", Options(root="/srv"))
    built = build(tmp_path / "built/hello-mpi", Options(root="/srv", site=select(names, values(names))))
    for overlay in kinds.OVERLAYS:
        add(mlpack, added, overlay, names)
        listed = [set(text(package / layout.kustomization(overlay)).splitlines()) for package in (added, built)]
        assert {line for line in listed[0] ^ listed[1] if not line.startswith("  # - ")} == set()
        order = [kept(package / layout.kustomization(overlay)) for package in (added, built)]
        assert order[0] == order[1]
    for name in names:
        for file in (built / COMMON / name).rglob("*"):
            if file.is_file():
                assert (added / file.relative_to(built)).read_bytes() == file.read_bytes()
    assert env(built) <= env(added)
    for overlay in kinds.OVERLAYS:
        folders = [package / OVERLAYS / overlay for package in (added, built)]
        rendered = [kustomize(folder, program=str(kubectl)).manifests for folder in folders]
        assert rendered[0] == rendered[1]


def kept(path: Path) -> list[str]:
    return [line for line in text(path).splitlines() if not line.startswith("  # - ")]


def specs(tmp_path: Path) -> Iterator[Path]:
    yield everything.write(tmp_path / "everything")
    for name in ("resnet50", "llm-finetune", "jax-gpt"):
        yield bundled() / name / "spec.yaml"


def test_components_are_restored_from_the_package_alone(tmp_path: Path) -> None:
    for number, spec in enumerate(specs(tmp_path)):
        options = Options(registry="r.example", site=select(["package-volume"], ["SHM_SIZE=1Gi"]))
        package = build(tmp_path / f"package-{number}", options, spec)
        with opened(package) as opened_package:
            expected = opened_package.inventory["options"]
            assert expected
            restored = components(opened_package)
            assert {name: component_digest(restored.files(name)) for name in expected} == expected


def test_verify_names_added_option_and_refuses_it_when_it_was_changed(
    mlpack: Mlpack, package: Path, kubectl: Path
) -> None:
    done = mlpack("configure", package, "--with", "gpu", "--with", "placement", "--set", "NODE_SELECTOR=pool=train")
    assert done.code == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("note: ")] == [
        "note: option gpu added",
        "note: option placement added",
    ]
    checked = mlpack("verify", package, "--kubectl", kubectl, "-o", "json")
    assert (checked.code, checked.json["problems"]) == (0, [])
    notes = [(note["file"], note["message"]) for note in checked.json["notes"] if note["message"].startswith("option")]
    assert notes == [
        (f"{package}/{GPU}", "option gpu added"),
        (f"{package}/{COMMON}/placement/kustomization.yaml", "option placement added"),
    ]
    changes = checked.json["changes"]
    assert all(change["expected"] for change in changes if not change["file"].endswith("placement.yaml"))
    assert mlpack("verify", package, "--kubectl", kubectl, "--expect", digest(package)).code == 5

    replace(package / GPU, "transformers:\n", "# x\ntransformers:\n")
    refused = mlpack("verify", package, "--kubectl", kubectl)
    assert refused.code == 5
    hint = f"mlpack configure {package} --with gpu adds it again"
    assert refused.stdout == f"{package}/{GPU}: the option gpu was changed after it was added ({hint})\n"
    assert mlpack("configure", package, "--with", "gpu").code == 0
    assert mlpack("verify", package, "--kubectl", kubectl).code == 0

    shutil.rmtree(package / COMMON / "gpu/patch")
    assert mlpack("verify", package, "--kubectl", kubectl).code == 5


def digest(package: Path) -> str:
    with opened(package) as opened_package:
        return opened_package.digest


def test_option_that_this_version_makes_otherwise_is_not_added(mlpack: Mlpack, package: Path) -> None:
    inventory = json.loads(text(package / INVENTORY))
    inventory["options"]["gpu"], inventory["tool"]["version"] = "0" * 64, "9.9.9"
    (package / INVENTORY).write_text(json.dumps(inventory), encoding="utf-8")
    done = mlpack("configure", package, "--with", "gpu")
    assert done.code == 2
    assert "makes another gpu than mlpack 9.9.9, which built" in done.stderr
    assert not (package / COMMON / "gpu").exists()


def test_missing_line_of_a_component_is_added_again(mlpack: Mlpack, full_package: Path) -> None:
    path = full_package / layout.kustomization("single-node")
    before = text(path)
    path.write_text("".join(line for line in before.splitlines(keepends=True) if "/nfs " not in line), encoding="utf-8")
    answers = ("--overlay", "single-node", "--with", "nfs", "--set", "NFS_SERVER=nfs.example.com", "--root", "/srv")
    assert mlpack("configure", full_package, *answers).code == 0
    line = "- ../../../common/mpi/k8s/mlops/nfs #"
    assert text(path) == before.replace(f"  # {line}", f"  {line}")


def test_option_is_added_to_an_overlay_with_components_of_its_user(
    mlpack: Mlpack, package: Path, tmp_path: Path
) -> None:
    (tmp_path / "ours").mkdir()
    content = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
    (tmp_path / "ours/kustomization.yaml").write_text(content, encoding="utf-8")
    assert mlpack("configure", package, "--with", "./ours").code == 0
    path = package / layout.kustomization("single-node")
    replace(path, "  # - ../../../common/mpi/k8s/mlops/dataset-pvc", "  # the dataset")
    assert mlpack("configure", package, "--with", "gpu").code == 0
    lines = [line.split("#")[0].strip() for line in text(path).splitlines() if line.startswith("  - ../../../")]
    assert lines[1:] == ["- ../../../common/mpi/k8s/mlops/gpu", "- ../../../site/ours"]


def test_values_of_an_option_put_it_into_the_package(mlpack: Mlpack, tmp_path: Path) -> None:
    build = ("build", "hello-mpi", "--format", "dir", "--site", "QUEUE=research", "--site", "NODE_SELECTOR=pool=train")
    assert mlpack(*build, "--with", "output-nfs").code == 0
    found = {path.name for path in (tmp_path / "hello-mpi" / COMMON).iterdir()}
    assert found == {"base", "site", "output-nfs", "dataset-pvc", "queue", "placement"}


def test_options_that_are_on_in_an_older_package_are_carried_to_a_newer_one(
    mlpack: Mlpack, full_package: Path, hello_mpi: Path, tmp_path: Path
) -> None:
    answers = ("--with", "gpu", "--with", "output-nfs", "--set", "OUTPUT_NFS_SERVER=a", "--set", "OUTPUT_NFS_PATH=/b")
    assert mlpack("configure", full_package, *answers).code == 0
    rdma = ("--overlay", "multi-node", "--with", "rdma", "--set", "RDMA_RESOURCE=a/b")
    assert mlpack("configure", full_package, *rdma).code == 0
    newer = shutil.copytree(hello_mpi, tmp_path / "newer")
    with opened(full_package) as old, opened(newer) as new:
        files = additions.carry(old, new)
    assert {layout.component_of(path) for path in files} - {"site", None} == {"gpu", "output-nfs", "rdma"}
    for overlay, names in (("single-node", ["output-nfs", "gpu"]), ("multi-node", ["output-nfs", "rdma", "gpu"])):
        listed = kustomization.components(files[layout.kustomization(overlay)])
        assert [component.name for component in listed if component.name not in CLAIM_OPTIONS] == names
        assert not any(component.on for component in listed)
    assert b"\nGPU_COUNT=1\n" in files[f"{COMMON}/site/site.env"]
