from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import MlpackError, UsageError
from packager.service import config_file
from packager.service.access import permissions
from packager.service.config import ServerConfig

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("project: {}", "1:1: unknown key 'project' (did you mean 'projects'?)"),
        ("pod_security: none", "1:15: expected baseline, privileged or restricted, found 'none'"),
        ("- a", "1:1: expected a mapping, found a list"),
        ("retention: {jobs: soon}", "1:19: expected a duration such as 90s, 1h30m or 7d, found 'soon'"),
        ("retention: {logs: 0d}", "1:19: expected a duration such as 90s, 1h30m or 7d, found '0d'"),
        (
            "oidc: {issuer: 'https://a.example', audience: a, roles: {b: {defaul: user}}}",
            "1:62: project 'defaul' not found (did you mean 'default'?)",
        ),
        ("url: https://t.example//evil", "1:6: expected an address such as https://train.example.com, found "),
        ("url: https://t.example/a?b", "1:6: expected an address such as https://train.example.com, found "),
        ("a: [", "2:1: not valid YAML: did not find expected node content while parsing a flow node"),
    ],
)
def test_faulty_configuration_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    [found] = problems_of(tmp_path, text + "\n")
    assert found.startswith(problem)


def test_read_reports_all_problems_of_a_configuration(tmp_path: Path) -> None:
    text = (
        "listen: 0.0.0.0:x\n"
        "name: a\nname: b\n"
        "url: 5\n"
        "projects: {research: {max_runing: 1, max_gpus: -1}}\n"
        "oidc:\n"
        "  issuer: http://sso.example.com\n"
        "  audience: mlpack\n"
        "  roles: {a: king, b: {reserch: user, research: admn}}\n"
        "  client_id: page\n"
        "retention: {logs: soon}\n"
    )
    assert problems_of(tmp_path, text) == [
        "1:9: expected HOST:PORT, such as 127.0.0.1:8080, found '0.0.0.0:x'",
        "3:1: duplicate key 'name' (keep one of them)",
        "4:6: expected an address such as https://train.example.com, found the number 5",
        "5:23: unknown key 'max_runing' (did you mean 'max_running'?)",
        "5:48: expected at least 0, found the number -1",
        "7:11: expected an address with https, such as https://sso.example.com, found 'http://sso.example.com'",
        "9:14: expected 'admin', 'developer', 'user' or 'viewer' or a mapping, found 'king'",
        "9:24: project 'reserch' not found (did you mean 'research'?)",
        "9:49: expected admin, developer, user or viewer, found 'admn' (did you mean 'admin'?)",
        "11:19: expected a duration such as 90s, 1h30m or 7d, found 'soon'",
    ]
    assert problems_of(tmp_path, "oidc: {issuer: https://sso.example.com}\n") == [
        "1:7: the key 'audience' is missing (the claim `aud` of the tokens)",
        "1:7: the key 'roles' is missing (the role of each group)",
    ]


def problems_of(tmp_path: Path, text: str) -> list[str]:
    """Return the problems of a configuration with the content `text`, without the path."""
    path = tmp_path / "server.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="is not valid") as raised:
        config_file.read(path)
    return [str(problem).removeprefix(f"{path}:") for problem in raised.value.problems]


def test_allow_reports_each_faulty_entry_and_applies_to_projects(tmp_path: Path) -> None:
    words = (
        "pod.spec.hostAliazes, pod.spec.tolerations, Pod.spec.x, jobsets.spec.x, lable:team, 'label:a b', Secrets, "
        "Service, 'resource:nic', 'service.spec.ports[].nodePort', 'jobset.spec.replicatedJobs[].template.metadata', "
        "'variable:X'"
    )
    expected = (
        "expected a field such as pod.spec.hostname, label:KEY, annotation:KEY, resource:NAME, Secret or ServiceAccount"
    )
    assert problems_of(tmp_path, f"allow: [{words}]\nprojects: {{a: {{allow: [pod.spec.x]}}}}\n") == [
        "1:9: Pod has no field 'spec.hostAliazes': unknown field 'hostAliazes' (did you mean 'hostAliases'?)",
        "1:53: a task creates no 'Pod' (did you mean 'pod'?)",
        "1:65: a task creates no 'jobsets' (did you mean 'jobset'?)",
        f"1:81: {expected}, found 'lable:team' (did you mean 'label'?)",
        "1:93: 'a b' is not the name of a label",
        f"1:106: {expected}, found 'Secrets' (did you mean 'Secret'?)",
        f"1:115: {expected}, found 'Service' (did you mean 'ServiceAccount'?)",
        "1:124: 'nic' is not the name of a resource",
        f"1:223: {expected}, found 'variable:X'",
        "2:24: Pod has no field 'spec.x': unknown field 'x'",
    ]
    path = tmp_path / "server.yaml"
    path.write_text("allow: [Secret]\nprojects: {a: {namespace: a, allow: ['label:team']}, b: {}}\n", encoding="utf-8")
    known = permissions.of_settings(config_file.read(path), "jobs")
    assert {name: project.allowed for name, project in known.items()} == {
        "a": {"Secret", "label:team"},
        "b": {"Secret"},
    }


def test_callbacks_settings_report_each_faulty_host_and_port(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("callbacks:\n  allow: [a.example, 10.0.0.1/8, 10.0.0.0/8, '*']\n", encoding="utf-8")
    with pytest.raises(MlpackError, match="is not valid") as raised:
        config_file.read(path)
    assert [(problem.line, problem.column, problem.message) for problem in raised.value.problems] == [
        (2, 22, "expected a host, an address or a network such as 10.1.0.0/16, found '10.0.0.1/8'"),
        (2, 46, "expected a host, an address or a network such as 10.1.0.0/16, found '*'"),
    ]
    path.write_text("callbacks: {allow: [a.example], signing_secret_file: s}\n", encoding="utf-8")
    settings = config_file.read(path)
    assert (settings.callbacks.allow, settings.public_url) == (["a.example"], "http://127.0.0.1:8080")


def test_projects_inherit_missing_settings_from_the_server(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(
        "namespace: ml\npod_security: baseline\n"
        "projects:\n  a: {max_running: 8, queue: q}\n  b: {namespace: other, pod_security: privileged}\n",
        encoding="utf-8",
    )
    known = permissions.of_settings(config_file.read(file), "of-kubeconfig")
    assert [(project.name, project.namespace, project.level.value) for project in known.values()] == [
        ("a", "ml", "baseline"),
        ("b", "other", "privileged"),
    ]
    assert known["a"].limits.running == 8
    assert known["a"].own_limits.running is None  # Kueue decides
    assert permissions.least_strict(known.values()).value == "privileged"
    alone = permissions.of_settings(ServerConfig(), "of-kubeconfig")
    assert [(project.name, project.namespace) for project in alone.values()] == [("default", "of-kubeconfig")]


def test_projects_in_the_namespace_of_the_kubeconfig_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("projects: {a: {}, b: {namespace: ml}}\n", encoding="utf-8")
    settings = config_file.read(file)
    assert permissions.of_settings(settings, "jobs").keys() == {"a", "b"}
    with pytest.raises(UsageError, match="the project b shares the namespace ml with a"):
        permissions.of_settings(settings, "ml")


def test_sign_in_settings_require_url_and_scopes(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    text = "oidc:\n  issuer: https://sso.example.com\n  audience: mlpack\n  roles: {a: admin}\n"
    path.write_text(f"{text}  client_id: page\n  scopes: [profile]\n", encoding="utf-8")
    with pytest.raises(MlpackError) as error:
        config_file.read(path)
    assert [str(problem).removeprefix(f"{path}:") for problem in error.value.problems] == [
        "5:14: `url` is missing: the issuer leads people back to it (url: https://train.example.com)",
    ]
    text = f"url: https://t.example\n{text}  client_id: page\n  scopes: [openid, 'a b']\n"
    assert problems_of(tmp_path, text) == ["7:20: expected a scope without spaces, found 'a b'"]
