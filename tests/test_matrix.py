"""Tests of compatibility: every kubectl renders every overlay to the same bytes, without a warning."""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from packager.base import yamlio
from packager.base.process import Finished
from packager.builder import render
from packager.builder.plan import Options, choose, plan
from packager.builder.selection import select
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.modelspec import catalog, load
from packager.modelspec.settings import parse_setting
from packager.package import tree
from packager.package.layout import OVERLAYS as FOLDER
from packager.package.layout import WORKSPACE
from packager.package.options import KEYS, OPTIONS
from tests import demo, everything, kinds, kubectls, renders
from tests.combinations import possible_combinations
from tests.configure import test_additions
from tests.test_options import SETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.conftest import Mlpack

pytestmark = pytest.mark.matrix


def overlays() -> Iterator[tuple[str, str]]:
    """Yield the name of each bundled package with the name of each of its overlays."""
    for path in catalog.specs([catalog.bundled()]):
        spec = load.load(path).spec
        for variant in spec.variants:
            for overlay in variant.overlays or spec.overlays:
                yield spec.package_name(variant), overlay


OVERLAYS = list(overlays())

# The tested combinations of site options: each option, sets with every compatible pair, and all for each storage.
SITES = {
    "-".join(options) if len(options) <= 2 else f"set-{number}": options
    for number, options in enumerate(possible_combinations())
}
ALL = {
    f"all-on-{storage.name}": (
        storage.name,
        *(option.name for option in OPTIONS if not (option.places or option.needs or option.excludes)),
    )
    for storage in OPTIONS
    if "output" in storage.places and storage.name != f"output-{storage.name.partition('-')[2]}"
}
NAMES = [*SITES, *ALL]
BATCHES = [NAMES[start : start + 17] for start in range(0, len(NAMES), 17)]
RENDERED_AT_ONCE = 6
"""With fewer, starting the kubectls takes longest; with more, resolving the names of all objects does."""

EXAMPLES = {name: key.example for name, key in KEYS.items()}
# Dots in values, which are separators in the paths of a kustomization.
DOTTED = {"GPU_VENDOR": "amd.com", "GPU_RESOURCE": "gpu.large", "GPU_COUNT": "4"}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every bundled package."""
    folder = tmp_path_factory.mktemp("packages")
    build = [sys.executable, "-m", "packager", "build", "--all", "--format", "dir", "-d", str(folder)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    return folder


def assert_alike(kustomization: Path, versions: Sequence[str] = kubectls.COMPARED, inputs: Sequence[Path] = ()) -> str:
    """Render with the kubectl of every version, assert that the outputs are equal, and return the output.

    If `inputs` lists the folders of all other files that are read, the result is cached.
    """
    digest = renders.digest(kustomization, inputs, versions) if inputs else ""
    expected = renders.kept(digest) if digest else None
    if expected is None:
        expected = _rendered_alike(kustomization, versions)
        if digest:
            renders.keep(digest, expected)
    return expected


@renders.remembering
def _run(argv: Sequence[str]) -> Finished:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return Finished(done.returncode, done.stdout, done.stderr)


def _rendered_alike(kustomization: Path, versions: Sequence[str]) -> str:
    def render(version: str) -> Finished:
        return _run(None, [str(kubectls.kubectl(version)), "kustomize", str(kustomization)])

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        results = dict(zip(versions, threads.map(render, versions), strict=True))
    assert {version: done.stderr for version, done in results.items() if done.returncode or done.stderr} == {}
    oldest = versions[0]
    expected = results[oldest].stdout
    differences = [
        line
        for version, done in results.items()
        if done.stdout != expected
        for line in difflib.unified_diff(expected.splitlines(), done.stdout.splitlines(), oldest, version, lineterm="")
    ]
    assert differences == []
    assert {done.stdout for done in results.values()} == {expected}
    return expected


def write(folder: Path, *resources: str, prefix: str = "", namespace: str = "") -> None:
    """Write a kustomization that includes other overlays."""
    content = {"namePrefix": prefix, "namespace": namespace, "resources": resources}
    (folder / "kustomization.yaml").write_text(json.dumps({key: value for key, value in content.items() if value}))


def below(folder: Path, packages: Path) -> list[str]:
    """Return the paths of the overlays relative to `folder`."""
    return [os.path.relpath(packages / package / FOLDER / overlay, folder) for package, overlay in OVERLAYS]


def documents(rendered: str) -> list[str]:
    return rendered.removesuffix("\n").split("\n---\n")


def test_same_kustomize_table_matches_kubectls() -> None:
    """Therefore the many combinations of options are rendered with one version for each kustomize."""
    versions = {}
    for version in {*kubectls.COMPARED, *kubectls.KUSTOMIZES}:
        argv = [str(kubectls.kubectl(version)), "version", "--client", "-o", "json"]
        versions[version] = json.loads(subprocess.check_output(argv, stderr=subprocess.DEVNULL))["kustomizeVersion"]
    for version in kubectls.COMPARED:
        assert versions[version] == versions[kubectls.SAME_KUSTOMIZE.get(version, version)]


def test_kubectls_render_every_overlay_alike(packages: Path) -> None:
    """One kustomization includes all overlays, so that each kubectl starts once; the result equals single renders."""
    folder = packages / "every-overlay"
    folder.mkdir()
    folders = below(folder, packages)
    write(folder, *folders)
    rendered = assert_alike(folder, inputs=[packages / package for package, _ in OVERLAYS])
    for version in (kubectls.COMPARED[0], kubectls.COMPARED[-1]):
        program = str(kubectls.kubectl(version))
        alone = [
            kustomize(packages / package / FOLDER / overlay, program=program).manifests for package, overlay in OVERLAYS
        ]
        for (package, overlay), manifests in zip(OVERLAYS, alone, strict=True):
            assert f"name: {package}-{overlay}\n" in manifests
        assert sorted(documents(rendered)) == sorted(
            document for manifests in alone for document in documents(manifests)
        )


def test_kubectls_render_overlay_over_all_overlays_alike(packages: Path) -> None:
    folder = packages / "ones-own"
    folder.mkdir()
    write(folder, *below(folder, packages), prefix="alice-", namespace="team")
    rendered = assert_alike(folder, inputs=[packages / package for package, _ in OVERLAYS])
    for package, overlay in OVERLAYS:
        assert f"name: alice-{package}-{overlay}\n" in rendered
    assert "namespace: team\n" in rendered


@pytest.mark.parametrize("names", BATCHES, ids=lambda names: f"{names[0]}...{names[-1]}")
def test_kubectls_render_site_options_alike(tmp_path: Path, names: list[str]) -> None:
    """Each option, sets with every compatible pair, and all options, in every kind of overlay, with every kustomize."""
    model = catalog.find("hello-mpi", [catalog.bundled()])
    for name in names:
        options, values = (ALL[name], EXAMPLES | DOTTED) if name in ALL else (SITES[name], EXAMPLES)
        # Two packages below one kustomization must not create the same claim.
        site_values = values | {"OUTPUT_CLAIM": f"{name}-results"}
        site = Options(root="/srv", site=select(options, [f"{key}={value}" for key, value in site_values.items()]))
        secrets = ["secrets.HF_TOKEN.description=A token.", "secrets.no.description=x"] if name in ALL else []
        settings = [parse_setting(setting) for setting in (f"name={name}", *secrets, *kinds.FOLDERS)]
        loaded = load.load(model, [*settings, *kinds.SETTINGS])
        (tmp_path / name).mkdir()
        tree.write(render.render(plan(loaded, choose(loaded.spec, None, None), site)), tmp_path / name)
    for start in range(0, len(names), RENDERED_AT_ONCE):
        folder = tmp_path / f"from-{start}"
        folder.mkdir()
        assert_options_are_rendered(folder, names[start : start + RENDERED_AT_ONCE])


def assert_options_are_rendered(folder: Path, names: list[str]) -> None:
    """Render the packages beside `folder` together, with a kustomization in `folder`."""
    overlays = [(name, overlay) for name in names for overlay in kinds.OVERLAYS]
    write(folder, *(f"../{name}/{FOLDER}/{overlay}" for name, overlay in overlays), prefix="alice-")
    rendered = assert_alike(folder, kubectls.KUSTOMIZES, [folder.parent / name for name in names])
    for name, overlay in overlays:
        named = [document for document in documents(rendered) if f"\n  name: alice-{name}-{overlay}\n" in document]
        (workload,) = [document for document in named if "containers:" in document]
        if name in ALL:
            assert f"mlpack/storage: {ALL[name][0]}\n" in workload
            templates = 2 if "kind: LeaderWorkerSet\n" in workload else 1
            assert workload.count('amd.com/gpu.large: "4"') == templates
            assert "nvidia" not in workload
            assert workload.count("key: HF_TOKEN\n") == workload.count("mountPath: /etc/mlpack/env\n")
            assert workload.count(f"name: {EXAMPLES['SECRET']}\n") >= 2


@pytest.mark.parametrize("names", SETS.values(), ids=SETS.keys())
def test_kubectls_render_added_options_as_those_of_a_build(
    tmp_path: Path, mlpack: Mlpack, names: Sequence[str]
) -> None:
    """Every option, added by `configure --with`, in every kind of overlay, with every kustomize."""
    added = test_additions.build(tmp_path / "added/package", Options(root="/srv"))
    for overlay in kinds.OVERLAYS:
        test_additions.add(mlpack, added, overlay, names)
    site = select(names, test_additions.values(names))
    built = test_additions.build(tmp_path / "built/package", Options(root="/srv", site=site))
    rendered = []
    for package in (added, built):
        folder = package.parent / "all"
        folder.mkdir()
        write(folder, *(f"../package/{FOLDER}/{overlay}" for overlay in kinds.OVERLAYS))
        rendered.append(assert_alike(folder, kubectls.KUSTOMIZES, [package]))
    assert rendered[0] == rendered[1]


ARGUMENTS = [
    *("trailing space \nline\n\n  indented\ttab\n", "", " ", "yes", "1e3", "0o17", "a: b", "- x", "#no", "~", "null"),
    *("$(MODEL_DIR)", "$$(X)", "é \U0001f600", "'\"\\", "x\n", "\n", "\tx", "{a}", "[b]", "*c", "&d", "!e", "%f", "@g"),
    *("`h`", "=", "<<", "2020-01-01", "12:30:45", "a line that a YAML library might fold: " + "word 'and' # " * 20),
]


def test_kubectls_render_unusual_arguments_alike(tmp_path: Path) -> None:
    arguments = json.dumps(ARGUMENTS, ensure_ascii=False)
    job = f"{{kind: Pod}} => {{kind: Job, completions: 6, parallelism: 2, command: [a], args: {arguments}}}"
    path = demo.write(tmp_path, demo.changed(", script: train.sh => , overlays: [single-node]", job))
    loaded = load.load(path)
    package = tmp_path / "package"
    package.mkdir()
    tree.write(render.render(plan(loaded, loaded.spec.variants[0], Options())), package)
    rendered = assert_alike(package / FOLDER / "single-node")
    # PyYAML's loader does not read a plain `=`, which kustomize writes.
    manifests = [document.data for document in yamlio.load_all(rendered.encode(), "")[0]]
    [manifest] = [item for item in manifests if item["kind"] == "Job"]
    assert manifest["spec"]["template"]["spec"]["containers"][0]["args"] == ARGUMENTS


def test_kubectls_render_every_key_for_code_alike(tmp_path: Path) -> None:
    """Code in three ConfigMaps, several scripts, a working directory and init, in an overlay of every kind."""
    loaded = load.load(everything.write(tmp_path / "model"))
    site = Options(root="/srv", site=select(["nfs"], ["NFS_SERVER=nfs.example.com"]))
    package = tmp_path / "package"
    package.mkdir()
    tree.write(render.render(plan(loaded, loaded.spec.variants[0], site)), package)
    folders = (*everything.OVERLAYS, WORKSPACE)
    write(tmp_path, *(f"package/{FOLDER}/{overlay}" for overlay in folders), prefix="alice-")
    rendered = assert_alike(tmp_path)
    for overlay in everything.OVERLAYS:
        assert f"name: alice-everything-{overlay}\n" in rendered
    names = set(re.findall(r"name: (\S*everything-scripts\S*)", rendered))
    assert len(names) == 3 * len(everything.OVERLAYS)
    assert all(name.startswith("alice-") for name in names)
