"""A bundle carries the files that pods fetch, to a site where nothing of its origin can be reached."""

import io
import json
import shutil
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import packager
from packager.publish import load as loading
from tests.builder.fetching import fetch, sha256
from tests.conftest import Mlpack
from tests.publish import fake_registry
from tests.publish.fake_registry import FakeRegistry

pytestmark = pytest.mark.usefixtures("no_logins")

LABELS = b"1,cat\n"
WEIGHTS = {"config.json": b"{}", "deep/model.bin": bytes(1000)}
COMMIT = "0123456789" * 4
SOURCES = """
sources:
  - {{from: "{url}/labels.csv", to: OUTPUT_DIR/labels.csv, sha256: {digest}, size: 6{secret}}}
  - {{from: "hf://team/model@{commit}", to: OUTPUT_DIR/model, size: 5000}}
"""


@pytest.fixture
def other() -> Iterator[FakeRegistry]:
    """The registry of a site without a network."""
    with fake_registry.serving() as registry:
        yield registry


@contextmanager
def serving() -> Iterator[str]:
    """Serve a file and a repository of a hub, and yield the address."""
    tree = [
        {"type": "file", "path": name, "size": len(content), "oid": "", "lfs": {"oid": sha256(content)}}
        for name, content in WEIGHTS.items()
    ]
    contents = {"/labels.csv": LABELS, f"/api/models/team/model/tree/{COMMIT}": json.dumps(tree).encode()}
    contents |= {f"/team/model/resolve/{COMMIT}/{name}": content for name, content in WEIGHTS.items()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = contents[self.path.partition("?")[0]]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def build(mlpack: Mlpack, url: str, secret: str = "") -> None:
    shutil.copytree(Path(packager.__file__).parent.parent / "model_specs/hello-mpi", "model", dirs_exist_ok=True)
    with Path("model/spec.yaml").open("a") as stream:
        if secret:
            stream.write("secrets:\n  TOKEN: {description: A token.}\n")
        stream.write(SOURCES.format(url=url, digest=sha256(LABELS), commit=COMMIT, secret=secret))
    assert mlpack("build", "model/spec.yaml", "--force").code == 0


def layer_as_skopeo_finds_it(bundle: str, name: str) -> bytes:
    """Return the layer of the only manifest with a name, as `skopeo copy oci-archive:FILE:NAME dir:DIR` writes it."""
    with tarfile.open(bundle) as archive:

        def read(path: str) -> Any:
            stream = archive.extractfile(path)
            assert stream is not None
            return stream.read()

        def blob(digest: str) -> Any:
            return read(f"blobs/{digest.replace(':', '/')}")

        entries = json.loads(read("index.json"))["manifests"]
        key = "org.opencontainers.image.ref.name"
        (found,) = [entry for entry in entries if entry["annotations"].get(key) == name]
        content: bytes = blob(json.loads(blob(found["digest"]))["layers"][0]["digest"])
        return content


def test_sources_travel_in_the_bundle(
    mlpack: Mlpack,
    other: FakeRegistry,
    kubectl: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECTL", str(kubectl))
    with serving() as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        build(mlpack, url)
        done = mlpack("bundle", "hello-mpi.tar.gz", "--no-images")
        assert (done.code, f"fetching {url}/labels.csv\n" in done.stderr) == (0, True), done.stderr
        assert (
            f"note: without {url}/labels.csv, a source\n"
            in mlpack("bundle", "hello-mpi.tar.gz", "--no-images", "--no-sources", "-d", "without.tar").stderr
        )
    assert f"the bundle lacks what pods fetch: {url}/labels.csv" in mlpack("verify", "without.tar").stderr
    loaded = mlpack("load", "hello-mpi.bundle.tar", "--registry", other.host, "--extract", "out")
    assert loaded.code == 0, loaded.stderr
    folder = Path("out/hello-mpi.sources/OUTPUT_DIR")
    assert f"next: mlpack workspace push out/hello-mpi {folder} --folder OUTPUT_DIR\n" in loaded.stderr
    assert ("sources/hello-mpi", "") in {(repository, "") for repository, _ in other.manifests}
    assert (folder / "labels.csv").read_bytes() == LABELS
    for name, content in WEIGHTS.items():
        assert (folder / "model" / name).read_bytes() == content
    for source, to, digest in (
        (f"{url}/labels.csv", "labels.csv", sha256(LABELS)),
        (f"hf://team/model@{COMMIT}", "model", "-"),
    ):
        code, errors = fetch(
            folder.absolute(), source, to=to, digest=digest, size=6 if digest != "-" else 5000, HF_ENDPOINT=url
        )
        assert code == 0, errors
    (folder / "model/config.json").write_bytes(b"[]")
    (folder / "model/.mlpack-config.json.sha256").unlink()
    (folder / ".mlpack-model.list").unlink()
    code, errors = fetch(folder.absolute(), f"hf://team/model@{COMMIT}", to="model", HF_ENDPOINT=url)
    assert (code, "missing" in errors) == (1, True)
    with tarfile.open(fileobj=io.BytesIO(layer_as_skopeo_finds_it("hello-mpi.bundle.tar", sources_name()))) as archive:
        assert "OUTPUT_DIR/labels.csv" in archive.getnames()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("OUTPUT_DIR/labels.csv"))
    stream.seek(0)
    with pytest.raises(ValueError, match="expected sha256"):
        loading._unpack(stream, tmp_path / "x", 10240, {"$(OUTPUT_DIR)/labels.csv": sha256(LABELS)})  # noqa: SLF001


def test_sparse_file_among_sources_is_refused(tmp_path: Path) -> None:
    """A few bytes of a bundle would fill the disk with it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("OUTPUT_DIR/large")
        member.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 20)}
        archive.addfile(member)
    stream.seek(0)
    with pytest.raises(ValueError, match="unexpected entry 'OUTPUT_DIR/large'"):
        loading._unpack(stream, tmp_path / "x", 10240, {})  # noqa: SLF001
    assert not (tmp_path / "x").exists()


def sources_name() -> str:
    with tarfile.open("hello-mpi.bundle.tar") as archive:
        stream = archive.extractfile("index.json")
        assert stream is not None
        entries = json.load(stream)["manifests"]
    names = [entry["annotations"]["org.opencontainers.image.ref.name"] for entry in entries]
    assert len({*names}) == len(names) == 2
    return str(next(name for name in names if name.startswith("sources/hello-mpi")))


def test_package_names_no_variable_that_the_user_has_not_named(
    mlpack: Mlpack, kubectl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package of somebody else would send any of them to a server of its own."""
    monkeypatch.setenv("KUBECTL", str(kubectl))
    build(mlpack, "https://127.0.0.1:1", ", secret: TOKEN")
    refused = mlpack("bundle", "hello-mpi.tar.gz", "--no-images")
    assert (refused.code, "is fetched with the secret TOKEN" in refused.stderr) == (2, True)
