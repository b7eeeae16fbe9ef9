"""Finding a model: by path, name or alias, in the user's folders before the bundled one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import SpecError, UsageError
from packager.modelspec import catalog
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    demo.write(tmp_path / "specs" / "demo", demo.changed("aliases: [trial]"))
    demo.write(tmp_path / "specs" / "elsewhere", demo.changed("name: demo => name: other"))
    demo.write(tmp_path / "specs" / "broken", "name: [")
    demo.write(tmp_path / "specs" / "listed", "- name\n")
    (tmp_path / "specs" / "empty").mkdir()
    (tmp_path / "specs" / "README.md").write_text("")
    return tmp_path / "specs"


def test_find_returns_spec_by_name_alias_or_path_of_its_folder(folder: Path) -> None:
    for model, folder_name in (("demo", "demo"), ("trial", "demo"), ("other", "elsewhere")):
        assert catalog.find(model, [folder]) == folder / folder_name / "spec.yaml"
    assert catalog.find(f"{folder}/elsewhere", []) == folder / "elsewhere" / "spec.yaml"


def test_second_model_of_a_folder_is_found_by_its_name_and_listed_after_the_first(folder: Path) -> None:
    second = folder / "demo" / "more.spec.yaml"
    second.write_text(demo.changed("name: demo => name: more"), encoding="utf-8")
    (folder / "demo" / "more.yaml").write_text("", encoding="utf-8")
    assert catalog.find("more", [folder]) == second
    listed = [path for path in catalog.specs([folder, folder]) if path.parent.name == "demo"]
    assert listed == [folder / "demo" / "spec.yaml", second]


def test_groups_of_a_folder_without_the_file_are_empty(folder: Path) -> None:
    assert catalog.groups(folder) == []


def test_every_bundled_model_is_in_one_group() -> None:
    grouped = [name for group in catalog.groups(catalog.bundled()) for name in group.models]
    assert sorted(grouped) == sorted({path.parent.name for path in catalog.specs([catalog.bundled()])})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("groups: {title: A}\n", "expected a list, found a mapping"),
        ("groups: [\n", "groups.yaml:2:1: "),
        ("groups: []\ngroups: []\n", "duplicate key 'groups'"),
    ],
)
def test_wrong_groups_are_refused_with_file_and_cause(folder: Path, text: str, problem: str) -> None:
    (folder / "groups.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as raised:
        catalog.groups(folder)
    assert str(raised.value) == f"{folder}/groups.yaml is not a valid list of groups"
    assert problem in str(raised.value.problems[0])


def test_find_accepts_path_of_a_spec_or_its_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, expected in (
        ("./x", "x"),
        ("a/b.yaml", "a/b.yaml"),
        ("b.yaml", "b.yaml"),
        ("b.yml", "b.yml"),
        (".", "spec.yaml"),
    ):
        monkeypatch.chdir(folder / "demo")
        assert catalog.find(path, [folder]) == Path(expected)


def test_find_refuses_unknown_model_with_a_hint(folder: Path) -> None:
    for model, hint in (
        ("dmo", "did you mean 'demo'?"),
        ("trail", "did you mean 'trial'?"),
        ("zzz", "`mlpack list` shows the models"),
    ):
        with pytest.raises(UsageError, match=f"model '{model}' not found") as refused:
            catalog.find(model, [folder])
        assert refused.value.hint == hint


def test_find_suggests_a_slash_for_a_folder_of_that_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(UsageError, match=r"model 'elsewhere' not found; write a path with a slash: \./elsewhere"):
        catalog.find("elsewhere", [folder])


def test_find_prefers_first_folder_with_the_name(folder: Path, tmp_path: Path) -> None:
    mine = demo.write(tmp_path / "mine" / "demo")
    assert catalog.find("demo", [tmp_path / "mine", folder]) == mine
    with pytest.raises(UsageError):  # an alias of the one that is hidden
        catalog.find("trial", [tmp_path / "mine", folder])


def test_specs_refuse_unlistable_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent: no such file or directory"):
        list(catalog.specs([tmp_path / "absent"]))


def test_lint_warns_about_secrets_in_environment(tmp_path: Path, mlpack: Callable[..., Outcome]) -> None:
    lines = "environment: {AWS_SECRET_ACCESS_KEY: abc, STEPS: 20, HF_TOKEN: '', MAX_TOKENS: 5, TOKEN: 7}"
    variant = "script: train.sh => script: train.sh, environment: {DB_PASSWORD: {value: geheim}}"
    path = demo.write(tmp_path / "demo", demo.changed(variant, lines))
    done = mlpack("lint", path)
    warning = "and anyone who has the package can read its value (list it under `secrets`)"
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr.splitlines()[1:] == [
        f"warning: {path}:11:15: AWS_SECRET_ACCESS_KEY seems to be secret, {warning}",
        f"warning: {path}:10:71: DB_PASSWORD seems to be secret, {warning}",
    ]
    answer = mlpack("lint", path, "-o", "json")
    assert [entry["line"] for entry in answer.json["warnings"]] == [11, 10]
    assert "abc" not in done.stderr + answer.stdout
    assert "geheim" not in done.stderr + answer.stdout
