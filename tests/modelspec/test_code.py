"""The code of a spec: folders and patterns, names, and more than one ConfigMap holds."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.kubernetes import configmap
from packager.modelspec.load import load
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.conftest import Outcome


KIB = 1 << 10


def names(folder: Path, entries: str, files: Mapping[str, str | bytes] | None = None) -> list[str]:
    path = demo.write(folder, demo.changed(f"[train.sh] => {entries}"), files)
    return [file.name for file in load(path).sources.files]


def messages(folder: Path, spec: str, files: Mapping[str, str | bytes] | None = None) -> list[str]:
    return demo.problems(demo.write(folder, spec, files))


def parts(folder: Path, files: Mapping[str, str | bytes]) -> list[tuple[str, list[str]]]:
    loaded = load(demo.write(folder, demo.changed("[train.sh] => [train.sh, src]"), files))
    planned = plan(loaded, loaded.spec.variants[0], Options())
    return [(part.suffix, [file.path for file in part.files]) for part in planned.code]


def test_folders_and_patterns_keep_paths_and_list_each_file_once(tmp_path: Path) -> None:
    files = {"src/b.py": "2", "src/a/c.py": "1", "src/.hidden": "3", "conf/x/y.yaml": "4", "conf/z.txt": "5"}
    listed = names(tmp_path, "[train.sh, src, src/b.py, conf/**/*.yaml]", files)
    assert listed == ["train.sh", "src/b.py", "src/a/c.py", "conf/x/y.yaml"]


@pytest.mark.parametrize(
    ("overlay", "is_started"),
    [
        ("{kind: JobSet, rendezvous: torch, roles: {node: {replicas: 2}}}", False),
        ("{kind: Job, processes: 2}", False),
        ("{kind: JobSet, rendezvous: jax, roles: {node: {replicas: 2}}}", True),
        ("{kind: MPIJob}", True),
        ("{kind: LeaderWorkerSet, size: 2, ports: {http: {port: 8080}}}", True),
        ("{kind: Pod, script: train.sh, init: {script: train.py}}", True),
    ],
)
def test_only_scripts_that_are_started_need_an_interpreter_line(
    tmp_path: Path, overlay: str, *, is_started: bool
) -> None:
    spec = demo.changed(
        "[train.sh] => [train.sh, train.py]",
        "script: train.sh => script: train.py, overlays: [multi-node]",
        f"{{kind: MPIJob}} => {overlay}",
    )
    expected = "spec.yaml:5:19: train.py has no #! line, and is started by it (begin it with #!/usr/bin/env python3)"
    assert demo.problems(demo.write(tmp_path, spec, {"train.py": "import torch\n"})) == [expected] * is_started
    problem = "spec.yaml:5:9: train.sh has Windows line ends (convert it with dos2unix)"
    files: dict[str, str | bytes] = {"train.py": "#!/usr/bin/env python3\n", "train.sh": b"#!/bin/sh\r\necho\r\n"}
    assert demo.problems(demo.write(tmp_path, spec, files)) == [problem]


def test_script_may_be_in_a_folder(tmp_path: Path) -> None:
    spec = demo.changed("[train.sh] => [src]", "script: train.sh => script: src/run.sh")
    assert load(demo.write(tmp_path, spec, {"src/run.sh": demo.SCRIPT})).spec.variants[0].script == "src/run.sh"
    assert messages(tmp_path, spec.replace("src/run.sh", "src/rum.sh"), {"src/run.sh": demo.SCRIPT}) == [
        "spec.yaml:10:47: 'src/rum.sh' is not one of `files` (did you mean 'src/run.sh'?)"
    ]


def test_code_refuses_links_names_duplicates_and_empty_folders(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src/out").symlink_to("/etc/hostname")
    files = {"src/a b.py": "1", "src/A.py": "2", "src/a.py": "3", f"src/{'n' * 200}": "4", "src/x\x1b[2J": "5"}
    spec = demo.changed("[train.sh] => [train.sh, src, empty, '*.nope', kustomization*]")
    form = "expected letters, digits and - . _ + @ between the slashes (rename it, or list the other files)"
    too_long = "the path has 204 characters, the limit is 200 (rename it, or list the other files)"
    assert messages(tmp_path, spec, files | {"kustomization.yaml": "{}"}) == [
        "spec.yaml:5:19: src/out is a link that leaves the folder",
        f"spec.yaml:5:19: 'src/a b.py': {form}",
        "spec.yaml:5:19: src/a.py and src/A.py are the same name where case is ignored (rename one of them)",
        f"spec.yaml:5:19: 'src/{'n' * 24}...{'n' * 28}': {too_long}",
        rf"spec.yaml:5:19: 'src/x\x1b[2J': {form}",
        "spec.yaml:5:24: expected files, found an empty folder: empty",
        "spec.yaml:5:31: expected files that match *.nope, found none",
        "spec.yaml:5:41: the name kustomization.yaml is reserved: the package has such a file beside them (rename it)",
    ]


def test_secrets_are_excluded_from_folders_and_reported(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    files = {"src/a.py": "1", "src/.env": "TOKEN=1", "b.py": "2", ".netrc": "x"}
    path = demo.write(tmp_path / "demo", demo.changed("[train.sh] => [train.sh, src, '.n*', '*.py']"), files)
    (tmp_path / "demo/c.py").symlink_to("src/.env")
    assert messages(tmp_path / "demo", path.read_text()) == [
        "spec.yaml:5:24: a package contains no file or folder with the name .n*"
    ]
    demo.write(tmp_path / "demo", demo.changed("[train.sh] => [train.sh, src, '*.py']"))
    done = mlpack("build", "./demo", "--format", "dir")
    notes = done.stderr.partition("next, ")[0]
    assert (done.code, notes) == (
        0,
        (
            "note: demo/c.py is not included in the files; list it there to include it\n"
            "note: demo/src/.env is not included in the files; a package contains no such name\n"
        ),
    )
    scripts = tmp_path / "demo-fp32-training/quickstart/scripts"
    assert sorted(path.name for path in scripts.rglob("*") if path.is_file()) == [
        "a.py",
        "b.py",
        "kustomization.yaml",
        "train.sh",
    ]


def test_code_is_spread_over_config_maps_by_size(tmp_path: Path) -> None:
    files = {f"src/{name}": "x" * (size * KIB) for name, size in (("a", 150), ("b", 120), ("c", 40), ("d", 79))}
    assert parts(tmp_path, files) == [
        ("", ["train.sh", "src/a", "src/c"]),
        ("-2", ["src/b", "src/d"]),
    ]


def test_code_is_refused_above_eight_config_maps(tmp_path: Path) -> None:
    spec = demo.changed("[train.sh] => [train.sh, src]")
    files = {f"src/{index}": "x" * (199 * KIB) for index in range(8)}
    assert len(parts(tmp_path, files)) == 8
    (message,) = messages(tmp_path, spec, files | {"src/8": "x" * (150 * KIB)})
    assert message == (
        "spec.yaml:5:1: the files are 1,743 KiB: more than 8 ConfigMaps of 200 KiB hold "
        "(the largest is src/0, 199 KiB) "
        "(put it in the image, list large files under `assets`, or build with --with package-volume)"
    )


def test_config_map_keys_are_unique_also_without_case() -> None:
    paths = ["a__b", "a/b", "a_/b", "a/_b", "A__b", "c++/x@1.h", "c__/x_1.h", ".a/b", "__init__.py", f"{'d/' * 150}x"]
    keys = configmap.keys(paths)
    assert list(keys) != []
    assert len({key.lower() for key in keys.values()}) == len(paths) - 1  # two of the names differ only in case
    assert all(configmap.KEY.fullmatch(key) for key in keys.values())
    assert {path: keys[path] for path in ("a__b", "a/b", "__init__.py", ".a/b", "c++/x@1.h")} == {
        "a__b": "a__b",
        "a/b": "a__b-3",
        "__init__.py": "__init__.py",
        ".a/b": "a__b-2",
        "c++/x@1.h": "c____x_1.h",
    }
    assert configmap.keys(list(reversed(paths))) == keys


def test_package_contains_files_of_its_variant_and_overlays_only(tmp_path: Path) -> None:
    """A package contains the files of its variant and of its overlays, and no others."""
    spec = demo.changed(
        "{kind: MPIJob} => {kind: MPIJob, files: [mpi, train.sh]}",
        "script: train.sh => script: train.sh, files: ['v1/*']",
        "  - {mode: other, script: v2/run.sh, workdir: v2, files: [v2], overlays: [single-node]}",
    )
    files = {"mpi/hosts.txt": "1", "v1/a.py": "2", "v2/run.sh": demo.SCRIPT}
    loaded = load(demo.write(tmp_path, spec, files))
    packages = [plan(loaded, variant, Options()) for variant in loaded.spec.variants]
    assert [[file.path for part in package.code for file in part.files] for package in packages] == [
        ["train.sh", "v1/a.py", "mpi/hosts.txt"],
        ["train.sh", "v2/run.sh"],
    ]
    assert [[path for path, _, _ in package.payload] for package in packages] == [
        [f"quickstart/scripts/{name}" for name in ("train.sh", "v1/a.py", "mpi/hosts.txt")],
        ["quickstart/scripts/train.sh", "quickstart/scripts/v2/run.sh"],
    ]


def test_script_must_be_among_files_of_its_own_variant(tmp_path: Path) -> None:
    spec = demo.changed(
        "{kind: MPIJob} => {kind: MPIJob, files: [nope, kustomization.yaml]}",
        "script: train.sh => script: v2/run.sh, workdir: v2",
        "  - {mode: other, script: train.sh, files: [v2, big], overlays: [single-node]}",
    )
    files = {"v2/run.sh": demo.SCRIPT, "big": "x" * (201 * KIB)}
    assert messages(tmp_path, spec, files) == [
        "spec.yaml:8:38: expected a file, found none: nope",
        "spec.yaml:8:44: expected a file, found none: kustomization.yaml",
        "spec.yaml:8:44: the name kustomization.yaml is reserved: the package has such a file beside them (rename it)",
        "spec.yaml:10:47: 'v2/run.sh' is not one of `files` (add it to `files`)",
        "spec.yaml:10:67: `files` have no folder 'v2' (a folder of the image is an absolute path: /v2)",
        (
            "spec.yaml:11:49: big is 201 KiB; a file that is delivered in a ConfigMap has at most 200 KiB "
            "(put large files in the image, list them under `assets`, or build with --with package-volume)"
        ),
    ]


IMAGE = f"registry.example.com/team/demo@sha256:{'0' * 64}"
LARGE = {"src/big": "x" * (201 * KIB), "src/run.sh": demo.SCRIPT}


@pytest.mark.thorough
def test_package_volume_lifts_limit_of_config_maps(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    spec = demo.changed("[train.sh] => [src]", "script: train.sh => script: src/run.sh")
    demo.write(tmp_path / "demo", spec, LARGE)
    refused = mlpack("build", "./demo")
    assert refused.code == 3
    problem = "demo/spec.yaml:5:9: src/big is 201 KiB; a file that is delivered in a ConfigMap has at most 200 KiB"
    assert problem in refused.stderr
    assert "build with --with package-volume" in refused.stderr
    linted = mlpack("lint", "./demo")
    assert linted.code == 0
    assert f"warning: {problem}" in linted.stderr
    built = mlpack("build", "./demo", "--with", "package-volume", "--format", "dir", "--site", f"PACKAGE_IMAGE={IMAGE}")
    assert built.code == 0
    package = tmp_path / "demo-fp32-training"
    assert (package / "quickstart/scripts/src/big").stat().st_size == 201 * KIB
    assert not (package / "quickstart/scripts/kustomization.yaml").exists()
    assert mlpack("verify", package).code == 0
    assert mlpack("verify", package, "--rebuild", "./demo").code == 0
    assert mlpack("configure", package, "--without", "package-volume").code == 0
    verified = mlpack("verify", package)
    assert verified.code == 5
    assert verified.stdout.count("too large for ConfigMaps, and nothing mounts it (switch on package-volume)") == 2


KEPT = [
    b"\tx",
    b"\tx\r\ny\r\n",
    b"\tx \ny\n",
    b"\tx\ny ",
    b"x\n\ty\n",
    "a\x01\x1f\u2028\ufdd0".encode(),
    b"\t\n\xff",
    b"\x7fELF\xff\0",
]
NOT_KEPT = {
    "\tloss\n0\t1.0\n": "begins with a tab",
    "\n\t\x7f": "contains the character U+007F",
    "\x80": "contains the character U+0080",
    "x\x85\n": "contains the character U+0085",
    "x\ufffe\n": "contains the character U+FFFE",
}


@pytest.mark.thorough
def test_kustomize_keeps_code_without_a_reason_against_it(tmp_path: Path, kubectl: Path) -> None:
    generator = "configMapGenerator: [{name: code, files: [file]}]\ncommonAnnotations: {read: again}\n"
    (tmp_path / "kustomization.yaml").write_text(generator)
    for content in (*KEPT, *(text.encode() for text in NOT_KEPT)):
        (tmp_path / "file").write_bytes(content)
        rendered = subprocess.run([kubectl, "kustomize", tmp_path], check=False, capture_output=True)
        data = yaml.safe_load(rendered.stdout).get("data", {}) if rendered.returncode == 0 else {"file": ""}
        is_kept = "file" not in data or data["file"].encode() == content  # others are in `binaryData`
        assert (configmap.unreadable_reason(content) is None) == is_kept, content


def test_code_that_no_config_map_holds_unchanged_is_refused(tmp_path: Path) -> None:
    assert [configmap.unreadable_reason(text.encode()) for text in NOT_KEPT] == list(NOT_KEPT.values())
    spec = demo.changed("[train.sh] => [train.sh, table.tsv]")
    assert messages(tmp_path, spec, {"table.tsv": next(iter(NOT_KEPT))}) == [
        (
            "spec.yaml:5:19: table.tsv begins with a tab: kubectl refuses or changes such a text in a ConfigMap "
            "(change it, put the file in the image, list it under `assets`, or build with --with package-volume)"
        )
    ]


def test_site_file_with_package_volume_lifts_limit(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    spec = demo.changed("[train.sh] => [src]", "script: train.sh => script: src/run.sh")
    demo.write(tmp_path / "demo", spec, LARGE)
    site = tmp_path / "site.yaml"
    site.write_text("root: /srv\n")
    refused = mlpack("build", "./demo", "--site-file", site)
    assert refused.code == 3
    assert "demo-fp32-training: the code is too large for ConfigMaps" in refused.stderr
    assert "src/big is 201 KiB" in refused.stderr
    site.write_text(f"storage: {{package-volume: {{PACKAGE_IMAGE: {IMAGE}}}}}\n")
    assert mlpack("build", "./demo", "--site-file", site).code == 0
    assert mlpack("verify", "demo-fp32-training.tar.gz").code == 0


def test_overlay_without_a_variant_is_checked(tmp_path: Path) -> None:
    path = demo.write(
        tmp_path,
        demo.changed(
            "script: train.sh => script: train.sh, overlays: [single-node]",
            "multi-node: {kind: MPIJob} => multi-node: {kind: MPIJob, script: trian.sh, workdir: src}",
        ),
    )
    assert demo.problems(path) == [
        "spec.yaml:8:38: 'trian.sh' is not one of `files` (did you mean 'train.sh'?)",
        "spec.yaml:8:57: `files` have no folder 'src' (a folder of the image is an absolute path: /src)",
    ]
