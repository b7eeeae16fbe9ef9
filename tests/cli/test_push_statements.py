"""Tests of stamps and provenance that a registry has: `push`, `pull`, `inspect`, `verify` and `deploy` with them."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.runner import Runner
from packager.cli.host import Host
from packager.publish import artefact, bundle, signer
from packager.publish.bundle import BUNDLE, PROVENANCE, SIGNATURE, STAMP, Subject
from packager.publish.upload import Descriptor
from tests.publish import fake_registry
from tests.publish.fake_registry import digest_of

if TYPE_CHECKING:
    from tests.conftest import Mlpack
    from tests.publish.fake_registry import FakeRegistry

pytestmark = pytest.mark.usefixtures("no_logins")

PROD, OTHER = signer.new("prod"), signer.new("other")
FILE = Path("hello-mpi.tar.gz.stamp.json")
BY_PROD = ("--sign-key", "prod.key")
REQUIRED = ("--require-stamp", "MLPACK_FILES_SEALED")
PREDICATE = "dev.sigstore.bundle.predicateType"


@pytest.fixture(autouse=True)
def _tools(mlpack: Mlpack, kubectl: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    monkeypatch.setenv("KUBECTL", str(kubectl))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    for name in ("MLPACK_KEYS", "MLPACK_KEY_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    shutil.copy(archive, "hello-mpi.tar.gz")
    for key in (PROD, OTHER):
        file = Path(f"{key.public.name}.key")
        file.write_bytes(key.pem(None))
        file.chmod(0o600)
        file.with_suffix(".pub").write_text(key.public.pem)


def where(registry: FakeRegistry) -> str:
    return f"oci://{registry.host}/team/hello-mpi:1.0"


def attached(registry: FakeRegistry, predicate_type: str) -> dict[str, Any]:
    """Return the statement of a kind that refers to the artefact, after its signature was checked."""
    found = [
        json.loads(content)
        for (_, version), content in registry.manifests.items()
        if version == digest_of(content) and json.loads(content).get("artifactType") == BUNDLE
    ]
    (manifest,) = (one for one in found if one["annotations"][PREDICATE] == predicate_type)
    content = registry.blobs[manifest["layers"][0]["digest"]]
    assert base64.b64decode(manifest["layers"][0]["data"]) == content
    envelope = bundle.read(content)
    assert signer.is_valid(PROD.public, envelope.signature, bundle.signed_bytes(envelope.payload))
    statement: dict[str, Any] = json.loads(envelope.payload)
    return statement


@pytest.mark.parametrize("has_referrers", [True, False])
def test_stamp_beside_an_archive_is_pushed_and_pulled(
    mlpack: Mlpack, registry: FakeRegistry, *, has_referrers: bool
) -> None:
    registry.has_referrers = has_referrers
    assert mlpack("stamp", "hello-mpi.tar.gz", *BY_PROD).code == 0
    done = mlpack("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key")
    assert (done.code, "attached: stamp\n" in done.stderr) == (0, True)
    package = registry.manifests["team/hello-mpi", "1.0"]
    statement = attached(registry, STAMP)
    assert [subject["name"] for subject in statement["subject"]] == [
        "hello-mpi/manifest.json",
        "hello-mpi.tar.gz",
        f"{registry.host}/team/hello-mpi",
    ]
    assert f"sha256:{statement['subject'][2]['digest']['sha256']}" == digest_of(package)
    assert attached(registry, SIGNATURE)["predicate"] == {}
    again = mlpack("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key")
    assert "the registry has it already: nothing was sent\n" in again.stderr

    pulled = mlpack("pull", where(registry), "-d", "out", "--key", "prod.pub")
    assert (pulled.code, "stamped by prod on 2026-01-01: kubectl 1." in pulled.stderr) == (0, True)
    assert Path("out", FILE).read_text().count("\n") == 1
    done = mlpack("verify", "out/hello-mpi.tar.gz", *REQUIRED, "--key", "prod.pub")
    assert (done.code, done.stdout) == (0, "")
    Path("out/hello-mpi.tar.gz").unlink()
    Path("out", FILE).unlink()
    refused = mlpack("pull", where(registry), "-d", "out", "--key", "prod.pub")
    left = [path.name for path in Path("out").iterdir()]
    assert (refused.code, left) == (2, ["hello-mpi.tar.gz.sigstore.json"]), "no stamp is written before its archive"
    folder = mlpack("pull", where(registry), "-d", "folder", "--extract", "-o", "json")
    assert (folder.code, folder.json["stamps"][0]["trusted"]) == (0, False)
    assert mlpack("verify", "folder/hello-mpi", *REQUIRED, "--key", "prod.pub").code == 0


def test_verify_and_deploy_require_the_stamp_of_a_registry(mlpack: Mlpack, registry: FakeRegistry) -> None:
    assert mlpack("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key").code == 0
    verify = ("verify", where(registry), *REQUIRED)
    assert mlpack(*verify, "--key", "prod.pub").code == 5
    assert mlpack("stamp", "hello-mpi.tar.gz", *BY_PROD).code == 0
    assert mlpack("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key").code == 0
    done = mlpack(*verify, "--key", "prod.pub")
    assert (done.code, "stamped by prod on 2026-01-01" in done.stderr) == (0, True)
    assert mlpack(*verify, "--key", "other.pub").code == 5
    assert mlpack(*verify).code == 5
    assert mlpack(*verify, "--key", "other.pub", "--require-signature").code == 5
    deploy = ("deploy", where(registry), "--overlay", "single-node", "--dry-run", "client", "--key", "prod.pub")
    refused = mlpack(*deploy, "--require-stamp", "MLPACK_IMAGES_LOCKED")
    assert refused.code == 5
    assert "MLPACK_IMAGES_LOCKED is required, and no stamp by a trusted key states it" in refused.stderr
    accepted = mlpack(*deploy, *REQUIRED)
    assert "stamped by prod on 2026-01-01" in accepted.stderr
    assert "no stamp" not in accepted.stderr
    assert mlpack(*deploy, *REQUIRED, "--no-verify").code == 2


def test_inspect_lists_the_stamp_in_six_requests(mlpack: Mlpack, registry: FakeRegistry) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz", *BY_PROD).code == 0
    push = ("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key")
    assert mlpack(*push, "--provenance").code == 0
    registry.requests.clear()
    done = mlpack("inspect", where(registry), "--key", "prod.pub")
    assert [method for method, _, _ in registry.requests] == ["GET"] * 6
    assert "stamp:          stamped by prod on 2026-01-01: kubectl 1." in done.stdout
    assert "                MLPACK_FILES_SEALED\n" in done.stdout
    assert "provenance:     listed" in done.stdout
    shown = mlpack("inspect", where(registry), "-o", "json").json
    assert (shown["stamps"][0]["trusted"], shown["provenance"]) == (False, True)
    assert shown["stamps"][0]["fingerprint"] == PROD.public.fingerprint


def test_statements_are_found_in_a_registry_that_lists_types_of_configs(mlpack: Mlpack, registry: FakeRegistry) -> None:
    registry.has_referrers = registry.lists_configs = True
    assert mlpack("stamp", "hello-mpi.tar.gz", *BY_PROD).code == 0
    assert mlpack("push", "hello-mpi.tar.gz", where(registry), *BY_PROD, "--provenance").code == 0
    shown = mlpack("inspect", where(registry), "--key", "prod.pub", "-o", "json").json
    assert [one["form"] for one in shown["signatures"]] == ["bundle"]
    assert (shown["stamps"][0]["trusted"], shown["provenance"]) == (True, True)


def test_stamp_without_a_key_is_not_pushed(mlpack: Mlpack, registry: FakeRegistry) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz").code == 0
    done = mlpack("push", "hello-mpi.tar.gz", where(registry))
    assert (done.code, f"note: the stamp {FILE} is not pushed, as nothing is signed" in done.stderr) == (0, True)
    assert mlpack("push", "hello-mpi.tar.gz", where(registry), "--stamp", FILE).code == 2
    assert mlpack("push", "hello-mpi.tar.gz", where(registry), "--provenance").code == 2
    signed = mlpack("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key", "--stamp", "none")
    assert (signed.code, "attached" in signed.stderr) == (0, False)
    missing = mlpack("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key", "--stamp", "missing")
    assert (missing.code, "missing does not exist" in missing.stderr) == (2, True)


def test_stamp_of_another_key_is_attached_only_if_it_names_the_artefact(mlpack: Mlpack, registry: FakeRegistry) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz", "--sign-key", "other.key").code == 0
    push = ("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key", "--stamp", str(FILE))
    refused = mlpack(*push)
    assert (refused.code, "and does not name the artefact sha256:" in refused.stderr) == (5, True)
    assert registry.manifests == {}
    digest = mlpack("push", "hello-mpi.tar.gz", where(registry), "--dry-run", "-o", "json").json["digest"]
    statement = bundle.read_statement(bundle.read(FILE.read_bytes()).payload)
    payload = bundle.statement([*map(Subject, statement.digests), Subject(digest)], STAMP, statement.predicate)
    FILE.write_bytes(OTHER.bundle(payload))
    assert mlpack(*push).code == 0
    assert mlpack("verify", where(registry), *REQUIRED, "--key", "other.pub").code == 0


def test_stamp_that_does_not_hold_is_not_pushed(mlpack: Mlpack, registry: FakeRegistry, package: Path) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz").code == 0
    push = ("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key")
    value = json.loads(FILE.read_text())
    for overlay in value["predicate"]["mlpack"]["overlays"].values():
        overlay["renders"][0]["sha256"] = "0" * 64
    FILE.write_bytes(PROD.bundle(json.dumps(value).encode()))
    false = mlpack(*push)
    assert (false.code, "renders otherwise (sha256:" in false.stderr) == (5, True)
    value["subject"] = [{"digest": {"sha256": "0" * 64}}]
    FILE.write_bytes(PROD.bundle(json.dumps(value).encode()))
    foreign = mlpack(*push)
    assert (foreign.code, "the stamp is of another package: expected sha256:" in foreign.stderr) == (5, True)
    assert registry.manifests == {}
    assert mlpack("stamp", package, *BY_PROD).code == 0
    file = package / "quickstart/k8s/mlops/single-node/mlops.env"
    file.write_text(file.read_text().replace("REGISTRY=docker.io", "REGISTRY=example.com"))
    edited = mlpack("push", package, where(registry), "--sign-key", "prod.key")
    assert (edited.code, "was edited since it was built: quickstart/" in edited.stderr) == (0, True)
    stamp = package.with_name(f"{package.name}.stamp.json")
    assert mlpack("push", package, where(registry), "--sign-key", "prod.key", "--stamp", stamp).code == 5


def claims_of_others() -> dict[str, Any]:
    """Return an unsigned stamp of hello-mpi whose renders hold, and whose other claims nobody has proven."""
    value: dict[str, Any] = json.loads(FILE.read_text())
    predicate = value["predicate"]
    names = ("IMAGES_LOCKED", "SERVER_DRY_RUN_1_37", "RENDERS_KUBECTL_1_27", "SCHEMA_KUBERNETES_1_99")
    predicate["properties"] += [f"MLPACK_{name}" for name in names]
    predicate["mlpack"]["schemas"].append("1.99")
    for overlay in predicate["mlpack"]["overlays"].values():
        overlay["podSecurity"] = "restricted"
        overlay["renders"][0]["kubectl"].append("1.27.1")
    return value


@pytest.mark.parametrize("options", [(), ("--no-verify",)])
@pytest.mark.parametrize("form", ["unsigned", "other", "forged"])
def test_push_signs_no_claims_of_others(
    mlpack: Mlpack, registry: FakeRegistry, form: str, options: tuple[str, ...]
) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz").code == 0
    payload = json.dumps(claims_of_others()).encode()
    forged = bundle.compose(payload, OTHER.sign(bundle.signed_bytes(payload)), PROD.public.fingerprint)
    FILE.write_bytes({"unsigned": payload, "other": OTHER.bundle(payload), "forged": forged}[form])
    push = ("push", "hello-mpi.tar.gz", where(registry), *BY_PROD, *options)
    named = mlpack(*push, "--stamp", FILE)
    assert (named.code, registry.manifests) == (5, {})
    beside = mlpack(*push)
    if form != "unsigned":
        assert (beside.code, registry.manifests) == (5, {})
        return
    assert "as no key has signed it" in named.stderr
    assert "mlpack stamp --force --sign-key KEY hello-mpi.tar.gz" in named.stderr
    assert (beside.code, f"note: the stamp {FILE} is not pushed, as no key has signed it" in beside.stderr) == (0, True)
    assert "attached" not in beside.stderr
    assert mlpack("verify", where(registry), *REQUIRED, "--key", "prod.pub").code == 5
    pulled = mlpack("pull", where(registry), "-d", "out", "--key", "prod.pub")
    assert (pulled.code, Path("out", FILE).exists()) == (0, False)
    assert mlpack("stamp", "--force", *BY_PROD, "hello-mpi.tar.gz").code == 0
    assert "attached: stamp\n" in mlpack(*push).stderr
    assert mlpack("verify", where(registry), *REQUIRED, "--key", "prod.pub").code == 0
    unproven = ("--require-stamp", "MLPACK_SCHEMA_KUBERNETES_1_99")
    assert mlpack("verify", where(registry), *unproven, "--key", "prod.pub").code == 5


HOSTILE = {
    "no-bundle": b"{}",
    "signature": PROD.bundle(bundle.statement([Subject("sha256:" + "0" * 64)], SIGNATURE, {})),
    "other-package": b"",
    "large": b" " * (300 << 10),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_stamps_in_a_registry_count_for_nothing(mlpack: Mlpack, registry: FakeRegistry, name: str) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz", *BY_PROD).code == 0
    assert mlpack("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key").code == 0
    content = HOSTILE[name]
    if name == "other-package":
        predicate = attached(registry, STAMP)["predicate"]
        content = PROD.bundle(bundle.statement([Subject("sha256:" + "0" * 64)], STAMP, predicate))
    package = registry.manifests["team/hello-mpi", "1.0"]
    registry.has_referrers = True
    manifest = artefact.referring(
        BUNDLE, content, Descriptor(digest_of(package), len(package)), {PREDICATE: STAMP, "x": "hostile"}
    )
    registry.blobs[digest_of(content)] = content
    registry.put("team/hello-mpi", "hostile", manifest)
    done = mlpack("verify", where(registry), *REQUIRED, "--key", "prod.pub")
    assert (done.code, done.stdout) == (0, "")
    pulled = mlpack("pull", where(registry), "-d", "out", "--key", "prod.pub")
    assert (pulled.code, Path("out", FILE).read_text().count("\n")) == (0, 1)
    assert "the stamp is not valid" in pulled.stderr or "a stamp is " in pulled.stderr or "of another" in pulled.stderr


@pytest.mark.parametrize("data", ["AAAA", "!", 1])
def test_embedded_bundle_must_be_the_described_one(mlpack: Mlpack, registry: FakeRegistry, data: object) -> None:
    assert mlpack("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key").code == 0
    for (repository, version), content in list(registry.manifests.items()):
        value = json.loads(content)
        if value.get("artifactType") == BUNDLE:
            del registry.manifests[repository, version]
            value["layers"][0]["data"] = data
            registry.put(repository, "changed", json.dumps(value).encode())
    for version in [version for _, version in registry.manifests if version.endswith(".sig")]:
        del registry.manifests["team/hello-mpi", version]
    registry.has_referrers = True
    done = mlpack("verify", where(registry), "--key", "prod.pub")
    assert (done.code, done.stderr.count("not accepted: ")) == ((0, 0) if data == 1 else (5, 1))


def test_bundle_carries_the_stamp(mlpack: Mlpack, registry: FakeRegistry) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz", *BY_PROD).code == 0
    assert mlpack("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key").code == 0
    assert mlpack("bundle", where(registry), "--no-images").code == 0
    before = len(registry.manifests)
    assert mlpack("load", "hello-mpi.bundle.tar", "--registry", f"{registry.host}/lab").code == 0
    assert len(registry.manifests) > before
    loaded = f"oci://{registry.host}/lab/hello-mpi:1.0"
    assert mlpack("verify", loaded, *REQUIRED, "--key", "prod.pub", "--require-signature").code == 0


def test_provenance_says_how_the_package_was_built(mlpack: Mlpack, registry: FakeRegistry) -> None:
    done = mlpack("push", "hello-mpi.tar.gz", where(registry), "--sign-key", "prod.key", "--provenance")
    assert (done.code, "attached: provenance\n" in done.stderr) == (0, True)
    statement = attached(registry, PROVENANCE)
    definition = statement["predicate"]["buildDefinition"]
    assert definition["buildType"] == "mlpack:build/v1"
    assert definition["externalParameters"]["name"] == "hello-mpi"
    names = [dependency["name"] for dependency in definition["resolvedDependencies"]]
    assert "spec.yaml" in names
    assert not any(name.endswith("kustomization.yaml") for name in names)
    assert mlpack("verify", where(registry), "--key", "prod.pub").code == 0


def test_provenance_of_an_edited_package_is_refused(mlpack: Mlpack, registry: FakeRegistry) -> None:
    edit = ("configure", "hello-mpi.tar.gz", "--registry", "registry.example.com")
    assert mlpack(*edit).code == 0
    done = mlpack("push", "hello-mpi.configured.tar.gz", where(registry), *BY_PROD, "--provenance")
    assert (done.code, "hello-mpi.configured.tar.gz was edited since it was built: " in done.stderr) == (5, True)
    assert registry.manifests == {}


class Patient(Runner):
    """Waits for nothing."""

    def sleep(self, seconds: float) -> None:
        """Do not wait."""


FAULTS = {
    "cut-once": (fake_registry.cut, False, 1),
    "500-always": (fake_registry.status(500), True, 3),
    "other-digest-once": (fake_registry.other_digest, False, 2),
}
"""The fault, whether all later requests have it too, and the step from one tried request to the next."""


def check_whole(registry: FakeRegistry, repository: str) -> bool:
    """Return whether there is a tag; fail if there is one without its signature, stamp and blobs."""
    content = registry.manifests.get((repository, "1.0"))
    if content is None:
        return False
    registry.artefact(repository, "1.0")
    digest = digest_of(content).replace(":", "-")
    assert (repository, f"{digest}.sig") in registry.manifests
    listed = json.loads(registry.manifests[repository, digest])["manifests"]
    assert sorted(entry["annotations"][PREDICATE] for entry in listed) == sorted([SIGNATURE, STAMP])
    for entry in listed:
        referring = json.loads(registry.manifests[repository, entry["digest"]])
        assert all(layer["digest"] in registry.blobs for layer in referring["layers"])
    return True


@pytest.mark.thorough
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("verb", ["push", "load"])
def test_signed_package_is_whole_or_its_tag_is_absent(mlpack: Mlpack, verb: str, name: str) -> None:
    fault, always, step = FAULTS[name]
    mlpack.host = Host(Patient())
    assert mlpack("stamp", "hello-mpi.tar.gz", *BY_PROD).code == 0
    with fake_registry.serving() as origin:
        assert mlpack("push", "hello-mpi.tar.gz", where(origin), *BY_PROD, "--no-verify").code == 0
        assert mlpack("bundle", where(origin), "--no-images").code == 0
        assert check_whole(origin, "team/hello-mpi")
    count, number = 1, 0
    while number < count:
        with fake_registry.serving() as registry:
            registry.fault = lambda handler, at, first=number: (  # type: ignore[misc]
                (at >= first if always else at == first) and fault(handler)
            )
            push = ("push", "hello-mpi.tar.gz", where(registry), *BY_PROD, "--no-verify")
            load = ("load", "hello-mpi.bundle.tar", "--registry", f"{registry.host}/team", "--key", "prod.pub")
            done = mlpack(*(push if verb == "push" else load))
            is_there = check_whole(registry, "team/hello-mpi")
            assert done.code in (0, 5, 6), done.stderr
            assert is_there or done.code != 0
            count = max(count, len(registry.requests)) if not always else 24
            number += step
    assert count >= 15


@pytest.mark.parametrize("library", ["cryptography", "openssl"])
def test_stamp_is_verified_without_a_network(mlpack: Mlpack, library: str) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz", *BY_PROD).code == 0
    blocked = "" if library == "cryptography" else "sys.modules['cryptography.exceptions'] = None; "
    script = f"import sys; {blocked}from packager.__main__ import main; sys.exit(main())"
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces on this machine, and so no network of our own")
    verify = ("verify", "hello-mpi.tar.gz", *REQUIRED, "--key")
    for key, code in (("prod.pub", 0), ("other.pub", 5)):
        command = [*alone, sys.executable, "-c", script, *verify, key]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert ("stamped by prod on 2026-01-01" in done.stderr) is (code == 0)
