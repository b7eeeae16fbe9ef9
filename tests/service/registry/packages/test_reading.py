from __future__ import annotations

import gzip
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from packager.base import yamlio
from packager.package import layout
from packager.service.registry.packages import filling, reading
from packager.service.registry.packages.content import PackageBody, PackageContent
from packager.service.registry.packages.reading import PackageReader, RefusedPackageError
from packager.service.registry.packages.sources import PackageSources
from tests.service.registry.packages.conftest import DEMO, build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def read(folder: Path, body: PackageBody) -> PackageContent:
    return PackageReader(PackageSources(folder)).read(body)


def refused(folder: Path, **body: Any) -> list[tuple[str, str, str | None]]:
    with pytest.raises(RefusedPackageError) as error:
        read(folder, PackageBody(**body))
    return [(item.pointer, item.detail, item.hint) for item in error.value.complaints]


@pytest.mark.parametrize(
    ("name", "limit", "message"),
    [
        ("MAX_RESULT", 1 << 10, "single-node renders to more than 1 KiB, which each job would keep"),
        ("MAX_OBJECTS", 1, "single-node: expected at most 1 objects"),
        ("MAX_KEYS", 2, f"file:demo:{layout.env('single-node')}: expected at most 2 keys, found 9"),
    ],
)
def test_package_over_a_limit_is_refused_with_that_limit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, limit: int, message: str
) -> None:
    assert (reading.MAX_RESULT, reading.MAX_OBJECTS, reading.MAX_KEYS) == (1 << 20, 40, 300)
    monkeypatch.setattr(reading, name, limit)
    [(_, detail, _)] = refused(folder, source="file:demo")
    assert detail == message


@pytest.fixture
def folder(demo_package: Path, tmp_path: Path) -> Path:
    """A folder of packages with the package `demo`."""
    shutil.copytree(demo_package, tmp_path / "packages" / "demo")
    return tmp_path / "packages"


def test_parts_are_the_overlays_of_a_package_with_their_options(folder: Path) -> None:
    reader = PackageReader(PackageSources(folder))
    bundled = reader.parts("hello-mpi")
    assert list(bundled) == ["multi-node", "single-node"]
    assert "rdma" in bundled["multi-node"]
    assert "rdma" not in bundled["single-node"]
    assert reader.parts("hello-mpi") is bundled
    assert list(reader.parts("file:demo")) == ["single-node"]
    (folder / "demo" / layout.kustomization("single-node")).write_text("a: [", encoding="utf-8")
    (folder / "text").write_text("no package")
    unknown = (
        "",
        "nothing",
        "../demo",
        "file:../demo",
        "file:nothing",
        "file:text",
        "file:demo",
        "oci://a.example/b:1",
    )
    assert [reader.parts(source) for source in unknown] == [{}] * len(unknown)


HOSTILE = {
    "REGISTRY": "registry.example.com:5000/a/b",
    "IMAGE": f"c/d:1@sha256:{'2' * 64}",
    "MODEL_DIR": "/m: x/${HOME}",
    "OUTPUT_DIR": "/out/$(STEPS)/{{7*7}} # 'q' \"",
    "STEPS": "1\u00a0e3",
    "RATE": "no",
    "NOTE": " - [a, b]: !!python/name:os.system *x &y | \\n",
    "VERBOSE": "0x10",
}


def test_filled_objects_equal_the_output_of_kustomize(folder: Path, kubectl: Path) -> None:
    """For hostile values, the objects equal those of a package with the same lines in its mlops.env."""
    content = read(folder, PackageBody(source="file:demo"))
    env = folder / "demo" / layout.env("single-node")
    lines = [line for line in env.read_text().splitlines() if not line.startswith(tuple(f"{key}=" for key in HOSTILE))]
    env.write_text("\n".join([*lines, *(f"{key}={value}" for key, value in HOSTILE.items())]) + "\n", encoding="utf-8")
    argv: list[str | Path] = [kubectl, "kustomize", folder / "demo" / layout.overlay("single-node")]
    documents, problems = yamlio.load_all(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout, "rendered")
    assert problems == []
    defaults = {key.name: key.default for key in content.origin.keys}
    filled = filling.substituted(content.objects, {**defaults, **HOSTILE})
    assert filled == [document.data for document in documents]


def test_keys_have_types_and_show_fixed_and_required(folder: Path) -> None:
    keys = {key.name: key for key in read(folder, PackageBody(source="file:demo")).origin.keys}
    assert {name: key.type for name, key in keys.items()} == {
        "REGISTRY": "string",
        "IMAGE": "string",
        "DATASET_DIR": "string",
        "MODEL_DIR": "string",
        "OUTPUT_DIR": "string",
        "STEPS": "number",
        "RATE": "number",
        "NOTE": "string",
        "VERBOSE": "boolean",
        "HF_TOKEN": "secret",
    }
    assert {name for name, key in keys.items() if key.fixed} == {"REGISTRY", "IMAGE", "MODEL_DIR"}
    assert {name for name, key in keys.items() if key.required} == {"HF_TOKEN"}
    assert keys["STEPS"].description == "How long it trains."
    assert keys["HF_TOKEN"].description == "A token of huggingface.co."


def test_numbers_of_a_manifest_are_fixed(folder: Path) -> None:
    """A job cannot change how many pods there are: that is for the definition."""
    content = read(folder, PackageBody(source="hello-mpi", overlay="multi-node"))
    keys = {key.name: key for key in content.origin.keys}
    assert {name: (keys[name].default, keys[name].fixed) for name in ("WORKERS", "SLOTS_PER_WORKER", "PROCESSES")} == {
        "WORKERS": ("2", True),
        "SLOTS_PER_WORKER": ("per-gpu", True),
        "PROCESSES": ("all", False),
    }


@pytest.mark.parametrize(
    ("body", "pointer", "detail", "hint"),
    [
        ({"source": "file:../demo"}, "source", "expected a path in the server's folder of packages", None),
        ({"source": "file:/etc"}, "source", "expected a path in the server's folder of packages", None),
        ({"source": "file:"}, "source", "expected a path in the server's folder of packages", None),
        ({"source": "file:.git/x"}, "source", "expected a path in the server's folder of packages", None),
        ({"source": "file:link"}, "source", "file:link not found", None),
        ({"source": "file:link/demo"}, "source", "file:link/demo not found", None),
        ({"source": "file:nothing"}, "source", "file:nothing not found", None),
        ({"source": "file:text"}, "source", "file:text is not a gzip archive", None),
        ({"source": "/etc/passwd"}, "source", "expected a bundled package's name", None),
        ({"source": "hello-mip"}, "source", "bundled package 'hello-mip' not found", "did you mean 'hello-mpi'?"),
        ({"source": "https://x.example/p"}, "source", "expected a bundled package's name", None),
        ({"source": "file:demo", "overlay": "multi"}, "overlay", "file:demo has no overlay 'multi'", None),
        (
            {"source": "file:demo", "options": ["gpus"]},
            "options",
            "single-node has no option 'gpus'",
            "did you mean 'gpu'?",
        ),
        ({"source": "file:demo", "options": ["output-nfs"]}, "options", "an option has no value", None),
        ({"source": "file:demo", "site": {"STEPS": "1"}}, "site", "STEPS is not a value of a site option", None),
    ],
)
def test_faulty_source_overlay_or_option_is_refused(
    body: dict[str, Any], pointer: str, detail: str, hint: str | None, folder: Path
) -> None:
    (folder / "link").symlink_to("/etc")
    (folder / "text").write_text("no package")
    first = refused(folder, **body)[0]
    assert first[0] == f"/package/{pointer}"
    assert first[1].startswith(detail)
    assert hint is None or first[2] == hint
    assert str(folder) not in str(first)


def test_file_source_is_refused_without_a_folder_of_packages(folder: Path) -> None:
    with pytest.raises(RefusedPackageError) as error:
        PackageReader(PackageSources()).read(PackageBody(source="file:demo"))
    assert error.value.complaints[0].detail == "the server has no folder of packages"
    assert folder.exists()


def test_missing_kubectl_is_reported(folder: Path) -> None:
    with pytest.raises(RefusedPackageError) as error:
        PackageReader(PackageSources(folder), kubectl="no-kubectl").read(PackageBody(source="file:demo"))
    assert "no-kubectl" in error.value.complaints[0].detail


def test_changed_file_is_refused_by_name(folder: Path) -> None:
    script = folder / "demo" / layout.SCRIPTS / "train.sh"
    script.write_text("#!/bin/sh\nevil\n")
    assert any("train.sh" in detail for _, detail, _ in refused(folder, source="file:demo"))


def test_key_used_in_an_object_name_is_refused(folder: Path) -> None:
    kustomization = folder / "demo" / layout.kustomization("single-node")
    more = """\
  - source: {kind: ConfigMap, name: demo-fp32-training-env, fieldPath: data.NOTE}
    targets:
      - select: {kind: ConfigMap, name: demo-fp32-training-runtime}
        fieldPaths: [metadata.name]
"""
    kustomization.write_text(kustomization.read_text() + more)
    assert refused(folder, source="file:demo") != []


def test_secret_value_in_the_package_is_refused(tmp_path: Path) -> None:
    build(tmp_path / "demo", DEMO.replace("NOTE: ''", "WANDB_API_KEY: ''"))
    env = tmp_path / "demo" / layout.env("single-node")
    env.write_text(env.read_text().replace("WANDB_API_KEY=", "WANDB_API_KEY=abc"))
    details = [detail for _, detail, _ in refused(tmp_path, source="file:demo")]
    assert any("WANDB_API_KEY, which its name says is a secret" in detail for detail in details)
    assert "abc" not in str(details)


def test_secret_with_its_option_off_is_refused_with_the_fix(folder: Path) -> None:
    kustomization = folder / "demo" / layout.kustomization("single-node")
    text = kustomization.read_text()
    kustomization.write_text(
        text.replace("  - ../../../common/python/k8s/mlops/secrets", "  # - ../../../common/python/k8s/mlops/secrets")
    )
    assert refused(folder, source="file:demo") == [
        (
            "/package/source",
            "file:demo: the package has the secret HF_TOKEN, and its site option secrets is off",
            'switch it on: "options": ["secrets"]',
        )
    ]
    assert read(folder, PackageBody(source="file:demo", options=["secrets"])).origin.options == ["secrets"]


def _many_files(package: Path) -> None:
    (package / "assets").mkdir(exist_ok=True)
    for number in range(reading.LIMITS.files):
        (package / f"assets/{number}").touch()


def _large_file(package: Path) -> None:
    (package / "assets").mkdir(exist_ok=True)
    with (package / "assets/weights").open("wb") as file:
        file.truncate(reading.LIMITS.size)


def _bomb(package: Path) -> None:
    archive = package.with_name("packed")
    archive.write_bytes(gzip.compress(bytes(32 << 20)))
    shutil.rmtree(package)
    archive.rename(package)


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (_many_files, "there are more than 5,000 files and folders"),
        (_large_file, "the files are larger than 134,217,728 bytes in total"),
        (_bomb, "unpacks to more than 100 times its size"),
    ],
)
def test_package_over_a_limit_is_refused(change: Callable[[Path], None], detail: str, folder: Path) -> None:
    change(folder / "demo")
    ((_, message, _),) = refused(folder, source="file:demo")
    assert message.startswith("file:demo")
    assert detail in message


@pytest.mark.parametrize(
    ("limit", "value", "detail"),
    [
        ("MAX_RESULT", 1 << 10, "single-node renders to more than 1 KiB, which each job would keep"),
        ("MAX_OBJECTS", 0, "single-node: expected at most 0 objects"),
        ("MAX_KEYS", 7, f"file:demo:{layout.env('single-node')}: expected at most 7 keys, found 9"),
    ],
)
def test_package_with_too_much_for_each_job_is_refused(
    limit: str, value: int, detail: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert getattr(reading, limit) > value
    monkeypatch.setattr(reading, limit, value)
    ((_, message, _),) = refused(folder, source="file:demo")
    assert message == detail
