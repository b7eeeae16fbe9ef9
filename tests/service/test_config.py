from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import MlpackError, UsageError
from packager.service import config, projects

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("listn: x", "unknown field `listn`"),
        ("pod_security: none", "Invalid enum value 'none'"),
        ("namespace: A", "Expected `str` matching regex"),
        ("storage_classes: [a]", "Expected `object`, got `array`"),
        ("- a", "Expected `object`, got `array`"),
        ("a: [", "is not valid"),
    ],
)
def test_a_faulty_configuration_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "server.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MlpackError) as raised:
        config.read(path)
    assert message in str(raised.value)


def test_a_configuration_is_read(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    text = "namespace: ml\npod_security: baseline\nnode_selectors: {a=b: {c: d}}\nstorage_classes: {x: y}\n"
    path.write_text(text, encoding="utf-8")
    settings = config.read(path)
    assert (settings.namespace, settings.pod_security, settings.listen) == ("ml", "baseline", "127.0.0.1:8080")
    assert settings.node_selectors == {"a=b": {"c": "d"}}


def test_where_callbacks_may_go_is_checked_entry_by_entry(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("url: train\ncallbacks:\n  allow: [a.example, 10.0.0.1/8, 10.0.0.0/8, '*']\n", encoding="utf-8")
    with pytest.raises(MlpackError, match="is not valid") as raised:
        config.read(path)
    assert [(problem.line, problem.column, problem.message) for problem in raised.value.problems] == [
        (1, 6, "expected an address such as https://train.example.com, found 'train'"),
        (3, 22, "expected a host, an address or a network such as 10.1.0.0/16, found '10.0.0.1/8'"),
        (3, 46, "expected a host, an address or a network such as 10.1.0.0/16, found '*'"),
    ]
    path.write_text("callbacks: {allow: [a.example], signing_secret_file: s}\n", encoding="utf-8")
    settings = config.read(path)
    assert (settings.callbacks.allow, settings.public_url) == (["a.example"], "http://127.0.0.1:8080")


def test_how_long_things_are_kept_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("retention: {jobs: soon, logs: 0d}\n", encoding="utf-8")
    with pytest.raises(MlpackError, match="is not valid") as raised:
        config.read(path)
    expected = "expected a duration such as 90s, 10m, 12h or 30d, found"
    assert [(problem.column, problem.message) for problem in raised.value.problems] == [
        (19, f"{expected} 'soon'"),
        (31, f"{expected} '0d'"),
    ]
    path.write_text("retention: {jobs: 90d}\n", encoding="utf-8")
    settings = config.read(path)
    assert (settings.retention.jobs, settings.retention.logs) == ("90d", "30d")


@pytest.mark.parametrize(
    ("listen", "address"), [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:8080", ("::1", 8080)), ("h:0", ("h", 0))]
)
def test_addresses(listen: str, address: tuple[str, int]) -> None:
    assert config.address(listen) == address


@pytest.mark.parametrize("listen", ["", "80", ":80", "h:", "h:x", "h:70000", "http://h:80"])
def test_faulty_addresses(listen: str) -> None:
    with pytest.raises(MlpackError, match="expected HOST:PORT"):
        config.address(listen)


def test_projects_take_what_they_leave_open_from_the_server(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(
        "namespace: ml\npod_security: baseline\n"
        "projects:\n  a: {max_running: 8, queue: q}\n  b: {namespace: other, pod_security: privileged}\n",
        encoding="utf-8",
    )
    known = projects.of_settings(config.read(file), "of-kubeconfig")
    assert [(project.name, project.namespace, project.level.value) for project in known.values()] == [
        ("a", "ml", "baseline"),
        ("b", "other", "privileged"),
    ]
    assert known["a"].limits.running == 8
    assert known["a"].own_limits.running is None  # Kueue decides
    assert projects.least_strict(known.values()).value == "privileged"
    alone = projects.of_settings(config.ServerConfig(), "of-kubeconfig")
    assert [(project.name, project.namespace) for project in alone.values()] == [("default", "of-kubeconfig")]


@pytest.mark.parametrize("text", ["projects: {A: {}}", "projects: {a: {max_gpus: -1}}", "projects: {a: {more: 1}}"])
def test_a_faulty_project_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="projects"):
        config.read(file)


def test_an_issuer_is_checked_when_the_configuration_is_read(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    text = (
        "projects: {research: {}}\n"
        "oidc:\n  issuer: http://sso.example.com\n  audience: mlpack\n"
        "  roles: {a: admin, b: {reserch: user, research: viewer}}\n"
    )
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MlpackError) as error:
        config.read(path)
    assert [str(problem).removeprefix(f"{path}:") for problem in error.value.problems] == [
        "3:11: expected an address with https, such as https://sso.example.com, found 'http://sso.example.com'",
        "5:25: project 'reserch' not found (did you mean 'research'?)",
    ]
    path.write_text(text.replace("http:", "https:").replace("reserch", "research-2"), encoding="utf-8")
    with pytest.raises(MlpackError, match="is not valid"):
        config.read(path)
    path.write_text(text.replace("http:", "https:").replace("reserch: user, ", ""), encoding="utf-8")
    assert config.read(path).oidc
    path.write_text(text.replace("admin", "king"), encoding="utf-8")
    with pytest.raises(MlpackError, match="king"):
        config.read(path)


def test_what_the_page_needs_to_sign_people_in_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    text = "oidc:\n  issuer: https://sso.example.com\n  audience: mlpack\n  roles: {a: admin}\n"
    path.write_text(f"{text}  client_id: page\n  scopes: [profile]\n", encoding="utf-8")
    with pytest.raises(MlpackError) as error:
        config.read(path)
    assert [str(problem).removeprefix(f"{path}:") for problem in error.value.problems] == [
        "5:14: `url` is missing: the issuer leads people back to it (url: https://train.example.com)",
        "6:11: expected `openid` among them, without which no one is named",
    ]
    path.write_text(f"{text}  client_secret_file: x\n", encoding="utf-8")
    with pytest.raises(MlpackError) as error:
        config.read(path)
    assert [str(problem).removeprefix(f"{path}:") for problem in error.value.problems] == [
        "5:23: `client_id` is missing, whose secret this is"
    ]
    path.write_text(f"url: https://t.example\n{text}  client_id: page\n  scopes: [openid, 'a b']\n", encoding="utf-8")
    with pytest.raises(MlpackError, match="scopes"):
        config.read(path)
