"""Tests of `make release`: the same bytes twice, a zipapp that runs without an installation, and its signatures."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from packager import __version__
from packager.builder import templating
from packager.publish import keys, signatures
from tests import demo, released, tools
from tools import release

if TYPE_CHECKING:
    from pathlib import Path

EPOCH = 1_700_000_000
KEY = keys.Signer(ec.generate_private_key(ec.SECP256R1()), "release")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release."""
    path = tmp_path_factory.mktemp("release") / "files"
    release.release(path, EPOCH, KEY)
    return path


@pytest.fixture(scope="module")
def zipapp(folder: Path) -> Path:
    (path,) = folder.glob("*.pyz")
    return path


@pytest.mark.release
def test_release_has_the_same_bytes_twice(folder: Path, tmp_path: Path) -> None:
    again = {path.name: path.read_bytes() for path in release.release(tmp_path / "again", EPOCH, KEY)}
    assert again.keys() == {path.name for path in folder.iterdir()}
    assert [path.name for path in folder.iterdir() if path.read_bytes() != again[path.name]] == []


@pytest.mark.release
def test_signed_release_needs_its_packages_for_later_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release, "signers", lambda *_: [KEY])
    monkeypatch.setattr(released, "RELEASES", tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
    monkeypatch.setattr(sys, "argv", ["release", "-d", str(tmp_path / "files"), "--sign-key", "release.key"])
    with pytest.raises(SystemExit, match="`make fixtures` writes them"):
        release.main()
    assert (
        f"tests/releases/{__version__} does not have this version's cifar10-mxnet-training" in capsys.readouterr().err
    )
    assert not (tmp_path / "files").exists()
    (tmp_path / __version__).mkdir()
    with pytest.raises(SystemExit, match="is kept as another commit built it: name the next version"):
        release.main()


@pytest.mark.release
def test_checksums_are_those_of_all_files_and_signed(folder: Path, tmp_path: Path) -> None:
    content = (folder / "SHA256SUMS").read_bytes()
    digests = dict(line.split("  ")[::-1] for line in content.decode().splitlines())
    files = {path.name for path in folder.iterdir() if not path.name.startswith("SHA256SUMS")}
    assert digests == {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files}
    assert len(files) == 4
    bundle, digest = (folder / "SHA256SUMS.sigstore.json").read_bytes(), hashlib.sha256(content).hexdigest()
    assert signatures.judge(bundle, f"sha256:{digest}", [KEY.public]).is_trusted
    key = tmp_path / "release.pub"
    key.write_text(KEY.public.pem)
    command = [
        tools.require("openssl"),
        "dgst",
        "-sha256",
        "-verify",
        str(key),
        "-signature",
        "SHA256SUMS.sig",
        "SHA256SUMS",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout == "Verified OK\n"


@pytest.mark.release
def test_wheel_contains_only_files_of_package_and_models(folder: Path) -> None:
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = [
        path.relative_to(demo.CHECKOUT).as_posix()
        for top in ("packager", "model_specs")
        for path in (demo.CHECKOUT / top).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    expected = {path if path.startswith("packager/") else f"packager/{path}" for path in files}
    assert len(expected) > 500
    assert expected - names == set()
    assert f"packager/builder/{templating.COMPILED}.py" in names
    assert [name for name in names if "cache" in name or name.endswith(".pyc")] == []
    assert {name.partition("/")[0] for name in names} == {"packager"}


@pytest.mark.release
def test_zipapp_runs_without_an_installation(zipapp: Path, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-I", "-S", str(zipapp)]
    for _ in range(2):  # the first run unpacks it
        done = subprocess.run(
            [*command, "build", "hello-mpi", "--force"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "hello-mpi.tar.gz\n"
    (unpacked,) = (tmp_path / ".cache/mlpack/zipapp").iterdir()
    assert unpacked.name == hashlib.sha256(zipapp.read_bytes()).hexdigest()


@pytest.mark.release
def test_bill_of_materials_names_each_dependency_with_its_digests(folder: Path) -> None:
    document = json.loads((folder / f"mlpack-{__version__}.cdx.json").read_text(encoding="utf-8"))
    parts = {part["name"]: part for part in document["components"]}
    assert {"jinja2", "msgspec", "typer", "litestar", "cryptography", "psycopg-binary"} <= set(parts)
    assert all(part["version"] and part["properties"] for part in parts.values())
    assert document["metadata"]["component"]["version"] == __version__


@pytest.mark.release
def test_source_archive_builds_the_wheel(folder: Path) -> None:
    (archive,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    with tarfile.open(archive) as content, zipfile.ZipFile(wheel) as built:
        names = {name.partition("/")[2] for name in content.getnames()}
        modules = {name for name in built.namelist() if name.startswith("packager/") and name.endswith(".py")}
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE"} <= names
    own = {name for name in modules if not name.startswith("packager/model_specs/")}
    assert own - names == {"packager/builder/compiled_templates.py"}


def test_zipapp_has_the_closure_of_the_dependencies() -> None:
    names = set(release.closure(release.PROJECT, release.EXTRAS))
    assert {"mlpack-kubernetes", "jinja2", "markupsafe", "typer", "rich", "cryptography"} <= names
    assert not names & {"litestar", "pytest"}
