"""The files that a spec names: missing, outside or too large files are reported before anything is written."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.kubernetes import configmap
from packager.modelspec.files import SourceFile, walk
from packager.modelspec.load import load, section
from packager.package import tree
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.conftest import Outcome


def messages(folder: Path, spec: str = demo.SPEC, files: Mapping[str, str | bytes] | None = None) -> list[str]:
    return demo.problems(demo.write(folder, spec, files))


WITH_OTHER = demo.changed("[train.sh] => [train.sh, other]")


def test_link_inside_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to("train.sh")
    sources = load(demo.write(tmp_path, WITH_OTHER)).sources
    assert [(file.name, file.path.name) for file in sources.files] == [("train.sh", "train.sh"), ("other", "train.sh")]


@pytest.mark.parametrize("target", ["/etc/hostname", "."])
def test_link_out_of_the_folder_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "outside").write_text("x")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "other").symlink_to(target)
    message = (
        "expected a file, found a folder: other/other" if target == "." else "other is a link that leaves the folder"
    )
    assert messages(folder, WITH_OTHER) == [f"spec.yaml:5:19: {message}"]


def test_link_to_a_folder_outside_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "sub").symlink_to(outside)
    spec = demo.changed("[train.sh] => [train.sh, sub/secret]", "assets: [sub]")
    assert messages(folder, spec) == [
        "spec.yaml:5:19: sub/secret is a link that leaves the folder",
        "spec.yaml:11:10: sub is a link that leaves the folder",
    ]


def test_dangling_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to("nowhere")
    assert messages(tmp_path, WITH_OTHER) == ["spec.yaml:5:19: expected a file, found none: other"]


def test_folder_without_permission_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = os.stat

    def stat(path: str | Path, **how: Any) -> os.stat_result:
        if "/shut/" in str(path):
            raise PermissionError(13, "Permission denied", path)
        return look(path, **how)

    spec = demo.changed("[train.sh] => [train.sh, shut/other]", "assets: [shut/data]")
    path = demo.write(tmp_path, spec, {"shut/other": "x", "shut/data/a": "1"})
    monkeypatch.setattr(os, "stat", stat)
    assert demo.problems(path) == [
        "spec.yaml:5:19: shut/other cannot be read: permission denied",
        "spec.yaml:11:10: shut/data cannot be read: permission denied",
    ]


def test_empty_folder_and_special_file_are_refused_as_code(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert messages(tmp_path, WITH_OTHER) == ["spec.yaml:5:19: expected files, found an empty folder: other"]
    (tmp_path / "other").rmdir()
    os.mkfifo(tmp_path / "other")
    assert messages(tmp_path, WITH_OTHER) == ["spec.yaml:5:19: expected a file, found a special file: other"]


def test_file_above_200_kib_is_refused_as_code(tmp_path: Path) -> None:
    assert messages(tmp_path, WITH_OTHER, {"other": "x" * configmap.CODE_BYTES}) == []
    assert messages(tmp_path, WITH_OTHER, {"other": "x" * (configmap.CODE_BYTES + 1)}) == [
        (
            "spec.yaml:5:19: other is 201 KiB; a file that is delivered in a ConfigMap has at most 200 KiB "
            "(put large files in the image, list them under `assets`, or build with --with package-volume)"
        )
    ]


def test_code_is_refused_above_its_limit_as_json(tmp_path: Path) -> None:
    (message,) = messages(tmp_path, WITH_OTHER, {"other": ('"' * (130 << 10))})
    assert "KiB as JSON, where quotes, line ends and <, >, & take more room; at most 252 KiB fit" in message


def test_counted_size_matches_annotation_of_kubectl(tmp_path: Path, kubectl: Path) -> None:
    data = {
        "text": '<a href="x">&\t\u2028é\0\x1f\\'.encode() * 500,
        "code": b"if x < y:\n    pass\n" * 500,
        "binary": b"\xff\0" * 501,
    }
    arguments = []
    for key, content in data.items():
        (tmp_path / key).write_bytes(content)
        arguments.append(f"--from-file={tmp_path / key}")
    made = subprocess.run(
        [kubectl, "create", "configmap", "x", *arguments, "--save-config", "--dry-run=client", "-o", "json"],
        stdout=subprocess.PIPE,
        check=True,
    )
    (copy,) = json.loads(made.stdout)["metadata"]["annotations"].values()
    assert 0 < len(copy.encode()) - configmap.size(data) < 200


def test_value_of_64_kib_is_refused(tmp_path: Path) -> None:
    longest = (64 << 10) - 1 - len("KEY=")
    assert messages(tmp_path, demo.changed(f"environment: {{KEY: '{'x' * longest}'}}")) == []
    (message,) = messages(tmp_path, demo.changed(f"environment: {{KEY: '{'é' * (longest // 2 + 1)}'}}"))
    assert message == (
        "spec.yaml:11:20: the value takes 64 KiB, but kustomize ignores a line of 64 KiB and all after it "
        "(put it into a file)"
    )


def test_assets_refuse_dangling_links_links_to_folders_and_bad_names(tmp_path: Path) -> None:
    spec = demo.changed("assets: [data, empty]")
    (tmp_path / "empty").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "gone").symlink_to("nowhere")
    (tmp_path / "data" / "sub").symlink_to("../empty")
    assert messages(tmp_path, spec, {"data/A": "1", "data/a": "2", "data/x\ny": "3"}) == [
        "spec.yaml:11:10: expected a file, found none: data/gone",
        "spec.yaml:11:10: expected a file, found a folder: data/sub",
        "spec.yaml:11:10: assets/data/a and assets/data/A are the same name where case is ignored (rename it)",
        r"spec.yaml:11:10: 'assets/data/x\ny': the name contains control characters (rename it)",
        "spec.yaml:11:16: expected files, found an empty folder: empty",
    ]


def test_assets_refuse_names_that_tar_cannot_store(tmp_path: Path) -> None:
    """With the package's name before them, one is longer than 1 KiB, and one, not ASCII, fits into no header."""
    deep = "/".join(["data", *["n" * 200] * 4, "n" * 204])
    files = {deep: "1", f"data/{'é' * 60}": "2", "data/e\u0301": "3"}
    place, top, hint = "spec.yaml:11:10: ", "demo-fp32-training/assets", " (rename it)"
    assert messages(tmp_path, demo.changed("assets: [data]"), files) == [
        rf"{place}'assets/data/e\u0301': the name is not in Unicode form NFC, to which some readers convert it{hint}",
        f"{place}{top}/{deep[:32]}...{deep[-58:]}: the path is too long or too deep{hint}",
        f"{place}{top}/data/{'é' * 60}: the path is too long for one that is not ASCII{hint}",
    ]


# The files in a folder of assets, with the excluded ones.

LEFT = (
    *(".git/config", ".env", "deep/.ENV.local", "deep/.ssh/id_rsa", "__pycache__/a.pyc", ".DS_Store", "id_ed25519"),
    *(".gitignore", "repo/HEAD", "GIT~1/config"),
)
KEPT = ("a.csv", "deep/b.csv", "gitignore", "env", "git/x", "a.b.c", "header", "x~")
DATA = {f"data/{name}": "x" for name in (*LEFT, *KEPT)}


def test_folder_of_assets_excludes_secrets_history_and_clutter(tmp_path: Path) -> None:
    sources = load(demo.write(tmp_path, demo.changed("assets: [data]"), DATA)).sources
    assert [file.name for file in sources.assets] == sorted(f"data/{name}" for name in KEPT)
    assert sources.left_out == (
        *("data/.DS_Store", "data/.env", "data/.git", "data/.gitignore", "data/GIT~1", "data/__pycache__"),
        *("data/deep/.ENV.local", "data/deep/.ssh", "data/id_ed25519", "data/repo/HEAD"),
    )


def test_names_that_programs_act_on_are_refused(tmp_path: Path) -> None:
    spec = demo.changed("assets: [data, data/.env, data/.git, data/repo/HEAD]")
    assert messages(tmp_path, spec, DATA) == [
        f"spec.yaml:11:{column}: a package contains no file or folder with the name {name} (rename it)"
        for column, name in ((16, ".env"), (27, ".git"), (38, "HEAD"))
    ]


def test_link_to_an_excluded_file_is_excluded(tmp_path: Path) -> None:
    files = {"data/a.csv": "x", "data/.env": "x", ".env": "x", "other/.ssh/key": "x"}
    path = demo.write(tmp_path, demo.changed("assets: [data]"), files)
    for name, target in (("one", ".env"), ("two", "../.env"), ("three", "../other/.ssh/key"), ("four", "a.csv")):
        (tmp_path / "data" / name).symlink_to(target)
    sources = load(path).sources
    assert [file.name for file in sources.assets] == ["data/a.csv", "data/four"]
    assert sources.left_out == ("data/.env", "data/one", "data/three", "data/two")


def test_excluded_files_are_listed_on_stderr(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    demo.write(tmp_path / "demo", demo.changed("assets: [data]"), {"data/a": "x", "data/.env": "HF_TOKEN=x"})
    note = "note: demo/data/.env is not included in the assets; a package contains no such name\n"
    unseen = (
        "note: the containers of demo-fp32-training do not see its assets, which are not in the image: switch on "
        "--with model-nfs, model-pvc, model-host-path, nfs or host-path\n"
    )
    unproven = (
        "note: demo/spec.yaml: multi-node: that the program uses MPI is not checked: "
        "without it, each rank works alone\n"
    )
    for verb, notes in (("build", note + unseen), ("lint", note + unproven)):
        done = mlpack(verb, "./demo")
        assert (done.code, done.stderr.partition("next, ")[0]) == (0, notes)


SPEC = demo.changed(
    'tag: "1.0"} => tag: "1.0", dockerfile: Dockerfile}', "assets: [data]", "[train.sh] => [train.sh, lib/a.py]"
)
FILES = {"lib/a.py": "#!/usr/bin/env python3\n", "data/set.csv": "1\n", "data/deep/x.bin": "2\n", "data/[a].txt": ""}


def test_dockerignore_admits_only_code_and_assets_without_secrets(
    mlpack: Callable[..., Outcome], tmp_path: Path
) -> None:
    demo.write(tmp_path / "demo", SPEC, {**FILES, "Dockerfile": "FROM scratch\n"})
    assert mlpack("build", "./demo", "--format", "dir").code == 0
    lines = (tmp_path / "demo-fp32-training/.dockerignore").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        *("*", "!assets", "!quickstart", "quickstart/*", "!quickstart/scripts"),
        *("**/.git", "**/.env*", "**/.ssh", "**/.netrc"),
    ]


def test_package_has_no_dockerignore_without_a_dockerfile(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    demo.write(tmp_path / "demo")
    assert mlpack("build", "./demo", "--format", "dir").code == 0
    assert not (tmp_path / "demo-fp32-training/.dockerignore").exists()


MATCHED = (
    *("a.py", "b.sh", ".hidden.py", ".env", "src/a.py", "src/.x/a.py", "src/deep/er/a.py", "src/__pycache__/a.pyc"),
    *(".venv/lib/a.py", "src/id_rsa", "B.py"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in MATCHED:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "src/link.py").symlink_to("a.py")
    (tmp_path / "src/loop").symlink_to("..")
    return tmp_path


def test_pattern_matches_expected_files_and_excludes_others(folder: Path) -> None:
    for pattern, files, left_out in (
        ("?.py", ["B.py", "a.py"], []),
        ("src/*", ["src/a.py", "src/link.py"], ["src/__pycache__", "src/id_rsa"]),
        ("**/a.py", ["a.py", "src/a.py", "src/deep/er/a.py"], ["src/__pycache__"]),
        ("src/**", ["src/a.py", "src/deep/er/a.py", "src/link.py"], ["src/__pycache__", "src/id_rsa"]),
        (".*.py", [], [".hidden.py"]),
        (".e*", [], [".env"]),
        (".venv/**/*.py", [".venv/lib/a.py"], []),
        ("a.py/*", [], []),
    ):
        omitted: set[str] = set()
        found = walk(folder, "", omitted, pattern)
        assert sorted(file.name for file in found if isinstance(file, SourceFile)) == files
        assert sorted(omitted) == left_out


DOCUMENTED = demo.changed("documentation: [{title: Data, file: docs/data.md}, {title: More, file: more.md}]")
PAGES: dict[str, str | bytes] = {
    "docs/data.md": "\ufeff# data\r\n\r\n[code](quickstart/scripts/train.sh)\r\n\r\n## Sets\r\n",
    "more.md": "<details>\n",
}


def test_documentation_becomes_sections_of_the_readme(tmp_path: Path) -> None:
    loaded = load(demo.write(tmp_path, DOCUMENTED, PAGES))
    package = render(plan(loaded, loaded.spec.variants[0], Options()))
    entry = next(entry for entry in package.entries if entry.path == "README.md")
    text = b"".join(tree.chunks(entry)).decode()
    data = "## Data\n\n[code](quickstart/scripts/train.sh)\n\n### Sets\n"
    assert text.endswith(f"{data}\n## More\n\n<details>\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A\n\n## B\n\n###### C\n", "### A\n\n#### B\n\n###### C"),
        ("#### Title #\n#### B", "### B"),
        ("```sh\n# code\n~~~\n```\n# B\n~~~\n# code", "```sh\n# code\n~~~\n```\n### B\n~~~\n# code"),
        ("#no heading\n", "#no heading"),
    ],
)
def test_headings_move_below_the_section(text: str, expected: str) -> None:
    assert section(text, "title") == expected


def problems(folder: Path, documentation: str, files: dict[str, str | bytes]) -> list[str]:
    return demo.problems(demo.write(folder, demo.changed(f"documentation: {documentation}"), files))


@pytest.mark.parametrize(
    ("documentation", "expected"),
    [
        ("[{title: A, file: no.md}]", "spec.yaml:11:34: expected a file, found none: no.md"),
        ("[{title: A, file: link.md}]", "spec.yaml:11:34: link.md is a link that leaves the folder"),
        ("[{title: A, file: bytes.md}]", "bytes.md: expected UTF-8 text, found other bytes"),
    ],
)
def test_invalid_documentation_is_refused(tmp_path: Path, documentation: str, expected: str) -> None:
    files: dict[str, str | bytes] = {"a.md": "a", "b.md": "b", "bytes.md": b"\xff"}
    folder = tmp_path / "model"
    demo.write(folder, files=files)
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    (folder / "link.md").symlink_to("../secret.md")
    [problem] = problems(folder, documentation, files)
    assert problem.startswith(expected)
