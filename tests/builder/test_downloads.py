"""Tests of the downloads of a spec: they are cached and verified."""

from __future__ import annotations

import hashlib
import http.server
import json
import shutil
import tarfile
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests import demo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Mlpack

DATA = b"weights" * 1000
DIGEST = hashlib.sha256(DATA).hexdigest()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        self.server.requests.append(self.path)  # type: ignore[attr-defined]


def _with_setting(path: Path, setting: str) -> None:
    """Add a `--set` to the options that a package records."""
    inventory = json.loads(path.read_text(encoding="utf-8"))
    inventory["spec"]["set"] = [setting]
    path.write_text(json.dumps(inventory), encoding="utf-8")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[http.server.ThreadingHTTPServer]:
    """A server with one file, and an empty cache."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served/w.bin").write_bytes(DATA)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path / "served"))
    ) as server:
        server.requests = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def spec(server: http.server.ThreadingHTTPServer, *lines: str) -> str:
    text = "\n".join(("downloads:", *lines)).replace("URL", f"http://127.0.0.1:{server.server_address[1]}/w.bin")
    return demo.changed(text.replace("SHA", DIGEST))


WITH_DIGEST = "  - {url: URL, path: a/w.bin, sha256: SHA}"


def test_build_adds_download_to_assets_and_fetches_it_once(
    mlpack: Mlpack, tmp_path: Path, server: http.server.ThreadingHTTPServer
) -> None:
    path = demo.write(tmp_path / "demo", spec(server, WITH_DIGEST))
    first = mlpack("build", path)
    assert first.code == 0
    assert first.stderr.startswith(
        "note: the containers of demo-fp32-training do not see its assets, which are not in the image: switch on "
        "--with model-nfs, model-pvc, model-host-path, nfs or host-path\n"
    )
    archive = tmp_path / "demo-fp32-training.tar.gz"
    before = archive.read_bytes()
    with tarfile.open(archive) as members:
        file = members.extractfile("demo-fp32-training/assets/a/w.bin")
        assert file is not None
        assert file.read() == DATA
    assert mlpack("build", path, "--force").code == 0
    assert archive.read_bytes() == before
    assert len(server.requests) == 1  # type: ignore[attr-defined]


@pytest.mark.thorough
def test_rebuild_fetches_downloads_of_the_spec_and_none_that_the_package_sets(
    mlpack: Mlpack, tmp_path: Path, server: http.server.ThreadingHTTPServer, kubectl: Path
) -> None:
    path = demo.write(tmp_path / "demo", spec(server, WITH_DIGEST))
    assert mlpack("build", path, "--format", "dir").code == 0
    shutil.rmtree(tmp_path / "cache")
    done = mlpack("verify", "demo-fp32-training", "--rebuild", path, "--kubectl", kubectl)
    assert (done.code, "the same digest sha256:" in done.stderr) == (0, True), done.stderr
    requests = server.requests  # type: ignore[attr-defined]
    assert len(requests) == 2
    address = f"http://127.0.0.1:{server.server_address[1]}/other"
    _with_setting(tmp_path / "demo-fp32-training/manifest.json", f"downloads.0.url={address}")
    done = mlpack("verify", "demo-fp32-training", "--rebuild", path, "--kubectl", kubectl)
    assert done.code == 5
    assert f"the package changes a download of the spec: --set downloads.0.url={address}" in done.stdout
    assert len(requests) == 2


def test_lint_fetches_no_downloads(mlpack: Mlpack, tmp_path: Path, server: http.server.ThreadingHTTPServer) -> None:
    path = demo.write(tmp_path / "demo", spec(server, WITH_DIGEST))
    assert mlpack("lint", path).code == 0
    assert server.requests == []  # type: ignore[attr-defined]


def test_build_notes_no_missing_assets_with_storage_or_dockerfile(
    mlpack: Mlpack, tmp_path: Path, server: http.server.ThreadingHTTPServer
) -> None:
    path = demo.write(tmp_path / "demo", spec(server, WITH_DIGEST))
    assert "note" not in mlpack("build", path, "--with", "model-pvc", "--site", "MODEL_CLAIM=m").stderr
    text = path.read_text().replace('image: {name: demo, tag: "1.0"}', 'image: {name: demo, tag: "1.0", dockerfile: D}')
    demo.write(tmp_path / "demo", text, {"D": "FROM scratch\nCOPY assets/a /a\n"})
    assert "note" not in mlpack("build", path, "--force").stderr


def test_build_refuses_and_lint_warns_about_download_without_digest(
    mlpack: Mlpack, tmp_path: Path, server: http.server.ThreadingHTTPServer
) -> None:
    path = demo.write(tmp_path / "demo", spec(server, "  - url: URL", "    path: w"))
    done = mlpack("build", path)
    seen = f"(the file that was fetched has `sha256: {DIGEST}`)"
    assert (done.code, done.stderr.splitlines()[0]) == (3, f"{path}:12:5: the key 'sha256' is missing {seen}")
    hint = "(`mlpack build` prints the digest of what is there now)"
    done = mlpack("lint", path)
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr.endswith(
        f"warning: {path}:12:5: a build refuses this download: the key 'sha256' is missing {hint}\n"
    )


def test_build_refuses_download_with_other_digest(
    mlpack: Mlpack, tmp_path: Path, server: http.server.ThreadingHTTPServer
) -> None:
    path = demo.write(tmp_path / "demo", spec(server, WITH_DIGEST))
    (tmp_path / "served/w.bin").write_bytes(b"other")
    done = mlpack("build", path)
    assert (done.code, "has changed: expected sha256" in done.stderr) == (5, True)
    assert not (tmp_path / "demo-fp32-training.tar.gz").exists()


def test_build_verifies_cached_download_and_refuses_shared_cache(
    mlpack: Mlpack, tmp_path: Path, server: http.server.ThreadingHTTPServer
) -> None:
    path = demo.write(tmp_path / "demo", spec(server, WITH_DIGEST))
    folder = tmp_path / "cache/mlpack/downloads"
    assert mlpack("build", path).code == 0
    (folder / DIGEST).write_bytes(b"evil")
    assert mlpack("build", path, "--force").code == 0
    assert (folder / DIGEST).read_bytes() == DATA
    (folder / DIGEST).unlink()
    (folder / DIGEST).symlink_to(tmp_path / "served/w.bin")
    assert mlpack("build", path, "--force").code == 0
    assert not (folder / DIGEST).is_symlink()
    folder.chmod(0o777)
    done = mlpack("build", path, "--force")
    assert done.code == 6
    assert "must be a folder of yours that only you can write to" in done.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("  - {url: file:///etc/passwd, path: a}", "expected an http or https URL without a user and a password"),
        ("  - {url: 'http://h/a', path: ../a}", "expected a path below the spec's folder"),
        ("  - {url: 'http://h/a', path: a, sha256: abc}", "expected a sha256 of 64 hexadecimal digits"),
        ("  - {url: 'http://h/a', path: train.sh}\nassets: [train.sh]", "train.sh"),
        ("  - {url: 'http://h/a', path: a}\n  - {url: 'http://h/b', path: a/b}", "a"),
    ],
)
def test_lint_refuses_invalid_downloads(mlpack: Mlpack, tmp_path: Path, line: str, message: str) -> None:
    done = mlpack("lint", demo.write(tmp_path / "demo", demo.changed(f"downloads:\n{line}")))
    assert done.code == 3
    assert message in done.stdout
