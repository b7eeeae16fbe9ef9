from __future__ import annotations

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
    from pathlib import Path


def read(folder: Path, body: PackageBody) -> PackageContent:
    return PackageReader(PackageSources(folder)).read(body)


def refused(folder: Path, **body: Any) -> list[tuple[str, str, str | None]]:
    with pytest.raises(RefusedPackageError) as error:
        read(folder, PackageBody(**body))
    return [(item.pointer, item.detail, item.hint) for item in error.value.complaints]


@pytest.mark.parametrize(
    ("name", "limit", "message"),
    [("MAX_RESULT", 1 << 10, "single-node renders to more than 1 KiB, which each job would keep")],
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


@pytest.mark.parametrize(
    ("body", "pointer", "detail", "hint"),
    [
        ({"source": "file:../demo"}, "source", "expected a path in the server's folder of packages", None),
        ({"source": "file:nothing"}, "source", "file:nothing not found", None),
        ({"source": "hello-mip"}, "source", "bundled package 'hello-mip' not found", "did you mean 'hello-mpi'?"),
        (
            {"source": "file:demo", "options": ["gpus"]},
            "options",
            "single-node has no option 'gpus'",
            "did you mean 'gpu'?",
        ),
        ({"source": "file:demo", "options": ["output-nfs"]}, "options", "an option has no value", None),
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


def test_changed_file_is_refused_by_name(folder: Path) -> None:
    script = folder / "demo" / layout.SCRIPTS / "train.sh"
    script.write_text("#!/bin/sh\nevil\n")
    assert any("train.sh" in detail for _, detail, _ in refused(folder, source="file:demo"))


@pytest.mark.thorough
def test_secret_value_in_the_package_is_refused(tmp_path: Path) -> None:
    build(tmp_path / "demo", DEMO.replace("NOTE: ''", "WANDB_API_KEY: ''"))
    env = tmp_path / "demo" / layout.env("single-node")
    env.write_text(env.read_text().replace("WANDB_API_KEY=", "WANDB_API_KEY=abc"))
    details = [detail for _, detail, _ in refused(tmp_path, source="file:demo")]
    assert any("WANDB_API_KEY, which its name says is a secret" in detail for detail in details)
    assert "abc" not in str(details)
