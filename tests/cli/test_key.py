"""Tests of `mlpack key new`, of pushing with a key, and of checking signatures from the command line."""

import base64
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from packager.cli import asking
from tests import tools
from tests.conftest import Mlpack
from tests.publish.fake_registry import FakeRegistry

ROOT = Path(__file__).parents[2]
UNKNOWN = "by an unknown key"


@pytest.fixture(autouse=True)
def _tools(mlpack: Mlpack, kubectl: Path, no_logins: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    monkeypatch.setenv("KUBECTL", str(kubectl))
    for name in ("MLPACK_KEYS", "MLPACK_KEY_PASSWORD"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def pair(mlpack: Mlpack) -> str:
    """The fingerprint of the keys prod.key and prod.pub."""
    done = mlpack("key", "new", "prod", "--no-password", "-o", "json")
    assert done.code == 0
    return str(done.json["fingerprint"])


def where(registry: FakeRegistry, tag: str = ":1.0") -> str:
    return f"oci://{registry.host}/team/hello-mpi{tag}"


def mode(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def test_new_key_is_readable_by_its_owner_only(mlpack: Mlpack) -> None:
    done = mlpack("key", "new", "keys/prod", "--no-password")
    assert (done.code, done.stdout) == (0, "keys/prod.key\nkeys/prod.pub\n")
    assert "keep keys/prod.key secret: it is not encrypted; publish keys/prod.pub\n" in done.stderr
    assert (mode("keys/prod.key"), mode("keys/prod.pub") & 0o444) == (0o600, 0o444)
    assert Path("keys/prod.key").read_text().startswith("-----BEGIN PRIVATE KEY-----")
    digest = base64.b64encode(__import__("hashlib").sha256(_der(Path("keys/prod.pub"))).digest()).decode()
    assert f"ECDSA P-256 {digest}\n" in done.stderr


def _der(path: Path) -> bytes:
    argv = [tools.require("openssl"), "pkey", "-pubin", "-in", str(path), "-outform", "DER"]
    return subprocess.run(argv, check=True, capture_output=True).stdout


def test_password_of_a_new_key_comes_from_the_environment(
    mlpack: Mlpack, registry: FakeRegistry, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = mlpack("key", "new", "prod")
    assert (done.code, done.stderr) == (
        9,
        "error: prod.key needs a password, and there is no terminal to ask on\nhint: set MLPACK_KEY_PASSWORD\n",
    )
    monkeypatch.setenv("MLPACK_KEY_PASSWORD", "")
    assert mlpack("key", "new", "prod").code == 2
    assert [*Path().glob("prod*")] == []
    monkeypatch.setenv("MLPACK_KEY_PASSWORD", "s3cret-pass")
    made = mlpack("key", "new", "prod")
    assert made.code == 0
    assert Path("prod.key").read_text().startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    pushed = mlpack("push", archive, where(registry), "--no-verify", "--sign-key", "prod.key")
    assert pushed.code == 0
    monkeypatch.setenv("MLPACK_KEY_PASSWORD", "wrong-pass")
    refused = mlpack("push", archive, where(registry), "--no-verify", "--sign-key", "prod.key", "-v")
    assert (refused.code, refused.stderr) == (
        2,
        "error: prod.key: the password is wrong, or the file is damaged\n",
    )
    for text in (made.stdout, made.stderr, pushed.stdout, pushed.stderr, refused.stderr):
        assert "s3cret-pass" not in text
        assert "wrong-pass" not in text


def test_password_is_asked_for_twice(mlpack: Mlpack, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["one", "two", "three", "three"]
    monkeypatch.setattr(asking, "has_terminal", lambda: True)
    monkeypatch.setattr("getpass.getpass", lambda _question: answers.pop(0))
    done = mlpack("key", "new", "prod")
    assert (done.code, done.stdout, answers) == (0, "prod.key\nprod.pub\n", [])
    assert "Error: The two entered values do not match.\n" in done.stderr


def test_pull_requires_the_signature(mlpack: Mlpack, registry: FakeRegistry, archive: Path, pair: str) -> None:
    pushed = mlpack("push", archive, where(registry), "--sign-key", "prod.key", "--tag", "latest")
    assert pushed.code == 0
    assert f"signed by {pair}\n" in pushed.stderr
    done = mlpack("pull", where(registry), "-d", "out", "--key", "prod.pub", "-o", "json")
    assert done.code == 0
    assert done.json["signatures"] == [{"signer": "prod", "fingerprint": pair, "trusted": True, "problem": None}]
    assert f"signature by prod {pair}\n" in done.stderr
    assert mlpack("key", "new", "other", "--no-password").code == 0
    for option in (["--key", "other.pub"], ["--key", "other.pub", "--require-signature"]):
        refused = mlpack("pull", where(registry), "-d", "no", *option)
        assert refused.code == 5
        assert f"signature {UNKNOWN} {pair}: not trusted\n" in refused.stderr
        assert f"error: {where(registry)} is not signed by other\n" in refused.stderr
    assert not Path("no").exists()
    assert mlpack("pull", where(registry), "-d", "two", "--key", "other.pub", "--key", "prod.pub").code == 0
    assert mlpack("pull", where(registry), "-d", "three", "--key", "prod.pub", "--extract").code == 0


def test_unsigned_package_is_refused_only_if_a_signature_is_required(
    mlpack: Mlpack,
    registry: FakeRegistry,
    archive: Path,
    pair: str,  # noqa: ARG001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert mlpack("push", archive, where(registry)).code == 0
    assert mlpack("pull", where(registry), "-d", "out").code == 0
    refused = mlpack("pull", where(registry), "-d", "out", "--force", "--key", "prod.pub")
    assert (refused.code, "hint: its publisher signs it with `mlpack push --sign-key KEY`" in refused.stderr) == (
        5,
        True,
    )
    done = mlpack("pull", where(registry), "-d", "out", "--force", "--require-signature")
    assert (done.code, "--require-signature needs a public key to trust" in done.stderr) == (2, True)
    monkeypatch.setenv("MLPACK_KEYS", "prod.pub")
    assert mlpack("pull", where(registry), "-d", "out", "--force").code == 0
    assert mlpack("pull", where(registry), "-d", "out", "--force", "--require-signature").code == 5
    assert mlpack("push", archive, where(registry), "--sign-key", "prod.key").code == 0
    assert mlpack("pull", where(registry), "-d", "out", "--force", "--require-signature").code == 0


def test_verify_checks_the_signature_beside_an_archive(
    mlpack: Mlpack, registry: FakeRegistry, archive: Path, pair: str
) -> None:
    assert mlpack("push", archive, where(registry), "--sign-key", "prod.key").code == 0
    assert mlpack("pull", where(registry), "-d", "out").code == 0
    count = len(registry.requests)
    done = mlpack("verify", "out/hello-mpi.tar.gz", "--key", "prod.pub")
    assert (done.code, done.stdout, done.stderr) == (0, "", f"signature by prod {pair}\n")
    assert len(registry.requests) == count
    with Path("out/hello-mpi.tar.gz").open("ab") as stream:
        stream.write(b"\0")
    done = mlpack("verify", "out/hello-mpi.tar.gz", "--key", "prod.pub")
    assert done.code == 5
    assert "signature not accepted: it is of something else: expected sha256:" in done.stderr
    Path("out/hello-mpi.tar.gz.sigstore.json").unlink()
    done = mlpack("verify", "out/hello-mpi.tar.gz", "--key", "prod.pub")
    assert done.code == 5
    assert "hint: expected its signatures in out/hello-mpi.tar.gz.sigstore.json, as mlpack pull" in done.stderr
    assert mlpack("verify", "missing.tar.gz", "--key", "prod.pub").code == 2


def test_folder_cannot_have_a_signature(mlpack: Mlpack, package: Path, pair: str) -> None:  # noqa: ARG001
    done = mlpack("verify", package, "--key", "prod.pub")
    assert (done.code, "is a folder, and only archives are signed" in done.stderr) == (5, True)


def test_verbs_check_the_signature_of_a_package_in_a_registry(
    mlpack: Mlpack, registry: FakeRegistry, archive: Path, pair: str
) -> None:
    assert mlpack("push", archive, where(registry)).code == 0
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    verbs = [
        ["verify", where(registry)],
        *([verb, where(registry), "--overlay", "single-node"] for verb in ("deploy", "doctor")),
        *(["run", where(registry), "--task", "single-node"], ["upgrade", "hello-mpi", where(registry)]),
    ]
    for verb in verbs:
        done = mlpack(*verb, "--key", "prod.pub")
        assert (verb, done.code, f"{where(registry)} is not signed by prod" in done.stderr) == (verb, 5, True)
    assert mlpack("push", archive, where(registry), "--sign-key", "prod.key").code == 0
    for verb in (verbs[0], verbs[-1]):
        done = mlpack(*verb, "--key", "prod.pub")
        assert (verb, done.code, f"signature by prod {pair}\n" in done.stderr) == (verb, 0, True)


def test_tag_is_set_after_the_signatures(mlpack: Mlpack, registry: FakeRegistry, archive: Path, pair: str) -> None:  # noqa: ARG001
    assert mlpack("push", archive, where(registry), "--sign-key", "prod.key").code == 0
    puts = [
        path.rpartition("/")[2] for method, path, _ in registry.requests if method == "PUT" and "/manifests/" in path
    ]
    digest = puts[0]
    assert puts == [digest, puts[1], digest.replace(":", "-"), "1.0"]
    again = mlpack("push", archive, where(registry), "--sign-key", "prod.key")
    assert "the registry has it already: nothing was sent\n" in again.stderr


def test_missing_library_is_reported(
    mlpack: Mlpack, registry: FakeRegistry, archive: Path, pair: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pair
    assert mlpack("push", archive, where(registry), "--sign-key", "prod.key").code == 0
    monkeypatch.delitem(sys.modules, "packager.publish.keys", raising=False)
    monkeypatch.delattr("packager.publish.keys", raising=False)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    for needing in (["key", "new", "x", "--no-password"], ["pull", where(registry), "--key", "prod.pub"]):
        done = mlpack(*needing)
        assert (done.code, "its extra 'sign'" in done.stderr) == (6, True)
    assert not Path("hello-mpi.tar.gz").exists()
    assert mlpack("pull", where(registry)).code == 0


def recipe() -> str:
    """Return the shell commands of docs/publish.md that check a signature with openssl."""
    text = (ROOT / "docs/publish.md").read_text()
    match = re.search(r"```sh\n(# with openssl.*?)```", text, re.DOTALL)
    assert match is not None
    return match[1]


def test_openssl_alone_verifies_by_the_recipe(
    mlpack: Mlpack,
    registry: FakeRegistry,
    archive: Path,
    pair: str,  # noqa: ARG001
) -> None:
    assert mlpack("push", archive, where(registry), "--sign-key", "prod.key").code == 0
    assert mlpack("pull", where(registry)).code == 0
    run = ["sh", "-euc", recipe()]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "Verified OK\nhello-mpi.tar.gz: OK\n")
    with Path("hello-mpi.tar.gz").open("ab") as stream:
        stream.write(b"\0")
    assert subprocess.run(run, capture_output=True, check=False).returncode != 0
    shutil.copy(archive, "hello-mpi.tar.gz")
    Path("prod.pub").unlink()
    Path("prod.key").unlink()
    assert mlpack("key", "new", "prod", "--no-password").code == 0
    assert subprocess.run(run, capture_output=True, check=False).returncode != 0
