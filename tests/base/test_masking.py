"""Values that may be secrets are shown nowhere."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from packager.base.masking import is_secret, masked, masked_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome


def test_only_values_of_secret_keys_are_masked() -> None:
    names = "HF_TOKEN hfToken AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID DBPASSWORD DB_PASS "
    for key in (names + "KEY MYSQL_PWD apiKey GOOGLE_APPLICATION_CREDENTIALS ssh-key token.json").split():
        assert is_secret(key)
        assert masked(key, "abc") == "***"
        assert masked(key, "") == ""
    for key in ("MAX_TOKENS", "TOKENIZER", "MONKEY", "PIN_MEMORY", "PULL_SECRET", "KEY_00"):
        assert not is_secret(key)
        assert masked(key, "abc") == "abc"
    assert masked("DATA", "https://me:pw@host/x@y and s3://host/a:b") == "https://***@host/x@y and s3://host/a:b"


def test_line_of_an_env_file_is_masked() -> None:
    for line, shown in [
        ("HF_TOKEN=a=b", "HF_TOKEN=***"),
        ("# HF_TOKEN=a", "# HF_TOKEN=***"),
        ("  HF_TOKEN=", "  HF_TOKEN="),
        ("runAsUser: 1000", "runAsUser: 1000"),
        ("A=1", "A=1"),
    ]:
        assert masked_line(line) == shown
    assert masked_line("SECRET=team", is_site=True) == "SECRET=team"
    assert masked_line("SECRET=team") == "SECRET=***"
    assert masked_line("HF_TOKEN=a", is_site=True) == "HF_TOKEN=***"


def test_configure_shows_no_secret(mlpack: Callable[..., Outcome], hello_mpi: Path, tmp_path: Path) -> None:
    package = shutil.copytree(hello_mpi, tmp_path / "hello-mpi")
    for option, value in (("--add", "first-value"), ("--set", "second-value")):
        for more in (("--dry-run",), ()):
            done = mlpack("configure", package, option, f"HF_TOKEN={value}", *more)
            assert done.code == 0
            assert "HF_TOKEN=***" in done.stderr
            assert "-value" not in done.stdout + done.stderr
    text = (package / "quickstart/k8s/mlops/multi-node/mlops.env").read_text(encoding="utf-8")
    assert "HF_TOKEN=second-value\n" in text


def test_verify_shows_no_secret(mlpack: Callable[..., Outcome], hello_mpi: Path, tmp_path: Path, kubectl: Path) -> None:
    package = shutil.copytree(hello_mpi, tmp_path / "hello-mpi")
    assert mlpack("configure", package, "--add", "HF_TOKEN=its-value").code == 0
    done = mlpack("verify", package, "--kubectl", kubectl, "--allow", "variable:HF_TOKEN", "-v", "-o", "json")
    assert done.code == 0
    assert "HF_TOKEN=***" in done.stdout + done.stderr
    assert "its-value" not in done.stdout + done.stderr
