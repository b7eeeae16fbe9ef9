"""Tests of the merge of one file, by lines and with known edits."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from packager.configure import merge
from packager.configure.merge import Choice, Conflict, Merged, Versions
from packager.package import kustomization

FOLDER = "quickstart/k8s/mlops/single-node"
ENV, KUSTOMIZATION, PATCH = (f"{FOLDER}/{name}" for name in ("mlops.env", "kustomization.yaml", "pod-patch.yaml"))

BASE = b"# The registry.\nREGISTRY=localhost\n# Steps.\nSTEPS=10\n# A queue:\n#QUEUE=batch\n"
NEWER = (
    BASE.replace(b"# Steps.", b"# New.\nBATCH=1\n# How many steps.")
    .replace(b"registry", b"host")
    .replace(b"A queue", b"Queue")
)


def merged(path: str, base: bytes, yours: bytes, theirs: bytes, choice: Choice | None = None) -> Merged:
    return merge.merged(path, Versions(base, yours, theirs), choice)


def test_values_beside_reworded_comments_do_not_conflict() -> None:
    def edited(text: bytes) -> bytes:
        text = text.replace(b"=localhost", b"=example.com").replace(b"=10", b"=20")
        return text.replace(b"#QUEUE=batch", b"QUEUE=mine") + b"OWN=1\n"

    assert merged(ENV, BASE, edited(BASE), NEWER) == Merged(edited(NEWER))


def test_switches_and_ids_beside_reworded_comments_do_not_conflict() -> None:
    base = b"components:\n  # GPUs.\n  # - ../common/gpu\n  # Storage.\n  - ../common/nfs\n"
    yours = base.replace(b"# - ../common/gpu", b"- ../common/gpu").replace(b"- ../common/nfs", b"# - ../common/nfs")
    result = merged(KUSTOMIZATION, base, yours, base.replace(b"GPUs", b"Accelerators").replace(b"Storage", b"Disks"))
    assert result.conflicts == ()
    assert result.content == yours.replace(b"GPUs", b"Accelerators").replace(b"Storage", b"Disks")
    base = b"# The user.\nspec:\n  securityContext:\n    # Ids.\n    runAsUser: 1000\n    fsGroup: 1000\n"
    yours = base.replace(b"User: 1000", b"User: 5").replace(b"Group: 1000", b"Group: 6")
    result = merged(PATCH, base, yours, base.replace(b"# Ids.", b"# Numbers."))
    assert (result.conflicts, result.content) == ((), yours.replace(b"# Ids.", b"# Numbers."))


VALUE = (ENV, BASE, BASE.replace(b"=10", b"=20"), BASE.replace(b"=10", b"=15"))


def test_value_that_both_changed_conflicts_until_it_is_decided() -> None:
    result = merged(*VALUE)
    assert result.conflicts == (Conflict(ENV, 4, "STEPS=10", "STEPS=20", "STEPS=15", subject="STEPS"),)
    assert result.conflicts[0].message == "the package had STEPS=10, you have STEPS=20, the new package has STEPS=15"
    assert merged(*VALUE, choice=Choice.yours).content == VALUE[2]
    assert merged(*VALUE, choice=Choice.theirs) == Merged(VALUE[3], result.conflicts)
    assert merged(ENV, BASE, VALUE[2], VALUE[2]).conflicts == ()


def test_value_of_removed_key_conflicts() -> None:
    for lost in [b"# Steps.\nSTEPS=10\n", b"STEPS=10\n"]:
        theirs = BASE.replace(lost, b"")
        [conflict] = merged(ENV, BASE, VALUE[2], theirs).conflicts
        assert conflict.message == "the package had STEPS=10, you have STEPS=20, the new package has no STEPS"
        assert b"STEPS=20\n" in merged(ENV, BASE, VALUE[2], theirs, choice=Choice.yours).content
        assert merged(ENV, BASE, VALUE[2], theirs, choice=Choice.theirs).content == theirs


def test_option_that_new_package_lacks_conflicts() -> None:
    base = b"components:\n  # - ../common/gpu\n  - ../common/site\n"
    yours, theirs = base.replace(b"# - ../common/gpu", b"- ../common/gpu"), b"components:\n  - ../common/site\n"
    result = merged(KUSTOMIZATION, base, yours, theirs)
    assert [(conflict.line, conflict.theirs) for conflict in result.conflicts] == [(2, None)]
    assert merged(KUSTOMIZATION, base, yours, theirs, choice=Choice.theirs).content == theirs


def test_lines_that_both_changed_conflict() -> None:
    base = b"a: 1\nb: 2\nc: 3\n"
    yours, theirs = base.replace(b"2", b"20"), base.replace(b"2", b"200")
    result = merged(f"{FOLDER}/pod.yaml", base, yours, theirs)
    assert [conflict.line for conflict in result.conflicts] == [2]
    assert result.conflicts[0].message == "the package had b: 2, you have b: 20, the new package has b: 200"
    assert merged(f"{FOLDER}/pod.yaml", base, yours, theirs, Choice.yours).content == yours
    assert merged(f"{FOLDER}/pod.yaml", base, yours, theirs, Choice.theirs).content == theirs


def test_conflict_masks_secrets() -> None:
    base, yours, theirs = (BASE + f"HF_TOKEN={value}\n".encode() for value in ("one", "two", "three"))
    [conflict] = merged(ENV, base, yours, theirs).conflicts
    assert conflict.message == "the package had HF_TOKEN=***, you have HF_TOKEN=***, the new package has HF_TOKEN=***"


TEXTS = some.lists(some.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\n", b"e"]), max_size=12).map(b"".join)


@given(TEXTS, TEXTS)
def test_version_that_one_side_changed_is_result(base: bytes, other: bytes) -> None:
    for versions in ((base, other, base), (base, base, other), (base, other, other)):
        assert merged("notes.yaml", *versions) == Merged(other)


@given(TEXTS, TEXTS, TEXTS)
def test_choice_takes_each_conflict_of_one_side(base: bytes, yours: bytes, theirs: bytes) -> None:
    ours = merged("notes.yaml", base, yours, theirs, Choice.yours)
    assert ours.content == merged("notes.yaml", base, theirs, yours, Choice.theirs).content
    assert merged("notes.yaml", base, yours, theirs).content == ours.content


def test_changes_of_adjacent_lines_conflict() -> None:
    assert merged("notes.yaml", b"a\nb\n", b"A\nb\n", b"a\nB\n").conflicts
    assert merged("notes.yaml", b"a\n-\nb\n", b"A\n-\nb\n", b"a\n-\nB\n") == Merged(b"A\n-\nB\n")


def test_texts_that_would_take_long_are_not_compared() -> None:
    assert Versions(b"a\n" * 900, b"a\n" * 900, b"a\n" * 900).are_mergeable
    assert not Versions(b"a\n" * 900, b"a\n", b"a\n" * 9_000).are_mergeable
    assert not Versions(b"a\n", b"a\0\n", b"a\n").are_mergeable


OPTIONS = ("first", "second", "third", "last")
LISTED = "resources: [pod.yaml]\ncomponents:\n" + "".join(f"  # - ../common/{name} # {name}\n" for name in OPTIONS)


@pytest.mark.parametrize("before", OPTIONS)
def test_own_components_are_kept_beside_one_option_more(before: str) -> None:
    def listed(text: bytes) -> list[str]:
        return [component.path for component in kustomization.components(text, KUSTOMIZATION) if component.on]

    new = LISTED.replace(f"  # - ../common/{before} ", f"  # - ../common/newer # newer\n  # - ../common/{before} ")
    for order in permutations(["own", "first", "third"]):
        yours = LISTED.encode()
        for name in order:
            if name == "own":
                yours = kustomization.add(yours, "../site/own", KUSTOMIZATION)
            else:
                yours = kustomization.switch(yours, name, KUSTOMIZATION, on=True)
        result = merged(KUSTOMIZATION, LISTED.encode(), yours, new.encode())
        assert (result.conflicts, listed(result.content)) == ((), listed(yours))


VALUES = b"# The first.\nA=1\n\n# The second.\nB=2\n"


@pytest.mark.parametrize("own", [b"OWN=x\n", b"\n# mine\n\nOWN=x\n# end\n"])
def test_added_variables_are_kept_with_their_comments_below_new_ones(own: bytes) -> None:
    new = VALUES + b"\n# The third.\nSEED=1\n"
    result = merged(ENV, VALUES, VALUES.replace(b"A=1", b"A=5") + own, new)
    assert result == Merged(new.replace(b"A=1", b"A=5") + own)
    assert merged(ENV, VALUES, VALUES + b"\n# mine\nSEED=7\n", new).conflicts != ()
