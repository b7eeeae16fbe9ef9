from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from packager import edits, envfile
from packager.errors import UsageError

ENV = b"""# Where things are. ROOT is yours to change.

  REGISTRY=docker.io
MESSAGE="kept as it is"  # and this
export ODD=1
EMPTY
#OFFERED=example
# NOT_A_KEY: prose
"""


def assigned(text: bytes) -> dict[str, str]:
    return {line.key: line.value for line in envfile.lines(text)}


def test_assign_changes_one_line_and_no_other_byte() -> None:
    after = edits.assign(ENV, "REGISTRY", "example.com:5000/a b", "mlops.env")
    assert after == ENV.replace(b"REGISTRY=docker.io", b"REGISTRY=example.com:5000/a b")


def test_assign_gives_a_key_without_a_value_one() -> None:
    assert edits.assign(ENV, "EMPTY", "x", "mlops.env") == ENV.replace(b"EMPTY\n", b"EMPTY=x\n")


def test_assign_takes_a_key_that_is_commented_out_into_use() -> None:
    assert edits.assign(ENV, "OFFERED", "mine", "mlops.env") == ENV.replace(b"#OFFERED=example", b"OFFERED=mine")


@pytest.mark.parametrize("text", [b"A=1", b"A=1\n"])
def test_assign_adds_a_new_key_on_a_line_of_its_own(text: bytes) -> None:
    assert edits.assign(text, "B", "2", "mlops.env") == b"A=1\nB=2\n"


def test_assign_starts_an_empty_file() -> None:
    assert edits.assign(b"", "A", "1", "mlops.env") == b"A=1\n"


def test_assign_keeps_the_line_ends_of_another_system() -> None:
    after = edits.assign(b"A=1\r\nB=2\r\n", "A", "3", "mlops.env")
    assert after == b"A=3\r\nB=2\r\n"
    assert edits.assign(after, "C", "4", "mlops.env") == b"A=3\r\nB=2\r\nC=4\r\n"


def test_assign_refuses_a_key_that_stands_there_twice() -> None:
    with pytest.raises(UsageError) as error:
        edits.assign(b"A=1\nB=2\nA=3\n", "A", "4", "mlops.env")
    assert str(error.value) == "mlops.env sets A twice, in the lines 1 and 3"


keys = st.sampled_from(["A", "B", "AB", "LONG_NAME", "_X1"])
values = st.text("aZ0 =#'\"$\\{}:é☂\t", max_size=12)
prose = st.builds(lambda text: f"# {text}".encode(), values)


@given(st.dictionaries(keys, values), st.lists(prose), keys, values)
def test_assign_says_what_it_was_told_and_leaves_the_rest(
    before: dict[str, str], comments: list[bytes], key: str, value: str
) -> None:
    lines = [*comments, *(f"{name}={said}".encode() for name, said in before.items())]
    text = b"".join(line + b"\n" for line in lines)
    after = edits.assign(text, key, value, "mlops.env")
    assert assigned(after) == {**before, key: value}
    assert edits.assign(after, key, value, "mlops.env") == after
    kept = [line for line in lines if not line.startswith(f"{key}=".encode())]
    offers = [line for line in kept if edits.offered(line, key) is not None]
    assert [line for line in kept if line not in offers] == [
        line for line in after.split(b"\n")[:-1] if line in kept and line not in offers
    ]


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


def test_ids_are_set_where_the_pod_has_them_and_nowhere_else() -> None:
    after = edits.set_ids(PATCH.encode(), {"runAsUser": 5, "runAsGroup": 60000, "fsGroup": 0}, "p.yaml").decode()
    changed = '{runAsUser: 5, "runAsGroup":   60000 , fsGroup: 0}  # tail'
    assert after == PATCH.replace('{runAsUser: 1000, "runAsGroup":   1000 , fsGroup: 1000}  # tail', changed)


def test_only_the_ids_that_are_given_are_set() -> None:
    after = edits.set_ids(PATCH.encode(), {"fsGroup": 5}, "p.yaml").decode()
    assert after == PATCH.replace("fsGroup: 1000", "fsGroup: 5")


def test_ids_are_set_in_every_document_and_template() -> None:
    text = """spec:
  a: {template: {spec: {securityContext: {runAsUser: 1}}}}
  b: [{spec: {securityContext: {runAsUser: 2}}}]
---
spec: {securityContext: {runAsUser: '3'}}
"""
    assert edits.set_ids(text.encode(), {"runAsUser": 9}, "p.yaml").decode() == (
        text.replace("runAsUser: 1}", "runAsUser: 9}")
        .replace("runAsUser: 2}", "runAsUser: 9}")
        .replace("runAsUser: '3'}", "runAsUser: 9}")
    )


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_ids_are_set_whatever_the_encoding_of_the_lines(end: str, mark: bytes) -> None:
    before = mark + PATCH.replace("\n", end).encode()
    after = edits.set_ids(before, {"fsGroup": 31}, "p.yaml")
    assert after == before.replace(b"fsGroup: 1000", b"fsGroup: 31")


def test_an_id_that_other_places_refer_to_is_left_to_a_person() -> None:
    text = b"spec: {securityContext: {runAsUser: &id 1000, runAsGroup: *id}}\n"
    with pytest.raises(UsageError) as error:
        edits.set_ids(text, {"runAsUser": 5}, "p.yaml")
    assert str(error.value) == "p.yaml is written in a way that only a person can edit"
    assert error.value.hint == "set runAsUser: 5 there"


def test_what_is_no_yaml_is_not_edited() -> None:
    with pytest.raises(UsageError) as error:
        edits.set_ids(b"a: [", {"runAsUser": 5}, "p.yaml")
    assert error.value.problems


def test_ids_are_read_as_the_pod_has_them() -> None:
    assert edits.ids(PATCH.encode(), "p.yaml") == {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}


KUSTOMIZATION = """resources:
  - ../../../common/x/k8s/mlops/base
components:
  # pvc: claims - for results
  # - ../../../common/x/k8s/mlops/pvc
  - ../../../common/x/k8s/mlops/nfs # ours
patches:
  # - path: pvc
  - path: patch.yaml
"""


def test_components_are_those_of_the_list_and_no_others() -> None:
    found = [(each.name, each.on) for each in edits.components(KUSTOMIZATION.encode())]
    assert found == [("pvc", False), ("nfs", True)]


def test_a_component_is_switched_by_its_own_line() -> None:
    on = edits.switch(KUSTOMIZATION.encode(), "pvc", on=True).decode()
    assert on == KUSTOMIZATION.replace("  # - ../../../common/x/k8s/mlops/pvc", "  - ../../../common/x/k8s/mlops/pvc")
    off = edits.switch(KUSTOMIZATION.encode(), "nfs", on=False).decode()
    assert off == KUSTOMIZATION.replace("  - ../../../common/x/k8s/mlops/nfs", "  # - ../../../common/x/k8s/mlops/nfs")


@pytest.mark.parametrize(("name", "on"), [("pvc", True), ("nfs", False)])
def test_switching_there_and_back_leaves_every_byte(name: str, on: bool) -> None:  # noqa: FBT001 - a case
    once = edits.switch(KUSTOMIZATION.encode(), name, on=on)
    assert edits.switch(once, name, on=on) == once
    assert edits.switch(once, name, on=not on) == KUSTOMIZATION.encode()


def test_a_list_that_is_commented_out_is_switched_on_with_its_first_component() -> None:
    text = b"# components:\n#   - ../a\n# patches: none\n"
    assert edits.switch(text, "a", on=True) == b"components:\n  - ../a\n# patches: none\n"
