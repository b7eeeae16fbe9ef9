"""Tests of `mlpack serve`: its commands for tokens and databases, its configuration, and a running server."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from packager.service.store import migration
from packager.service.store.store import Store
from tests.conftest import Mlpack

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none, user: none, namespace: jobs}}]
clusters: [{name: none, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: none, user: {}}]
"""


def test_serve_token_check_migrate_and_backup_use_database(mlpack: Mlpack, tmp_path: Path) -> None:
    done = mlpack("serve", "token", "ada", "--role", "admin", "--database", tmp_path / "s.db")
    assert done.code == 0
    assert done.stdout.startswith("mlp_")
    assert mlpack("serve", "check", "--database", tmp_path / "s.db").stdout == f"{tmp_path}/s.db: ok, 0 jobs\n"
    assert mlpack("serve", "migrate", "--database", tmp_path / "s.db").stdout == f"{tmp_path}/s.db: up to date\n"
    assert mlpack("serve", "backup", tmp_path / "b.db", "--database", tmp_path / "s.db").code == 0
    again = mlpack("serve", "backup", tmp_path / "b.db", "--database", tmp_path / "s.db")
    assert (again.code, again.stderr) == (6, f"error: {tmp_path}/b.db cannot be written: file exists\n")


def test_database_option_precedes_environment_and_configuration(
    mlpack: Mlpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server.yaml").write_text(f"database: {tmp_path}/file.db\n", encoding="utf-8")
    check = ("serve", "check", "--config", tmp_path / "server.yaml")
    assert mlpack(*check).stdout == f"{tmp_path}/file.db: ok, 0 jobs\n"
    monkeypatch.setenv("MLPACK_DATABASE", f"{tmp_path}/variable.db")
    assert mlpack(*check).stdout == f"{tmp_path}/variable.db: ok, 0 jobs\n"
    assert mlpack(*check, "--database", tmp_path / "option.db").stdout == f"{tmp_path}/option.db: ok, 0 jobs\n"
    assert "variable.db" not in mlpack("serve", "manifests").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--insecure-no-auth", "--listen", "0.0.0.0:80"),
            "--insecure-no-auth needs a loopback address, found 0.0.0.0:80",
        ),
        (("--demo", "--listen", "0.0.0.0:80"), "--demo needs a loopback address, found 0.0.0.0:80"),
        (("--demo", "--database", "x"), "--demo has a configuration and a database of its own"),
        (("--listen", "x"), "invalid address 'x': expected HOST:PORT"),
        (("--listen", "x:1", "token", "ada"), "options of `mlpack serve` come after token"),
        (("token", "ada", "--project", "x"), "project 'x' not found: the configuration has default"),
        (("check", "--database", "mysql://x/y"), "invalid database mysql://…: expected a path or postgresql://…"),
    ],
)
def test_serve_refuses_invalid_arguments(mlpack: Mlpack, arguments: tuple[str, ...], message: str) -> None:
    done = mlpack("serve", *arguments)
    assert done.code == 2
    assert message in done.stderr


def test_serve_check_reports_a_system_that_cannot_confine_templates(
    mlpack: Mlpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = '{"lacking": ["Plan9 has no filter of system calls"]}'
    answer = f"import sys; sys.stdin.readline(); print({lacking!r}, flush=True)"
    monkeypatch.setattr("packager.service.registry.rendering._SANDBOX", (sys.executable, "-c", answer))
    done = mlpack("serve", "check", "--database", tmp_path / "s.db")
    assert done.code == 0
    gap = "the process that fills in templates is not fully confined: Plan9 has no filter of system calls\n"
    assert gap in done.stderr


def test_serve_reports_address_in_use_before_creating_database(
    mlpack: Mlpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    config = tmp_path / "server.yaml"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        config.write_text(f"listen: {place}\n", encoding="utf-8")
        done = mlpack("serve", "--config", config, "--database", tmp_path / "s.db")
        message = f"error: the server could not listen on {place}: address already in use\n"
        assert (done.code, done.stdout, done.stderr) == (6, "", message)
    done = mlpack("serve", "--listen", "nothing.invalid:80", "--database", tmp_path / "s.db")
    assert done.code == 6
    assert done.stderr.startswith("error: the server could not listen on nothing.invalid:80: ")
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize(
    ("options", "notice", "line"),
    [
        (("--demo",), "A demonstration: the cluster is simulated", "a demonstration: the cluster is simulated"),
        pytest.param(
            ("--insecure-no-auth", "--database=s.db"),
            "The cluster does not answer",
            "no cluster is configured",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_serve_starts_without_kubeconfig(tmp_path: Path, options: tuple[str, ...], notice: str, line: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [sys.executable, "-m", "packager", "serve", f"--listen=127.0.0.1:{port}", *options]
    environment = {"KUBECONFIG": str(tmp_path / "none"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    with subprocess.Popen(argv, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert _answer(f"http://127.0.0.1:{port}/v1/templates")["items"]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/jobs", timeout=60) as page:
                assert notice in page.read().decode()
        finally:
            server.terminate()
        assert server.stderr
        errors = server.stderr.read()
    assert f"\n{line}" in f"\n{errors}"
    assert "Traceback" not in errors


def _answer(url: str) -> dict[str, list[dict[str, str]]]:
    end = time.monotonic() + 300  # a server at the lowest priority starts slowly beside a busy cluster
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - of this machine
                value: dict[str, list[dict[str, str]]] = json.load(answer)
                return value
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


@pytest.mark.parametrize("command", [("token", "ada", "--role", "admin"), ("check",)])
def test_serve_commands_keep_the_schema_of_an_older_mlpack(
    mlpack: Mlpack, tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, version = tmp_path / "s.db", migration.versions()[-1]
    Store(file).close()
    before = file.read_bytes()
    monkeypatch.setattr(migration, "versions", lambda: [version, "9999"])
    refused = mlpack("serve", *command, "--database", file)
    assert refused.code == 6
    assert f"the database has the schema {version} of an older mlpack, whose server may be running" in refused.stderr
    assert "mlpack serve migrate" in refused.stderr
    assert file.read_bytes() == before


def test_serve_migrate_refuses_the_database_of_a_running_server(mlpack: Mlpack, tmp_path: Path) -> None:
    with closing(Store(tmp_path / "s.db", is_served=True)):
        refused = mlpack("serve", "migrate", "--database", tmp_path / "s.db")
    assert (refused.code, "another server uses the database" in refused.stderr) == (6, True)
