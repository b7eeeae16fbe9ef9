from __future__ import annotations

import pytest

from packager.base.errors import UsageError
from packager.package import kustomization

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


def test_component_is_switched_by_its_own_line() -> None:
    on = kustomization.switch(KUSTOMIZATION.encode(), "pvc", "k.yaml", on=True).decode()
    assert on == KUSTOMIZATION.replace("  # - ../../../common/x/k8s/mlops/pvc", "  - ../../../common/x/k8s/mlops/pvc")
    off = kustomization.switch(KUSTOMIZATION.encode(), "nfs", "k.yaml", on=False).decode()
    assert off == KUSTOMIZATION.replace("  - ../../../common/x/k8s/mlops/nfs", "  # - ../../../common/x/k8s/mlops/nfs")
    for name, is_on in (("pvc", True), ("nfs", False)):
        once = kustomization.switch(KUSTOMIZATION.encode(), name, "k.yaml", on=is_on)
        assert kustomization.switch(once, name, "k.yaml", on=is_on) == once
        assert kustomization.switch(once, name, "k.yaml", on=not is_on) == KUSTOMIZATION.encode()
    text = f"components:\n  - {NFS}\n  - ../other/nfs\n  - ../a\n".encode()
    after = kustomization.switch(text, "nfs", "k.yaml", on=False).decode()
    assert after == f"components:\n  # - {NFS}\n  # - ../other/nfs\n  - ../a\n"


NFS = "../common/x/k8s/mlops/nfs"


def test_only_components_are_recognized_in_every_notation() -> None:
    for text in [
        f"components: [{NFS}]\n",
        f'"components":\n  - {NFS}\n',
        f"components:\n- {NFS}/\n",
        f"components:\n  - >-\n    {NFS}\n",
        f"? components\n: - {NFS}\n",
        "components:\n  - ../some folder/nfs\n",
        f"components:\n  # - {NFS}\n  - {NFS}\n",
    ]:
        assert states(text)["nfs"]
    for text in [
        f"patches:\n  # - {NFS}\n",
        f"components:\n  - ../a\npatches:\n  # - {NFS}\n  - path: p.yaml\n",
        f"components:\n  # - a: {NFS}\n  # - - {NFS}\n  # - {NFS} b: c\n  # {NFS}\n  ## - {NFS}\n",
        f"# components:\n#  - ../a\n# resources:\n#  - {NFS}\n",
        f"x:\n  components:\n    - {NFS}\n",
        f"components:\n  nfs: {NFS}\n",
        f"- components: [{NFS}]\n",
        "",
    ]:
        assert "nfs" not in states(text)
    for path in (f"{NFS}/", f"{NFS}/../nfs", f"../x/./{NFS}//"):
        assert states(f"components: ['{path}']\n")["nfs"]


def test_list_in_another_notation_is_not_edited() -> None:
    with pytest.raises(UsageError) as error:
        kustomization.switch(f"components: [{NFS}]\n".encode(), "nfs", "k.yaml", on=False)
    assert str(error.value) == "k.yaml cannot be edited automatically"
    assert error.value.hint == f"leave out {NFS} under `components` there"
    for text in (
        f"components: &list [{NFS}]\nx: *list\n",
        f"? components\n: - {NFS}\n",
        f"components:\n  -\n    {NFS}\n",
        "components:\n  - ../a\n  - '../common/x/k8s/mlops\n    /../mlops/nfs'\n",
        f"components:\n  - &a {NFS}\nx: *a\n",
        f"{{components: [{NFS}]}}\n",
    ):
        assert states(text)["nfs"]
        with pytest.raises(UsageError) as error:
            kustomization.switch(text.encode(), "nfs", "k.yaml", on=False)
        assert str(error.value) == "k.yaml cannot be edited automatically"
    for text in ("components: [\n", "a: 1\n---\nb: 1\n", "a: 1\na: 2\n", "\x00"):
        with pytest.raises(UsageError) as error:
            kustomization.components(text.encode(errors="surrogatepass"), "k.yaml")
        assert str(error.value) == "k.yaml is not YAML"
        assert error.value.problems[0].file == "k.yaml"


def states(text: str) -> dict[str, bool]:
    return {component.name: component.on for component in kustomization.components(text.encode(), "k.yaml")}


OFF_AND_ON = [
    (f"components:\n# - {NFS}\n- ../a\n", f"components:\n- {NFS}\n- ../a\n"),
    (f"components:\n    - ../a # {NFS}\n#- {NFS} # ours", f"components:\n    - ../a # {NFS}\n    - {NFS} # ours"),
    (f"components: # some\n  #   - '{NFS}'\n", f"components: # some\n    - '{NFS}'\n"),
    (f"'components': []\n# - {NFS}\n", f"'components': \n- {NFS}\n"),
    (f"components: ~\n# - {NFS}\n", f"components: \n- {NFS}\n"),
    ("components:\n  # - ../some folder/nfs\n", "components:\n  - ../some folder/nfs\n"),
    (f"\ufeffcomponents:\n  # - {NFS}\n", f"\ufeffcomponents:\n  - {NFS}\n"),
    (f"components:\r\n  # - {NFS}\r\nx: 1\r\n", f"components:\r\n  - {NFS}\r\nx: 1\r\n"),
    (f"x: ☂ 🌂\ncomponents:\n  # 🌂\n  # - {NFS}\n", f"x: ☂ 🌂\ncomponents:\n  # 🌂\n  - {NFS}\n"),
    (f"components:\n  # - {NFS}\n  # - {NFS}\n", f"components:\n  - {NFS}\n  # - {NFS}\n"),
]


def test_commented_component_is_switched_on_wherever_its_line_is() -> None:
    for off, on in OFF_AND_ON:
        assert states(off)["nfs"] is False
        switched = kustomization.switch(off.encode(), "nfs", "k.yaml", on=True).decode()
        assert (switched, states(switched)["nfs"]) == (on, True)
        back = kustomization.switch(on.encode(), "nfs", "k.yaml", on=False).decode()
        assert states(back)["nfs"] is False
        assert kustomization.switch(back.encode(), "nfs", "k.yaml", on=True).decode() == on


def test_patches_are_files_beside_the_kustomization() -> None:
    for text, names in (
        ("patches:\n  - path: p.yaml\n", ("p.yaml",)),
        ("'patches': [{'path': ./p.yaml}, {path: p.yaml}]\n", ("p.yaml",)),
        ("patches: [{path: ../p.yaml}, {path: a/b.yaml}, {patch: 'a: 1'}, {path: [1]}, p.yaml, {path: .}]\n", ()),
        ("patchesStrategicMerge:\n  - p.yaml\n  - |\n    a: 1\n", ("p.yaml",)),
        ("patches: {path: p.yaml}\n", ()),
    ):
        assert kustomization.patches(text.encode()) == names


def test_add_lists_component_once_and_keeps_other_lines() -> None:
    for text, expected in [
        (KUSTOMIZATION, KUSTOMIZATION.replace("nfs # ours\n", "nfs # ours\n  - ../../../site/a\n")),
        ("components:\n  # - ../b\npatches: []\n", "components:\n  # - ../b\n  - ../../../site/a\npatches: []\n"),
        ("patches: []\n", "components:\n  - ../../../site/a\npatches: []\n"),
        ("components:\n- ../b", "components:\n- ../b\n- ../../../site/a"),
    ]:
        added = kustomization.add(text.encode(), "../../../site/a")
        assert added.decode() == expected
        assert kustomization.add(added, "../../../site/a") == added
    for text in ("components: [../b]\n", "- a\n"):
        with pytest.raises(UsageError, match="cannot be edited automatically") as refused:
            kustomization.add(text.encode(), "../../../site/a")
        assert refused.value.hint == "list ../../../site/a under `components` there"
