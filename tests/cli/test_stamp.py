"""Tests of `mlpack stamp`, and of `mlpack verify` with a stamp."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from packager.publish import bundle, signer, stamp
from packager.publish.bundle import SIGNATURE, STAMP, BundleError, Subject
from tests.cli.test_key import recipe

if TYPE_CHECKING:
    from tests.conftest import Mlpack

FILE = Path("hello-mpi.tar.gz.stamp.json")
PROD = signer.new("prod")
ENV = "quickstart/k8s/mlops/single-node/mlops.env"


@pytest.fixture(autouse=True)
def _tools(mlpack: Mlpack, kubectl: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    monkeypatch.setenv("KUBECTL", str(kubectl))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    for name in ("MLPACK_KEYS", "MLPACK_KEY_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    shutil.copy(archive, "hello-mpi.tar.gz")
    Path("prod.key").write_bytes(PROD.pem(None))
    Path("prod.key").chmod(0o600)
    Path("prod.pub").write_text(PROD.public.pem)
    Path("other.pub").write_text(signer.new("other").public.pem)


def payload() -> dict[str, Any]:
    """Return the statement in the signed stamp."""
    value: dict[str, Any] = json.loads(base64.b64decode(json.loads(FILE.read_text())["dsseEnvelope"]["payload"]))
    return value


def sign(value: object) -> None:
    """Write another stamp, signed by the trusted key."""
    text = json.dumps(value).encode()
    FILE.write_bytes(bundle.compose(text, PROD.sign(bundle.signed_bytes(text)), PROD.public.fingerprint))


def test_stamp_states_results_of_the_verification(mlpack: Mlpack) -> None:
    done = mlpack("stamp", "hello-mpi.tar.gz", "--sign-key", "prod.key", "--kubernetes-version", "1.35", "-o", "json")
    assert (done.code, done.json["path"], done.json["signed_by"]) == (0, str(FILE), PROD.public.fingerprint)
    statement = payload()
    assert statement == done.json["statement"]
    assert statement["predicateType"] == "https://in-toto.io/attestation/svr/v0.2"
    report = mlpack("verify", "hello-mpi.tar.gz", "-o", "json").json
    digests = [f"sha256:{subject['digest']['sha256']}" for subject in statement["subject"]]
    from hashlib import sha256

    archive = sha256(Path("hello-mpi.tar.gz").read_bytes()).hexdigest()
    assert digests == [report["digest"], f"sha256:{archive}"]
    predicate = statement["predicate"]
    assert predicate["timeCreated"] == "2026-01-01T00:00:00Z"
    assert {"MLPACK_FILES_SEALED", "MLPACK_SCHEMA_KUBERNETES_1_35"} < set(predicate["properties"])
    assert not {"MLPACK_RENDERS_ALIKE", "MLPACK_IMAGES_LOCKED"} & set(predicate["properties"])
    overlay = predicate["mlpack"]["overlays"]["single-node"]
    assert f"sha256:{overlay['renders'][0]['sha256']}" == report["renders"]["single-node"]
    assert overlay["podSecurity"] == "restricted"
    again = FILE.read_bytes()
    assert mlpack("stamp", "hello-mpi.tar.gz").code == 2
    redone = mlpack("stamp", "hello-mpi.tar.gz", "--sign-key", "prod.key", "--kubernetes-version", "1.35", "--force")
    assert (redone.code, FILE.read_bytes()) == (0, again)


def test_verify_uses_a_stamp_of_a_trusted_key(mlpack: Mlpack) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz", "--sign-key", "prod.key").code == 0
    done = mlpack("verify", "hello-mpi.tar.gz", "--require-stamp", "MLPACK_FILES_SEALED", "--key", "prod.pub")
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr.startswith("stamped by prod on 2026-01-01: kubectl 1.")
    assert "Pod Security restricted\n" in done.stderr
    missing = mlpack("verify", "hello-mpi.tar.gz", "--require-stamp", "MLPACK_IMAGES_LOCKED", "--key", "prod.pub")
    assert missing.code == 5
    assert f"{FILE}: MLPACK_IMAGES_LOCKED is required, and no stamp by a trusted key states it\n" in missing.stdout
    required = ["--require-stamp", "MLPACK_FILES_SEALED", "--require-signature"]
    unsigned = mlpack("verify", "hello-mpi.tar.gz", "--key", "prod.pub", *required)
    assert (unsigned.code, "is not signed by prod" in unsigned.stderr) == (5, True)


def test_stamp_of_an_unknown_key_is_not_used(mlpack: Mlpack) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz", "--sign-key", "prod.key").code == 0
    done = mlpack("verify", "hello-mpi.tar.gz")
    assert (done.code, done.stderr) == (
        0,
        f"stamped by an unknown key {PROD.public.fingerprint}: its claims are not used\n",
    )
    required = ["--require-stamp", "MLPACK_FILES_SEALED"]
    assert mlpack("verify", "hello-mpi.tar.gz", *required, "--key", "other.pub").code == 5
    assert mlpack("verify", "hello-mpi.tar.gz", *required).code == 5
    assert mlpack("verify", "hello-mpi.tar.gz", "--stamp", "none").stderr == ""
    assert mlpack("verify", "hello-mpi.tar.gz", "--stamp", "none", *required).code == 2


def test_unsigned_stamp_proves_only_its_renders(mlpack: Mlpack) -> None:
    done = mlpack("stamp", "hello-mpi.tar.gz")
    assert (done.code, done.stdout, "not signed: " in done.stderr) == (0, f"{FILE}\n", True)
    used = mlpack("verify", "hello-mpi.tar.gz", "--require-stamp", "MLPACK_FILES_SEALED", "--key", "prod.pub")
    assert (used.code, "the stamp is not signed: its claims are not used\n" in used.stderr) == (5, True)
    assert mlpack("verify", "hello-mpi.tar.gz").code == 0
    value = json.loads(FILE.read_text())
    value["predicate"]["mlpack"]["overlays"]["single-node"]["renders"][0]["sha256"] = "0" * 64
    FILE.write_text(json.dumps(value))
    other = mlpack("verify", "hello-mpi.tar.gz")
    assert (other.code, "single-node: renders otherwise (sha256:" in other.stdout) == (5, True)


def test_missing_stamp_is_a_problem_only_if_required(mlpack: Mlpack) -> None:
    assert mlpack("verify", "hello-mpi.tar.gz").stderr == ""
    assert mlpack("verify", "hello-mpi.tar.gz", "--require-stamp", "MLPACK_FILES_SEALED").code == 5
    assert mlpack("verify", "hello-mpi.tar.gz", "--stamp", "missing.json").code == 2
    assert mlpack("verify", "hello-mpi.tar.gz", "--require-stamp", "x y").code == 2


def test_stamp_of_another_package_is_a_problem(mlpack: Mlpack) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz", "--sign-key", "prod.key").code == 0
    value = payload()
    value["subject"] = [{"digest": {"sha256": "0" * 64}}]
    sign(value)
    done = mlpack("verify", "hello-mpi.tar.gz", "--stamp", FILE, "--key", "prod.pub")
    assert (done.code, "the stamp is of another package: expected sha256:" in done.stdout) == (5, True)


def test_other_render_than_stamped_is_a_problem(mlpack: Mlpack) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz", "--sign-key", "prod.key").code == 0
    value = payload()
    render = value["predicate"]["mlpack"]["overlays"]["single-node"]["renders"][0]
    render["sha256"] = "0" * 64
    sign(value)
    use = ["verify", "hello-mpi.tar.gz", "--stamp", str(FILE), "--key", "prod.pub"]
    done = mlpack(*use)
    assert done.code == 5
    assert "single-node: renders otherwise (sha256:" in done.stdout
    for overlay in value["predicate"]["mlpack"]["overlays"].values():
        overlay["renders"][0]["kubectl"] = ["1.2.3"]
    sign(value)
    assert mlpack(*use).code == 0  # no kubectl of this version renders here


def test_edits_are_reported_beside_the_stamp(mlpack: Mlpack, package: Path) -> None:
    file = package.with_name(f"{package.name}.stamp.json")
    done = mlpack("stamp", package, "--sign-key", "prod.key")
    assert (done.code, done.stdout) == (0, f"{file}\n")
    (package / ENV).write_text((package / ENV).read_text().replace("REGISTRY=docker.io", "REGISTRY=example.com"))
    use = ["verify", str(package), "--stamp", str(file), "--key", "prod.pub"]
    edited = mlpack(*use)
    assert edited.code == 0
    assert f"the stamp is of the package as delivered: {package / ENV} edited since\n" in edited.stderr
    assert mlpack(*use, "--require-stamp", "MLPACK_FILES_SEALED").code == 5
    refused = mlpack("stamp", package, "--force")
    assert (refused.code, "was edited" in refused.stderr) == (5, True)


def test_packages_with_problems_get_no_stamp(mlpack: Mlpack, package: Path) -> None:
    (package / "README.md").write_text("mine")
    done = mlpack("stamp", package)
    assert (done.code, "did not pass verification; no stamp was written" in done.stderr) == (5, True)
    assert mlpack("stamp", "hello-mpi.tar.gz", "--kubectl", "no-kubectl").code == 6
    assert not FILE.exists()


def test_flipped_bits_of_a_stamp_are_found(mlpack: Mlpack) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz", "--sign-key", "prod.key").code == 0
    from packager.app.signatures import TrustRequest, trust
    from packager.app.stamps import _opened
    from packager.base.runner import SYSTEM

    trusted = trust(TrustRequest((Path("prod.pub"),), (), is_required=False), SYSTEM)
    content = FILE.read_bytes().strip()
    start, end = content.index(b'"payload":"') + 11, content.index(b'","payloadType"')
    for offset in [*range(start, end, 41), content.index(b'"sig":"') + 20]:
        damaged = bytearray(content)
        damaged[offset] = ord("A") if damaged[offset] != ord("A") else ord("B")
        with pytest.raises(BundleError):
            bundle.read_statement(_opened(bytes(damaged), trusted.verifier)[0])
    FILE.write_bytes(content[:-20])
    assert mlpack("verify", "hello-mpi.tar.gz").code == 5
    FILE.write_bytes(b" " * (300 << 10))
    assert mlpack("verify", "hello-mpi.tar.gz").code == 5


HOSTILE: dict[str, dict[str, Any]] = {
    "no-verifier": {"verifier": None},
    "other-verifier": {"verifier": {"id": "x"}},
    "no-extension": {"mlpack": []},
    "version": {"mlpack": {"version": 2}},
    "time": {"timeCreated": "yesterday"},
    "properties": {"properties": "MLPACK_FILES_SEALED"},
    "property": {"properties": ["\x1b[2J"]},
    "schemas": {"mlpack": {"version": 1, "overlays": {}, "schemas": [1]}},
    "renders": {"mlpack": {"version": 1, "overlays": {"a": {"renders": []}}, "schemas": []}},
    "overlay": {"mlpack": {"version": 1, "overlays": {"a": 1}, "schemas": []}},
    "digest": {"mlpack": {"version": 1, "overlays": {"a": {"renders": [{"sha256": "x"}]}}, "schemas": []}},
    "kubectl": {
        "mlpack": {
            "version": 1,
            "overlays": {"a": {"renders": [{"sha256": "0" * 64, "kubectl": ["x"]}]}},
            "schemas": [],
        }
    },
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_predicates_are_refused(name: str) -> None:
    facts = stamp.Stamp("2026-01-01T00:00:00Z", ("1.36.2",), ("1.36",), {})
    predicate = stamp.predicate(facts, "hello-mpi", "0")
    good = bundle.statement([Subject("sha256:" + "0" * 64)], STAMP, predicate)
    assert stamp.read(bundle.read_statement(good)).kubectls == ()
    with pytest.raises(BundleError):
        stamp.read(
            bundle.read_statement(bundle.statement([Subject("sha256:" + "0" * 64)], STAMP, predicate | HOSTILE[name]))
        )


def test_openssl_alone_verifies_a_stamp_by_the_recipe(mlpack: Mlpack) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz", "--sign-key", "prod.key").code == 0
    run = ["sh", "-euc", recipe().replace(".sigstore.json", ".stamp.json")]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Verified OK\nhello-mpi.tar.gz: OK\n")
    shutil.copy("other.pub", "prod.pub")
    assert subprocess.run(run, capture_output=True, check=False).returncode != 0


def test_signature_of_a_package_is_not_a_stamp() -> None:
    statement = bundle.statement([Subject("sha256:" + "0" * 64)], SIGNATURE, {})
    with pytest.raises(BundleError, match="expected a statement of the type"):
        stamp.read(bundle.read_statement(statement))


def test_properties_follow_from_the_facts() -> None:
    overlays = {"a": stamp.OverlayStamp("sha256:" + "0" * 64, "baseline", ("x@sha256:1",))}
    facts = stamp.Stamp("2026-01-01T00:00:00Z", ("1.36.2", "1.35.1"), ("1.36",), overlays)
    assert facts.named() == (
        "MLPACK_FILES_SEALED",
        "MLPACK_RENDERS_ALIKE",
        "MLPACK_RENDERS_KUBECTL_1_36",
        "MLPACK_RENDERS_KUBECTL_1_35",
        "MLPACK_SCHEMA_KUBERNETES_1_36",
        "MLPACK_POD_SECURITY_BASELINE",
        "MLPACK_IMAGES_LOCKED",
    )


@pytest.mark.parametrize("name", [str(FILE), "hello-mpi.tar.gz.sigstore.json"])
def test_pipe_beside_a_package_is_refused_without_waiting(mlpack: Mlpack, name: str) -> None:
    os.mkfifo(name)
    key = () if name == str(FILE) else ("--key", "prod.pub")
    done = mlpack("verify", "hello-mpi.tar.gz", *key)
    assert (done.code, done.stderr) == (6, f"error: {name} cannot be read: not a plain file\n")


def test_stamp_beside_a_package_may_be_a_link(mlpack: Mlpack) -> None:
    assert mlpack("stamp", "hello-mpi.tar.gz", "--sign-key", "prod.key").code == 0
    FILE.symlink_to(FILE.rename("real.json"))
    done = mlpack("verify", "hello-mpi.tar.gz", "--require-stamp", "MLPACK_FILES_SEALED", "--key", "prod.pub")
    assert (done.code, done.stdout) == (0, "")
