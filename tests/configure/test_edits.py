"""Tests of known edits."""

from __future__ import annotations

from packager.configure import edits
from packager.configure.edits import Edit, EditKind

ENV = "quickstart/k8s/mlops/single-node/mlops.env"
KUSTOMIZATION = "quickstart/k8s/mlops/single-node/kustomization.yaml"
PATCH = "quickstart/k8s/mlops/single-node/pod-patch.yaml"

BEFORE = b"# steps\nSTEPS=10\n#QUEUE=batch\nNAME=a\n"


def test_values_of_env_file_are_edits() -> None:
    cases: list[tuple[bytes, list[tuple[str, str | None, str]]]] = [
        (BEFORE, []),
        (b"# steps\nSTEPS=20\n#QUEUE=batch\nNAME=a\n", [("STEPS", "10", "20")]),
        (b"# mine\nSTEPS=10\nQUEUE=mine\nNAME=a\n", [("QUEUE", None, "mine")]),
        (BEFORE + b"OWN=1\nMORE=2\n", [("OWN", None, "1"), ("MORE", None, "2")]),
        (b"\xef\xbb\xbf" + BEFORE.replace(b"\n", b"\r\n").replace(b"=10", b"=20"), [("STEPS", "10", "20")]),
        (BEFORE.replace(b"=10", b"="), [("STEPS", "10", "")]),
    ]
    for now, expected in cases:
        known = edits.read(ENV, BEFORE, now)
        assert known == tuple(Edit(ENV, EditKind.value, *values) for values in expected)
        assert edits.read(ENV, edits.replayed(BEFORE, known), now) == ()


def test_other_changes_of_env_file_are_lines() -> None:
    for now in [
        b"OWN=1\n" + BEFORE,  # mlpack adds keys at the end
        BEFORE.replace(b"STEPS", b" STEPS").replace(b"10", b"20"),
        BEFORE.replace(b"=10", b"=\xff"),
        BEFORE + b"STEPS=20\n",
        BEFORE.replace(b"STEPS=10\n", b""),
        BEFORE.replace(b"NAME=a", b"NAME=a\x1b"),
    ]:
        assert edits.read(ENV, BEFORE, now) == ()


def test_switched_option_is_edit() -> None:
    before = b"resources:\n  - pod.yaml\ncomponents:\n  - ../common/gpu\n  # - ../common/nfs\n"
    now = before.replace(b"# - ", b"- ").replace(b"- ../common/gpu", b"# - ../common/gpu") + b"  - ../mine\n"
    known = edits.read(KUSTOMIZATION, before, now)
    switched = [("gpu", "on", "off"), ("nfs", "off", "on")]
    assert [(edit.key, edit.before, edit.after) for edit in known] == [*switched, ("../mine", None, "on")]
    assert edits.replayed(before, known) == now


def test_id_is_edit_if_all_places_have_it() -> None:
    before = b"spec:\n  securityContext:\n    runAsUser: 1000\n    fsGroup: 1000\n"
    now = before.replace(b"User: 1000", b"User: 5")
    (edit,) = edits.read(PATCH, before, now)
    assert (edit.kind, edit.key, edit.before, edit.after) == (EditKind.id, "runAsUser", "1000", "5")
    assert edits.replayed(before, (edit,)) == now
    two = before + b"---\n" + before
    assert edits.read(PATCH, two, before + b"---\n" + now) == ()
    assert edits.read(PATCH, before, before.replace(b"1000", b"root")) == ()


def test_file_without_yaml_has_no_edits() -> None:
    for path in (KUSTOMIZATION, PATCH):
        assert edits.read(path, b"a: 1\n", b"a: [\n") == ()
        assert edits.read(path, b"a: 1\n", b"\xff\xfe") == ()


def test_edit_has_place_in_file_that_has_its_key() -> None:
    (edit,) = edits.read(ENV, BEFORE, BEFORE.replace(b"=10", b"=20"))
    assert edits.has_place(edit, b"STEPS=1\n")
    assert edits.has_place(edit, b"# STEPS=1\n")
    assert not edits.has_place(edit, b"STEPS_PER_RUN=1\n")
    assert edits.state(edit, b"STEPS=1\n") == "1"
    assert edits.state(edit, b"# STEPS=1\n") is None
