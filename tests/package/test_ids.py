from __future__ import annotations

import pytest

from packager.base.errors import UsageError
from packager.package import ids

PATCH = """# Wer läuft: ☂ ids
apiVersion: v1
kind: Pod
metadata: {name: x}
spec:
  securityContext: {runAsUser: 1000, "runAsGroup":   1000 , fsGroup: 1000}  # tail
  containers:
    - name: main
      securityContext:
        runAsUser: 7
"""


def test_ids_are_set_only_in_security_context_of_the_pod() -> None:
    after = ids.assign(PATCH.encode(), {"runAsUser": 5, "runAsGroup": 60000, "fsGroup": 0}, "p.yaml").decode()
    changed = '{runAsUser: 5, "runAsGroup":   60000 , fsGroup: 0}  # tail'
    assert after == PATCH.replace('{runAsUser: 1000, "runAsGroup":   1000 , fsGroup: 1000}  # tail', changed)
    after = ids.assign(PATCH.encode(), {"fsGroup": 5}, "p.yaml").decode()
    assert after == PATCH.replace("fsGroup: 1000", "fsGroup: 5")
    assert ids.read(PATCH.encode(), "p.yaml") == {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}


def test_ids_are_set_in_every_document_and_template() -> None:
    text = """spec:
  a: {template: {spec: {securityContext: {runAsUser: 1}}}}
  b: [{spec: {securityContext: {runAsUser: 2}}}]
---
spec: {securityContext: {runAsUser: '3'}}
"""
    assert ids.assign(text.encode(), {"runAsUser": 9}, "p.yaml").decode() == (
        text.replace("runAsUser: 1}", "runAsUser: 9}")
        .replace("runAsUser: 2}", "runAsUser: 9}")
        .replace("runAsUser: '3'}", "runAsUser: 9}")
    )


def test_file_with_an_alias_or_invalid_yaml_is_not_edited() -> None:
    text = b"spec: {securityContext: {runAsUser: &id 1000, runAsGroup: *id}}\n"
    with pytest.raises(UsageError) as error:
        ids.assign(text, {"runAsUser": 5}, "p.yaml")
    assert str(error.value) == "p.yaml cannot be edited automatically"
    assert error.value.hint == "set runAsUser: 5 there"
    with pytest.raises(UsageError) as error:
        ids.assign(b"a: [", {"runAsUser": 5}, "p.yaml")
    assert error.value.problems


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("spec: {securityContext: {runAsUser: }}", "spec: {securityContext: {runAsUser:  5}}"),
        ("spec:\n  securityContext:\n    runAsUser: >-\n      1\n", "spec:\n  securityContext:\n    runAsUser: 5"),
        ("spec: {securityContext: {runAsUser: !!int '1'}} # 1", "spec: {securityContext: {runAsUser: 5}} # 1"),
        (
            "a: {spec: {securityContext: &sc {runAsUser: 1}}}\nb: {spec: {securityContext: *sc}}\n",
            "a: {spec: {securityContext: &sc {runAsUser: 5}}}\nb: {spec: {securityContext: *sc}}\n",
        ),
        (
            "{}\n---\nspec: {securityContext: {runAsUser: 1}}\n...\n",
            "{}\n---\nspec: {securityContext: {runAsUser: 5}}\n...\n",
        ),
        ("🌂: ☂\nspec: {securityContext: {runAsUser: 1}}", "🌂: ☂\nspec: {securityContext: {runAsUser: 5}}"),
    ],
)
def test_ids_are_set_in_every_notation(before: str, after: str) -> None:
    for mark in ("", "\ufeff"):
        for end in ("\n", "\r\n"):
            old, new = (f"{mark}{text}".replace("\n", end).encode() for text in (before, after))
            assert ids.assign(old, {"runAsUser": 5}, "p.yaml") == new


def test_ids_are_kept_if_the_other_patch_has_none() -> None:
    for other in (b"a: [", b"", b"- 1\n", b"spec: {securityContext: [runAsUser]}\n", b"\xff"):
        assert ids.with_ids_of(PATCH.encode(), other) == PATCH.encode()


OPERATIONS = """- op: add
  path: /spec/replicatedJobs/0/template/spec/template/spec/securityContext/runAsUser
  value: &user 1000
- op: replace
  path: /spec/replicatedJobs/1/template/spec/template/spec/securityContext
  value: {runAsUser: *user, fsGroup: &group 3}
- {op: add, path: /spec/replicatedJobs/1/template/spec/template/spec/containers/0/securityContext/runAsUser, value: 7}
- {op: remove, path: /spec/securityContext/runAsUser}
"""


def test_ids_of_operations_are_set_and_copied_at_their_only_place() -> None:
    assert ids.read(OPERATIONS.encode(), "p.yaml") == {"runAsUser": 1000, "fsGroup": 3}
    after = ids.assign(OPERATIONS.encode(), {"runAsUser": 5, "fsGroup": 60000}, "p.yaml").decode()
    assert after == OPERATIONS.replace("&user 1000", "&user 5").replace("&group 3", "&group 60000")
    other = OPERATIONS.replace("&user 1000", "&user 5")
    assert ids.with_ids_of(OPERATIONS.encode(), other.encode()).decode() == other


def test_invalid_id_of_an_operation_is_reported() -> None:
    text = OPERATIONS.replace("&user 1000", "&user me")
    message = "runAsUser: expected a whole number from 0 to 2147483647, found 'me' (--uid N sets it)"
    assert [str(problem) for problem in ids.invalid_ids(text.encode(), "p.yaml")] == [f"p.yaml:3:10: {message}"]
