"""Tests of `mlpack bundle` and `mlpack load`: from one registry to another one, by a file."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import pytest

import packager
from packager.base.errors import VerificationError
from packager.package.archive import header
from packager.publish import layout
from packager.publish import load as loading
from packager.publish.artefact import Descriptor
from packager.publish.artefact import descriptor as blob_of
from packager.publish.layout import Root
from tests.publish import fake_registry, real_registry
from tests.publish.fake_registry import FakeRegistry, digest_of
from tests.tools import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Mlpack

pytestmark = pytest.mark.usefixtures("no_logins")

IMAGE = "mpioperator/mpi-pi"
KIND = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def descriptor(content: bytes, kind: str, **more: Any) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest_of(content), "size": len(content), **more}


def image(registry: FakeRegistry, repository: str, tag: str) -> str:
    """Store an image for two platforms, and return its digest."""
    entries = []
    for architecture in ("amd64", "arm64"):
        config = json.dumps({"architecture": architecture, "os": "linux"}).encode()
        layers = [b"shared by both", architecture.encode() * 1000]
        registry.blobs |= {digest_of(content): content for content in (config, *layers)}
        manifest = {
            "schemaVersion": 2,
            "mediaType": KIND,
            "config": descriptor(config, "application/vnd.oci.image.config.v1+json"),
            "layers": [descriptor(layer, "application/vnd.oci.image.layer.v1.tar") for layer in layers],
        }
        content = json.dumps(manifest).encode()
        registry.put(repository, digest_of(content), content)
        entries.append(descriptor(content, KIND, platform={"os": "linux", "architecture": architecture}))
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
    return registry.put(repository, tag, index)


@pytest.fixture(scope="module")
def first_push(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The files that `pushed` has made once, and the content of the registry then."""
    return tmp_path_factory.mktemp("pushed"), {}


@pytest.fixture
def pushed(
    mlpack: Mlpack,
    registry: FakeRegistry,
    archive: Path,
    kubectl: Path,
    first_push: tuple[Path, dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """A signed package in a registry, which has its image too."""
    monkeypatch.setenv("KUBECTL", str(kubectl))
    name = f"oci://{registry.host}/team/hello-mpi:1.0"
    folder, content = first_push
    if not content:
        image(registry, IMAGE, "openmpi")
        assert mlpack("configure", archive, "--registry", registry.host, "-d", "hello-mpi.tar.gz").code == 0
        assert mlpack("key", "new", "prod", "--no-password").code == 0
        assert mlpack("push", "hello-mpi.tar.gz", name, "--sign-key", "prod.key").code == 0
        for file in ("hello-mpi.tar.gz", "prod.key", "prod.pub"):
            shutil.copy2(file, folder)
        content |= {"blobs": registry.blobs, "manifests": registry.manifests}
    shutil.copytree(folder, ".", dirs_exist_ok=True)
    registry.blobs, registry.manifests = dict(content["blobs"]), dict(content["manifests"])
    return name


@pytest.fixture
def other() -> Iterator[FakeRegistry]:
    """The registry of a site without a network."""
    with fake_registry.serving() as registry:
        yield registry


@pytest.mark.parametrize("has_referrers", [0, 1])
def test_bundle_carries_package_images_and_signatures(
    mlpack: Mlpack, registry: FakeRegistry, other: FakeRegistry, pushed: str, has_referrers: int
) -> None:
    digest = digest_of(registry.manifests[IMAGE, "openmpi"])
    done = mlpack("bundle", pushed)
    assert (done.code, done.stdout) == (0, "hello-mpi.bundle.tar\n")
    assert f"{registry.host}/{IMAGE}:openmpi is {digest}\n" in done.stderr
    registry.fault = lambda handler, _number: fake_registry.cut(handler)
    before = len(registry.requests)
    other.has_referrers = bool(has_referrers)
    loaded = mlpack("load", "hello-mpi.bundle.tar", "--registry", f"{other.host}/lab")
    assert loaded.code == 0, loaded.stderr
    package = digest_of(registry.manifests["team/hello-mpi", "1.0"])
    assert loaded.stdout.splitlines() == [
        f"oci://{other.host}/lab/hello-mpi:1.0@{package}",
        f"{other.host}/lab/{IMAGE}:openmpi@{digest}",
    ]
    assert "next: mlpack configure PACKAGE --registry" in loaded.stderr
    assert len(registry.requests) == before
    loaded_package = f"oci://{other.host}/lab/hello-mpi:1.0"
    assert mlpack("verify", loaded_package, "--key", "prod.pub", "--require-signature").code == 0
    assert mlpack("pull", loaded_package, "-d", "out").code == 0
    assert Path("out/hello-mpi.tar.gz").read_bytes() == Path("hello-mpi.tar.gz").read_bytes()
    for repository, version in registry.manifests:
        if repository == IMAGE:
            assert other.manifests[f"lab/{IMAGE}", version] == registry.manifests[repository, version]
    again = mlpack("load", "hello-mpi.bundle.tar", "--registry", f"{other.host}/lab")
    assert (again.code, again.stdout) == (0, loaded.stdout)


def test_bundle_and_load_require_the_signature(
    mlpack: Mlpack, registry: FakeRegistry, other: FakeRegistry, pushed: str
) -> None:
    registry.has_referrers = True
    assert mlpack("key", "new", "stranger", "--no-password").code == 0
    refused = mlpack("bundle", pushed, "--key", "stranger.pub")
    assert (refused.code, "is not signed by stranger" in refused.stderr) == (5, True)
    assert not Path("hello-mpi.bundle.tar").exists()
    done = mlpack("bundle", pushed, "--key", "prod.pub")
    assert (done.code, "signature by prod " in done.stderr) == (0, True)
    load = ["load", "hello-mpi.bundle.tar", "--registry", other.host]
    before = len(other.requests)
    refused = mlpack(*load, "--key", "stranger.pub")
    assert (refused.code, "hello-mpi is not signed by stranger" in refused.stderr) == (5, True)
    assert len(other.requests) == before
    loaded = mlpack(*load, "--key", "prod.pub")
    assert (loaded.code, "signature by prod " in loaded.stderr) == (0, True)


def test_load_moves_a_tag_only_with_force(mlpack: Mlpack, other: FakeRegistry, pushed: str) -> None:
    assert mlpack("bundle", pushed).code == 0
    image(other, IMAGE, "x")
    other.put(IMAGE, "openmpi", b'{"config": {}, "layers": []}')
    before = dict(other.manifests)
    refused = mlpack("load", "hello-mpi.bundle.tar", "--registry", other.host)
    assert refused.code == 5
    assert f"oci://{other.host}/{IMAGE}:openmpi names another artefact" in refused.stderr
    assert other.manifests == before
    assert mlpack("load", "hello-mpi.bundle.tar", "--registry", other.host, "--force").code == 0


def test_dry_run_checks_the_bundle_alone(mlpack: Mlpack, other: FakeRegistry, pushed: str) -> None:
    assert mlpack("bundle", pushed).code == 0
    done = mlpack("load", "hello-mpi.bundle.tar", "--registry", other.host, "--dry-run")
    assert (done.code, other.requests) == (0, [])
    assert "dry run: the bundle is valid, and nothing was sent\n" in done.stderr


def test_broken_download_leaves_no_bundle(mlpack: Mlpack, registry: FakeRegistry, pushed: str) -> None:
    layer = digest_of(b"shared by both")
    registry.blobs[layer] = b"other content!"
    done = mlpack("bundle", pushed)
    assert (done.code, done.stdout) == (5, "")
    assert list(Path().glob("*.tar")) == []


def tar(members: list[tuple[str, bytes]]) -> bytes:
    parts = [header(name, len(content)) + content + bytes(-len(content) % 512) for name, content in members]
    return b"".join(parts) + bytes(1024)


def blob(content: bytes) -> tuple[str, bytes]:
    return f"blobs/sha256/{digest_of(content).removeprefix('sha256:')}", content


LAYOUT = ("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')


def index(*manifests: bytes, **annotations: str) -> tuple[str, bytes]:
    named = {"mlpack.repository": "team/x", "mlpack.tag": "1", **annotations}
    entries = [descriptor(content, KIND, annotations=named) for content in manifests]
    return "index.json", json.dumps({"manifests": entries}).encode()


MANIFEST = json.dumps({"config": descriptor(b"{}", "x"), "layers": []}).encode()
LOOP = json.dumps({"manifests": [{"digest": digest_of(b"none"), "size": 4}]}).encode()


def changed(**change: Any) -> list[tuple[str, bytes]]:
    """Return the entries of a bundle whose manifest has other values."""
    manifest = json.dumps({**json.loads(MANIFEST), **change}).encode()
    return [LAYOUT, index(manifest), blob(manifest), blob(b"{}")]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "no oci-layout"),
        ([LAYOUT], "no index.json"),
        ([index(), ("oci-layout", b"{}")], "no oci-layout"),
        ([LAYOUT, index(), ("../x", b"")], "unexpected entry"),
        ([LAYOUT, index(), LAYOUT], "unexpected entry"),
        ([LAYOUT, index(), blob(b"stray")], "no manifest names"),
        ([LAYOUT, index(), (blob(b"a")[0], b"b")], "has the digest"),
        ([LAYOUT, index(MANIFEST)], "is missing"),
        ([LAYOUT, index(b"[]"), blob(b"[]")], "is not a valid manifest"),
        ([LAYOUT, index(LOOP), blob(LOOP)], "is missing"),
        ([LAYOUT, ("index.json", b"[" * 200_000)], "is not a valid manifest"),
        ([LAYOUT, ("index.json", MANIFEST), blob(b"{}")], "no manifest names"),
        ([LAYOUT, ("index.json", b'{"manifests": 5}')], "is not a valid manifest"),
        ([LAYOUT, index(MANIFEST, **{"mlpack.repository": "../x"}), blob(MANIFEST), blob(b"{}")], "a repository and"),
        ([LAYOUT, index(MANIFEST, **{"mlpack.tag": "a/b"}), blob(MANIFEST)], "and a tag"),
        (changed(mediaType="a/b\r\nX: y"), r"at `\$.mediaType`"),
        (changed(annotations=["x"]), r"at `\$.annotations`"),
        (changed(manifests=[], config="x", subject=descriptor(b"{}", "x")), r"at `\$.config`"),
    ],
)
def test_hostile_bundle_is_refused(tmp_path: Path, members: list[tuple[str, bytes]], message: str) -> None:
    path = tmp_path / "bundle.tar"
    path.write_bytes(tar(members))
    with pytest.raises(VerificationError, match=message):
        layout.read(path)


@pytest.mark.parametrize("disguise", ["subject", "config"])
def test_load_requires_signatures_of_all_that_pull_takes_for_a_package(
    mlpack: Mlpack, other: FakeRegistry, pushed: str, disguise: str
) -> None:
    """Somebody has added an edited package to a bundle with a signed one, as something else."""
    assert mlpack("bundle", pushed, "--no-images").code == 0
    content, blobs = contents(Path("hello-mpi.bundle.tar"))
    (signed,) = (root for root in content.roots if root.tag == "1.0")
    manifest = json.loads(content.manifests[signed.blob.digest][0])
    manifest["annotations"] = {"is": "another one"}
    if disguise == "subject":
        manifest["subject"] = {"mediaType": KIND, "digest": signed.blob.digest, "size": signed.blob.size}
    else:
        manifest["config"] = descriptor(b"{}", "application/vnd.cncf.flux.config.v1+json")
    added = json.dumps(manifest).encode()
    blobs |= {blob_of(part): part for part in (added, b"{}")}
    roots = [*content.roots, Root(KIND, blob_of(added), signed.repository, "2.0")]
    with Path("more.tar").open("wb") as stream:
        layout.write(stream, roots, {one: writing(part) for one, part in blobs.items()})
    for command in (["load", "more.tar", "--registry", other.host], ["verify", "more.tar"]):
        done = mlpack(*command, "--key", "prod.pub")
        assert (done.code, "hello-mpi is not signed by prod" in done.stderr) == (5, True), done.stderr
    assert other.requests == []


def test_nested_indexes_are_read_once(tmp_path: Path) -> None:
    """Each names the one below twice: 2,000 levels, and more ways through them than anyone can follow."""
    contents = [MANIFEST]
    for _ in range(2_000):
        below = descriptor(contents[-1], KIND)
        contents.append(json.dumps({"manifests": [below, below]}).encode())
    path = tmp_path / "bundle.tar"
    path.write_bytes(tar([LAYOUT, index(contents[-1]), *map(blob, contents), blob(b"{}")]))
    content = layout.read(path)
    assert [text for text, _ in content.walk(digest_of(contents[-1]))] == contents


def test_load_extracts_the_package_for_the_registry(mlpack: Mlpack, other: FakeRegistry, pushed: str) -> None:
    assert mlpack("bundle", pushed).code == 0
    load = ("load", "hello-mpi.bundle.tar", "--registry", f"{other.host}/lab", "--extract", "out", "--key", "prod.pub")
    assert mlpack(*load, "--dry-run").code == 0
    assert not Path("out").exists()
    loaded = mlpack(*load)
    assert loaded.code == 0, loaded.stderr
    assert "next: mlpack doctor out/hello-mpi\n" in loaded.stderr
    for overlay in ("single-node", "multi-node"):
        env = Path("out/hello-mpi/quickstart/k8s/mlops", overlay, "mlops.env").read_text()
        assert f"REGISTRY={other.host}/lab\n" in env
    assert mlpack("verify", "out/hello-mpi").code == 0
    again = mlpack(*load)
    assert (again.code, "already exists" in again.stderr) == (2, True)
    assert mlpack(*load, "--force").code == 0


@pytest.mark.parametrize(
    ("former", "moved"),
    [
        ("docker.io/team", "lab.example.com/x/team"),
        ("team", "lab.example.com/x/team"),
        ("localhost", "lab.example.com/x"),
        ("localhost:5000/a/b", "lab.example.com/x/a/b"),
    ],
)
def test_registry_of_an_overlay_keeps_its_path(former: str, moved: str) -> None:
    assert loading.moved("lab.example.com/x", former) == moved


def test_bundle_of_a_file_carries_its_signatures(mlpack: Mlpack, other: FakeRegistry, pushed: str) -> None:
    """The artefact of a file is another one than the signed one, unless it is pushed without a tag."""
    assert mlpack("pull", pushed, "-d", "tagged", "--key", "prod.pub").code == 0
    untagged = pushed.removesuffix(":1.0")
    name = mlpack("push", "tagged/hello-mpi.tar.gz", untagged, "--sign-key", "prod.key").stdout.strip()
    assert mlpack("pull", name, "-d", "untagged", "--key", "prod.pub").code == 0
    other.has_referrers = True
    for folder, kinds in (("tagged", [""]), ("untagged", ["", "application/vnd.dev.sigstore.bundle.v0.3+json"])):
        other.manifests.clear()
        assert mlpack("bundle", f"{folder}/hello-mpi.tar.gz", "--no-images", "--force").code == 0
        loaded = mlpack("load", "hello-mpi.bundle.tar", "--registry", other.host)
        assert loaded.code == 0, loaded.stderr
        reference = f"oci://{other.host}/hello-mpi@{loaded.stdout.strip().partition('@')[2]}"
        assert (mlpack("verify", reference, "--key", "prod.pub").code == 0) is (folder == "untagged")
        assert sorted({json.loads(text).get("artifactType") or "" for text in other.manifests.values()}) == kinds


def saved_image(path: Path, *names: str, extra: tuple[str, ...] = ()) -> str:
    """Write an image as podman or docker saves it, and return its digest."""
    config = json.dumps({"architecture": "amd64", "os": "linux"}).encode()
    layer = b"a layer"
    manifest = {
        "schemaVersion": 2,
        "mediaType": KIND,
        "config": descriptor(config, "application/vnd.oci.image.config.v1+json"),
        "layers": [descriptor(layer, "application/vnd.oci.image.layer.v1.tar")],
    }
    content = json.dumps(manifest).encode()
    keys = ("org.opencontainers.image.ref.name", "io.containerd.image.name")
    annotations = dict(zip(keys, names, strict=False))
    entry = descriptor(content, KIND, **({"annotations": annotations} if annotations else {}))
    files = {f"blobs/sha256/{digest_of(blob)[7:]}": blob for blob in (config, layer, content)}
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    files |= dict.fromkeys(extra, b"[]")
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for folder in ("blobs", "blobs/sha256"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        for name, blob in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(blob)
            tar.addfile(info, io.BytesIO(blob))
    return digest_of(content)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("names", "extra"),
    [
        ((), ()),  # as `buildah push IMAGE oci-archive:FILE` writes it
        (("openmpi", "localhost/mpioperator/mpi-pi:openmpi"), ("manifest.json", "repositories")),
    ],
)
def test_image_of_this_machine_comes_from_an_archive(
    mlpack: Mlpack, other: FakeRegistry, archive: Path, pushed: str, names: tuple[str, ...], extra: tuple[str, ...]
) -> None:
    assert pushed
    assert mlpack("configure", archive, "--registry", "localhost", "-d", "local.tar.gz").code == 0
    digest = saved_image(Path("image.tar"), *names, extra=extra)
    assert mlpack("bundle", "local.tar.gz").code == 2
    done = mlpack("bundle", "local.tar.gz", "--image-archive", "image.tar")
    assert done.code == 0, done.stderr
    loaded = mlpack("load", "hello-mpi.bundle.tar", "--registry", other.host, "--extract", "out")
    assert (loaded.code, f"{other.host}/{IMAGE}:openmpi@{digest}\n" in loaded.stdout) == (0, True)
    env = Path("out/hello-mpi/quickstart/k8s/mlops/single-node/mlops.env").read_text()
    assert f"REGISTRY={other.host}\n" in env


@pytest.mark.thorough
def test_package_in_a_volume_is_bundled_and_moved(
    mlpack: Mlpack, registry: FakeRegistry, other: FakeRegistry, pushed: str
) -> None:
    """The package that pods mount is in the bundle, too, and PACKAGE_IMAGE names the copy of it."""
    assert pushed
    assert mlpack("build", "hello-mpi", "--with", "package-volume", "--registry", registry.host, "-d", "v").code == 0
    built = Path("v/hello-mpi.tar.gz")
    name = mlpack("push", built, f"oci://{registry.host}/team/mounted:1", "--no-verify").stdout.strip()
    mounted = name.removeprefix("oci://")
    assert mlpack("configure", built, "--set", f"PACKAGE_IMAGE={mounted}", "-d", "set.tar.gz").code == 0
    assert mounted in mlpack("inspect", "set.tar.gz", "-o", "images").stdout.splitlines()
    assert mlpack("bundle", "set.tar.gz").code == 0
    loaded = mlpack("load", "hello-mpi.bundle.tar", "--registry", f"{other.host}/lab", "--extract", "out")
    assert loaded.code == 0, loaded.stderr
    moved = f"{other.host}/lab/team/mounted@{mounted.partition('@')[2]}"
    assert f"oci://{moved}" in loaded.stdout.splitlines()
    env = Path("out/hello-mpi/quickstart/common/mpi/k8s/mlops/site/site.env").read_text()
    assert f"PACKAGE_IMAGE={moved}\n" in env
    assert mlpack("verify", "out/hello-mpi").code == 0
    assert sorted(path.name for path in Path("out").iterdir()) == ["hello-mpi"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.CHRTYPE])
def test_layout_with_a_link_or_a_device_is_refused(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "bundle.tar"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        info = tarfile.TarInfo(blob(b"a")[0])
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(VerificationError, match="is not a bundle"):
        layout.read(path)


@pytest.fixture
def bundle(mlpack: Mlpack, registry: FakeRegistry, pushed: str) -> Path:
    """A bundle with a signed package and its image; the registry is not reachable."""
    assert mlpack("bundle", pushed).code == 0
    registry.fault = lambda handler, _number: fake_registry.cut(handler)
    return Path("hello-mpi.bundle.tar")


def test_verify_of_a_bundle_checks_the_package_in_it(mlpack: Mlpack, registry: FakeRegistry, bundle: Path) -> None:
    before = len(registry.requests)
    done = mlpack("verify", bundle, "--key", "prod.pub", "-v")
    assert (done.code, done.stdout) == (0, ""), done.stderr
    assert "signature by prod " in done.stderr
    assert "the bundle has no image" not in done.stderr
    assert "rendered by " in done.stderr
    assert len(registry.requests) == before
    received = mlpack("verify", bundle, "-o", "json").json["received"]
    assert mlpack("verify", bundle, "--expect", received).code == 0
    assert mlpack("key", "new", "stranger", "--no-password").code == 0
    refused = mlpack("verify", bundle, "--key", "stranger.pub")
    assert (refused.code, f"{bundle}: hello-mpi is not signed by stranger" in refused.stderr) == (5, True)


def test_damaged_bundle_is_refused(mlpack: Mlpack, other: FakeRegistry, bundle: Path) -> None:
    content = bundle.read_bytes()
    commands: tuple[tuple[str | Path, ...], ...]
    commands = (("load", bundle, "--registry", other.host), ("verify", bundle), ("inspect", bundle))
    for offset in range(3):
        place = len(content) * offset // 4
        place += 0 if content[place] else 1024 - place % 512
        damaged = bytearray(content)
        damaged[place] ^= 1
        bundle.write_bytes(damaged)
        for command in commands:
            done = mlpack(*command)
            assert (done.code, done.stdout) == (5, ""), (offset, command)
    bundle.write_bytes(content[: len(content) // 2])
    assert mlpack("load", bundle, "--registry", other.host).code == 5
    assert other.requests == []


def test_inspect_of_a_bundle_lists_images_and_signatures(mlpack: Mlpack, bundle: Path) -> None:
    done = mlpack("inspect", bundle, "--key", "prod.pub")
    assert done.code == 0, done.stderr
    value = mlpack("inspect", bundle, "-o", "json").json
    (image,) = value["bundle"]["images"]
    assert f"reference:      hello-mpi@{value['digest']}\n" in done.stdout
    assert f"bundled:        {image['image']} {image['digest']}, {image['size']:,} bytes\n" in done.stdout
    assert "signature:      by prod " in done.stdout
    assert "file:           quickstart/" in done.stdout
    assert image["size"] > 1_000
    assert (value["package"], value["bundle"]["path"]) == ("hello-mpi", str(bundle))
    assert mlpack("inspect", bundle, "-o", "name").stdout == f"hello-mpi@{value['digest']}\n"
    assert mlpack("inspect", bundle, "-o", "images").stdout == f"{image['image']}\n"


def contents(path: Path) -> tuple[layout.Layout, dict[Descriptor, bytes]]:
    """Return the layout of a bundle, and its blobs."""
    content = layout.read(path)
    blobs = {}
    with path.open("rb") as stream:
        for one, offset in content.blobs.values():
            stream.seek(offset)
            blobs[one] = stream.read(one.size)
    return content, blobs


def writing(content: bytes) -> Callable[[IO[bytes]], object]:
    return lambda stream: stream.write(content)


@pytest.mark.thorough
def test_verify_of_a_bundle_compares_the_layer_with_its_description(mlpack: Mlpack, archive: Path) -> None:
    """The manifest has the config of one package, and the layer of another one."""
    shutil.copy(archive, "hello-mpi.tar.gz")
    assert mlpack("build", "hello-mpi", "--with", "nfs", "-d", "other").code == 0
    for name, path in (("a.tar", "hello-mpi.tar.gz"), ("b.tar", "other/hello-mpi.tar.gz")):
        assert mlpack("bundle", path, "--no-images", "-d", name).code == 0
    one, other = layout.read(Path("a.tar")), layout.read(Path("b.tar"))
    config = one.content(one.manifests[one.roots[0].blob.digest][1].blobs[0])
    layer_blob = other.manifests[other.roots[0].blob.digest][1].blobs[1]
    with Path("b.tar").open("rb") as stream:
        stream.seek(other.part(layer_blob)[1])
        layer = stream.read(layer_blob.size)
    manifest = json.dumps(
        {
            "config": descriptor(config, "application/vnd.oci.image.config.v1+json"),
            "layers": [descriptor(layer, "application/vnd.oci.image.layer.v1.tar+gzip")],
        }
    ).encode()
    Path("c.tar").write_bytes(tar([LAYOUT, index(manifest), *map(blob, (manifest, config, layer))]))
    done = mlpack("verify", "c.tar")
    assert done.code == 5
    assert "c.tar: team/x:1: the layer has another package than its description" in done.stdout


def test_bundle_without_a_package_is_refused(mlpack: Mlpack) -> None:
    Path("b.tar").write_bytes(tar([LAYOUT, index(MANIFEST), blob(MANIFEST), blob(b"{}")]))
    for verb in ("verify", "inspect"):
        done = mlpack(verb, "b.tar")
        assert (done.code, "b.tar: expected a bundle with one package, found none" in done.stderr) == (5, True)


def test_file_that_is_neither_package_nor_bundle_is_explained(mlpack: Mlpack) -> None:
    with tarfile.open("plain.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("a"))
    Path("text").write_text("some text\n")
    for verb in ("verify", "inspect"):
        plain, text = mlpack(verb, "plain.tar"), mlpack(verb, "text")
        assert (plain.code, text.code) == (5, 5)
        assert "a bundle is a file that `mlpack bundle` has written" in plain.stderr
        assert "expected a package: a folder, or a tar.gz of `mlpack build`" in text.stderr


@pytest.mark.thorough
def test_recipe_without_mlpack_unpacks_a_bundle(
    mlpack: Mlpack, registry: FakeRegistry, pushed: str, kubectl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person there has skopeo, tar, kubectl and a registry."""
    require("skopeo")
    assert mlpack("bundle", pushed).code == 0
    settings = Path("home/.config/containers")
    settings.mkdir(parents=True)
    (settings / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    monkeypatch.setenv("HOME", str(Path("home").absolute()))
    Path("kubectl").write_text('#!/bin/sh\necho "$@"\n')
    Path("kubectl").chmod(0o755)
    Path("storage").mkdir()
    document = (Path(packager.__file__).parent.parent / "docs/airgap.md").read_text()
    recipe = document.partition("## Without mlpack")[2].partition("```sh\n")[2].partition("```")[0]
    monkeypatch.setenv("PATH", f"{Path.cwd()}:{os.environ['PATH']}")
    with real_registry.serving(real_registry.DEBIAN, real_registry.ANONYMOUS, Path("storage")) as (host, _):
        (settings / "registries.conf").write_text(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n')
        recipe = recipe.replace("registry.lab.example.com", host)
        done = subprocess.run(["sh", "-eu", "-c", recipe], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        with urlopen(Request(f"http://{host}/v2/{IMAGE}/manifests/openmpi", headers={"Accept": INDEX})) as answer:
            assert answer.read() == registry.manifests[IMAGE, "openmpi"]
    assert done.stdout.splitlines()[-1:] == [
        "-k package/hello-mpi/quickstart/k8s/mlops/single-node apply",
    ]
    overlay = "package/hello-mpi/quickstart/k8s/mlops/single-node"
    rendered = subprocess.run([kubectl, "kustomize", overlay], capture_output=True, text=True, check=True).stdout
    assert f"image: {host}/mpioperator/mpi-pi:openmpi\n" in rendered
