"""Tests of the use case `packager.configure.upgrade`."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import UsageError, VerificationError
from packager.base.paths import DEFAULT_LIMITS
from packager.base.values import replace
from packager.builder.build import BuildRequest, Built, Destination, build
from packager.builder.selection import OwnComponent
from packager.configure import additions, configure, edits, upgrade
from packager.configure.assignments import Assignment
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.modelspec.catalog import bundled
from packager.package import integrity, layout, tree
from packager.package.archive import extract
from packager.package.opened import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager


OVERLAY = "quickstart/k8s/mlops/single-node"
RELEASED = sorted((Path(__file__).parents[1] / "releases/0.1.0").glob("*.tar.gz"))
ENV, POD = f"{OVERLAY}/mlops.env", f"{OVERLAY}/pod.yaml"


def newer(package: Path, folder: Path, changes: Mapping[str, bytes | None]) -> Path:
    """Write a newer build of the package: with other contents of files, or without them."""
    before = tree.read(package)
    entries = {entry.path: entry for entry in before.entries}
    for path, content in changes.items():
        if content is None:
            del entries[path]
        else:
            entries[path] = tree.Entry(path, content, len(content))
    after = replace(before, entries=tuple(entries[path] for path in sorted(entries)))
    folder.mkdir()
    tree.write(after, folder)
    return folder


def upgraded(package: Path, new: Path, *, yours: tuple[str, ...] = (), theirs: tuple[str, ...] = ()) -> dict[str, str]:
    """Upgrade a package, and return what happened to each file."""
    with upgrade.prepared(package, new, yours=yours, theirs=theirs) as prepared:
        assert prepared.problems(prepared.conflicts) == ()
        upgrade.write(prepared)
        return {file.path: str(file.action) for file in prepared.files}


def verified(kubectl: Path) -> Callable[[upgrade.PreparedUpgrade, Path], object]:
    return partial(upgrade.check, kubectl=str(kubectl))


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_mode, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def conflicts(package: Path, new: Path) -> list[str]:
    """Return the messages of the conflicts of an upgrade, which changes nothing."""
    before = files(package)
    with upgrade.prepared(package, new) as prepared:
        messages = [str(it).removeprefix(f"{package}/") for it in prepared.problems(prepared.conflicts)]
    assert files(package) == before
    return messages


def edits_of(folder: Path) -> list[edits.Edit]:
    """Return the edits of a package, all of which `mlpack configure` has made."""
    with opened(folder) as package:
        entries = {entry.path: entry for entry in tree.walk(package.folder)}
        complete, contents = additions.completed(package, entries)
        found: list[edits.Edit] = []
        for path in complete.inventory["editable"]:
            base, now = contents.get(path) or complete.sealed(path) or b"", (folder / path).read_bytes()
            found += edits.read(path, base, now)
            assert edits.replayed(base, edits.read(path, base, now)) == now
        return found


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# The table of results: the delivered version, the user's and the new one.


def test_unedited_package_becomes_new_one(package: Path, tmp_path: Path) -> None:
    new = newer(package, tmp_path / "new", {"README.md": b"new", "assets/a": b"a", "Dockerfile": None})
    assert upgraded(package, new) == {"README.md": "updated", "assets/a": "added", "Dockerfile": "removed"}
    assert files(package) == files(new)


def test_same_change_on_both_sides_does_not_conflict(package: Path, tmp_path: Path) -> None:
    new = newer(package, tmp_path / "new", {"README.md": b"new"})
    (package / "README.md").write_bytes(b"new")
    assert upgraded(package, new) == {}
    assert edits_of(package) == []


def test_edited_file_that_new_package_lacks_conflicts(package: Path, tmp_path: Path) -> None:
    path = ENV.replace("mlops.env", "pod-patch.yaml")
    new = newer(package, tmp_path / "new", {path: None})
    edit(package / path, "1000", "5")
    message = f"{path}: the package had the delivered file, you have an edited file, the new package has nothing"
    assert conflicts(package, new) == [message]
    assert upgraded(package, new, theirs=(path,)) == {path: "removed"}
    assert not (package / path).exists()


IMAGE = "mpioperator/mpi-pi"


def locked(package: Path) -> str:
    """Lock the image of an overlay, as `mlpack lock` does, and return its digest."""
    digest = f"sha256:{7:064}"
    edit(package / ENV, f"IMAGE={IMAGE}:openmpi", f"IMAGE={IMAGE}:openmpi@{digest}")
    return digest


def with_tag(package: Path, folder: Path, tag: str) -> Path:
    """Write a newer build of the package whose image has another tag."""
    return newer(
        package, folder, {ENV: (package / ENV).read_text().replace("mpi-pi:openmpi", f"mpi-pi:{tag}").encode()}
    )


def released(name: str, folder: Path) -> Path:
    """Unpack a package of an earlier release, whose image is in its manifests."""
    return unpacked(next(path for path in RELEASED if path.name == f"{name}.tar.gz"), folder)


def test_lock_of_an_image_that_did_not_change_is_kept(package: Path, tmp_path: Path) -> None:
    new = newer(package, tmp_path / "new", {POD: (package / POD).read_bytes() + b"# new\n"})
    digest = locked(package)
    assert upgraded(package, new)[ENV] == "kept"
    assert f"IMAGE={IMAGE}:openmpi@{digest}\n" in (package / ENV).read_text()


def test_lock_of_an_image_with_another_tag_conflicts(package: Path, tmp_path: Path, kubectl: Path) -> None:
    new = with_tag(package, tmp_path / "new", "intel")
    digest = locked(package)
    yours = f"IMAGE={IMAGE}:openmpi@{digest}"
    message = f"the package had IMAGE={IMAGE}:openmpi, you have {yours}, the new package has IMAGE={IMAGE}:intel"
    assert conflicts(package, new) == [f"{ENV}:8:1: {message}"]
    with upgrade.prepared(package, new, theirs=(ENV,)) as prepared:
        upgrade.write(prepared, verified(kubectl))
    assert f"IMAGE={IMAGE}:intel\n" in (package / ENV).read_text()


@pytest.mark.thorough
def test_image_that_an_earlier_release_has_in_its_kustomization_is_not_lost(
    hello_mpi: Path, tmp_path: Path, kubectl: Path
) -> None:
    package = released("hello-mpi", tmp_path)
    path = package / layout.kustomization("single-node")
    path.write_text(f"{path.read_text()}images:\n  - name: REGISTRY/{IMAGE}\n    newTag: v1\n")
    with (
        upgrade.prepared(package, hello_mpi) as prepared,
        pytest.raises(VerificationError, match="would not be valid") as refused,
    ):
        upgrade.write(prepared, verified(kubectl))
    assert layout.kustomization("single-node") in str(refused.value.problems[0])


def test_deleted_file_stays_deleted_if_it_did_not_change(package: Path, tmp_path: Path) -> None:
    new = newer(package, tmp_path / "new", {"README.md": b"new"})
    (package / "Dockerfile").unlink()
    assert upgraded(package, new) == {"README.md": "updated", "Dockerfile": "kept"}
    assert not (package / "Dockerfile").exists()


def test_deleted_file_that_changed_conflicts(package: Path, tmp_path: Path) -> None:
    new = newer(package, tmp_path / "new", {"README.md": b"new"})
    (package / "README.md").unlink()
    message = "README.md: the package had the delivered file, you have nothing, the new package has a changed file"
    assert conflicts(package, new) == [message]
    assert upgraded(package, new, theirs=(f"{package}/README.md",)) == {"README.md": "added"}


def test_own_file_and_results_are_kept(package: Path, tmp_path: Path) -> None:
    new = newer(package, tmp_path / "new", {"README.md": b"new"})
    own = {"note.txt": b"mine", "output/model": b"weights", ".git/config": b"mine"}
    for path, content in own.items():
        (package / path).parent.mkdir(exist_ok=True)
        (package / path).write_bytes(content)
    assert upgraded(package, new)["note.txt"] == "kept"
    assert {path: (package / path).read_bytes() for path in own} == own


def test_folder_of_results_stays_the_same_one_with_files_that_a_job_writes(package: Path, tmp_path: Path) -> None:
    new = newer(package, tmp_path / "new", {"README.md": b"new"})
    (package / "output/empty").mkdir(parents=True)
    (package / "output/model").write_bytes(b"weights")
    (package / ".git").mkdir()
    (package / ".git/head").symlink_to("main")
    (package / "spec.yaml").chmod(0o664)
    package.chmod(0o770)
    inode = (package / "output").stat().st_ino
    with upgrade.prepared(package, new) as prepared:
        upgrade.write(prepared, lambda *_: (package / "output/late").write_bytes(b"late"))
    assert sorted(path.name for path in (package / "output").iterdir()) == ["empty", "late", "model"]
    assert (package / "output").stat().st_ino == inode
    assert (package / ".git/head").readlink() == Path("main")
    assert (package.stat().st_mode & 0o777, (package / "spec.yaml").stat().st_mode & 0o777) == (0o770, 0o664)
    assert [path.name for path in package.parent.iterdir() if path.name.startswith(".mlpack")] == []


def test_own_file_at_path_of_new_file_conflicts(package: Path, tmp_path: Path) -> None:
    new = newer(package, tmp_path / "new", {"assets/a": b"a"})
    (package / "assets").mkdir()
    (package / "assets/a").write_bytes(b"mine")
    assert len(conflicts(package, new)) == 1
    assert upgraded(package, new, yours=("assets/a",)) == {"assets/a": "kept"}


def test_mode_of_new_package_wins_unless_user_alone_changed_it(package: Path, tmp_path: Path) -> None:
    new = newer(package, tmp_path / "new", {"README.md": b"new"})
    (package / "README.md").chmod(0o755)
    assert upgraded(package, new) == {"README.md": "updated"}
    assert (package / "README.md").stat().st_mode & 0o777 == 0o755
    assert (package / "README.md").read_bytes() == b"new"


# Edits by `mlpack configure`, on reworded files.


def reworded(package: Path) -> dict[str, bytes | None]:
    """Return all files that people edit with other comments, and env files with a new key."""
    changes: dict[str, bytes | None] = {}
    for path, (_, content) in files(package).items():
        if path.endswith((".env", ".yaml")) and path.startswith("quickstart/"):
            text = re.sub(rb"(?m)^( *)# ([A-Z][^=]*)$", rb"\1# Reworded: \2", content)
            changes[path] = text.replace(b"REGISTRY=", b"NEW_KEY=1\nREGISTRY=") if path.endswith("mlops.env") else text
    return changes


COMPONENT = b"""apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
labels:
  - pairs: {app.kubernetes.io/part-of: own}
"""
EVERYTHING = configure.Answers(
    image="team/own:2",
    root="/nfs/me",
    registry="example.com/team",
    uid=5,
    gid=6,
    fs_group=7,
    assignments=(Assignment("--add", "OWN", "1"), Assignment("--site", "OUTPUT_CLAIM", "mine")),
    amounts=(("--memory", "9Gi"), ("--cpu", "3"), ("--gpus", "2")),
    switch_on=("gpu", "output-pvc"),
    components=(OwnComponent("own", (tree.Entry("kustomization.yaml", COMPONENT, len(COMPONENT)),)),),
    annotations={"prometheus.io/scrape": "true"},
)


EARLIER = dataclasses.replace(EVERYTHING, image=None)
"""The same for packages whose images are not in mlops.env: such an image has to be set again."""


def configured(package: Path, answers: configure.Answers) -> None:
    with configure.prepared(package, None, answers) as edits:
        list(configure.write(edits))


def no_progress(label: str, total: int, *, unit: str) -> AbstractContextManager[Callable[[int], None]]:
    assert label, (total, unit)
    return nullcontext(lambda _steps: None)


def built(
    folder: Path, model: str, precision: str | None = None, mode: str | None = None, components: tuple[str, ...] = ()
) -> Path:
    """Build a package of a bundled model as a folder."""
    request = BuildRequest(model, (bundled(),), precision=precision, mode=mode, components=components)
    [package] = build(request, Destination(folder, as_folder=True), tell=lambda _: None, progress=no_progress)
    assert isinstance(package, Built)
    return package.path


def test_edits_by_configure_are_kept_beside_reworded_comments(tmp_path: Path) -> None:
    package = built(tmp_path / "now", "resnet50-pytorch", components=("all",))
    new = newer(package, tmp_path / "new", reworded(package))
    configured(package, EVERYTHING)
    before = edits_of(package)
    upgraded(package, new)
    assert edits_of(package) == before != []
    for path in (path for path in files(package) if path.endswith("mlops.env")):
        assert b"NEW_KEY=1" in (package / path).read_bytes()


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack a package of an earlier release, and return its folder."""
    (folder / "earlier").mkdir()
    extract(archive, folder / "earlier")
    return folder / "earlier" / archive.name.removesuffix(".tar.gz")


@pytest.mark.thorough
@pytest.mark.parametrize("archive", RELEASED, ids=lambda path: path.name)
def test_upgraded_earlier_release_has_all_edits_and_renders_with_them(
    archive: Path, tmp_path: Path, kubectl: Path
) -> None:
    """The upgraded package renders as the package of today does with the same edits; the option gpu is added to it."""
    package = unpacked(archive, tmp_path)
    spec = json.loads((package / "manifest.json").read_text())["spec"]
    new = built(tmp_path / "new", spec["name"], spec["precision"], spec["mode"])
    fresh = shutil.copytree(new, tmp_path / "fresh" / package.name)
    for folder in (package, fresh):
        configured(folder, EARLIER)
    configured(fresh, configure.Answers(assignments=(Assignment("--set", "OUTPUT_FOLDER", "."),)))
    before = edits_of(package)
    (kept,) = [edit for edit in edits_of(fresh) if edit.key == "OUTPUT_FOLDER"]
    with upgrade.prepared(package, new) as prepared:
        upgrade.write(prepared, verified(kubectl))
    after = {edit for edit in edits_of(package) if "gpu" not in edit.key.lower()}
    assert after == {kept, *(edit for edit in before if "gpu" not in edit.key.lower())}
    with opened(package) as current:
        assert integrity.check(current, DEFAULT_LIMITS).problems == []
        assert current.digest == opened_digest(new)
    for overlay in sorted((package / layout.OVERLAYS).iterdir()):
        rendered, expected = (
            kustomize(folder / layout.OVERLAYS / overlay.name, program=str(kubectl)) for folder in (package, fresh)
        )
        assert rendered == expected


def opened_digest(folder: Path) -> str:
    with opened(folder) as package:
        return package.digest


# Conflicts.


@pytest.fixture
def clash(package: Path, tmp_path: Path) -> Path:
    """The newer package of a package with a value, and a line of a manifest, that both changed."""
    before = files(package)
    new = newer(
        package,
        tmp_path / "new",
        {
            ENV: before[ENV][1].replace(b"=docker.io", b"=quay.io"),
            POD: before[POD][1].replace(b'cpu: "50m"', b'cpu: "60m"'),
            "README.md": b"new",
        },
    )
    edit(package / ENV, "=docker.io", "=example.com")
    edit(package / POD, 'cpu: "50m"', 'cpu: "70m"')
    return new


def test_conflicts_name_place_and_three_versions(package: Path, clash: Path) -> None:
    first, second = conflicts(package, clash)
    assert re.fullmatch(
        rf"{re.escape(ENV)}:\d+:1: the package had REGISTRY=docker.io, you have REGISTRY=example.com, "
        r"the new package has REGISTRY=quay.io",
        first,
    )
    assert re.fullmatch(
        rf'{re.escape(POD)}:\d+:1: the package had cpu: "50m" # .*, you have cpu: "70m" # .*, '
        r'the new package has cpu: "60m" # .*',
        second,
    )


def test_choices_by_file_decide_conflicts(package: Path, clash: Path) -> None:
    upgraded(package, clash, yours=(ENV,), theirs=(POD,))
    assert b"REGISTRY=example.com\n" in (package / ENV).read_bytes()
    assert (package / POD).read_bytes() == (clash / POD).read_bytes()


@pytest.mark.parametrize(
    ("form", "source"), [("./{path}", "./{name}"), ("{name}//{path}", "{folder}"), ("{folder}/{path}", "{name}")]
)
def test_choice_names_file_by_any_of_its_paths(
    form: str, source: str, package: Path, clash: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(package.parent)
    names = {"name": package.name, "folder": str(package)}
    yours = (form.format(path=ENV, **names),)
    with upgrade.prepared(Path(source.format(**names)), clash, yours=yours) as prepared:
        assert ENV not in {conflict.path for conflict in prepared.conflicts}
        assert [conflict.path for conflict in prepared.decided] == [ENV]


def test_choice_for_file_without_conflict_is_refused(package: Path, clash: Path) -> None:
    with pytest.raises(UsageError, match="this file of the package has no conflict"):
        upgraded(package, clash, yours=("README.md",))
    with pytest.raises(UsageError, match="both name"):
        upgraded(package, clash, yours=(ENV,), theirs=(ENV,))


# Refusals and checks.


def test_other_packages_are_refused(package: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is the package resnet50"):
        upgraded(package, built(tmp_path / "other", "resnet50"))
    broken = newer(package, tmp_path / "new", {})
    (broken / "README.md").write_bytes(b"other")
    with pytest.raises(VerificationError, match="is not valid"):
        upgraded(package, broken)


def test_result_with_new_problems_is_refused(package: Path, tmp_path: Path, kubectl: Path) -> None:
    pod = files(package)[POD][1]
    new = newer(package, tmp_path / "new", {POD: pod.replace(b"image:", b"imaje:")})
    with (
        upgrade.prepared(package, new) as prepared,
        pytest.raises(VerificationError, match="would not be valid") as refused,
    ):
        upgrade.write(prepared, verified(kubectl))
    assert refused.value.problems
    good = newer(package, tmp_path / "good", {"README.md": b"new"})
    edit(package / ENV, "=docker.io", "=example.com")
    with upgrade.prepared(package, good) as prepared:
        upgrade.write(prepared, verified(kubectl))


def test_names_that_differ_in_case_only_are_refused(package: Path, tmp_path: Path) -> None:
    new = newer(package, tmp_path / "new", {"assets/a": b"a"})
    (package / "Assets").mkdir()
    (package / "Assets/mine").write_bytes(b"mine")
    with pytest.raises(VerificationError, match="are the same name where case is ignored"):
        upgraded(package, new)


def test_json_contains_versions_files_and_masked_conflicts(package: Path, tmp_path: Path) -> None:
    env = (package / ENV).read_bytes() + b"HF_TOKEN="
    edited = newer(package, tmp_path / "first", {ENV: env + b"one\n"})
    new = newer(edited, tmp_path / "new", {ENV: env + b"two\nADDED=1\n"})
    edit(edited / ENV, "HF_TOKEN=one", "HF_TOKEN=mine")
    with upgrade.prepared(edited, new) as prepared:
        content = prepared.as_json()
    assert content["conflicts"] == [
        {
            "file": ENV,
            "line": env.count(b"\n") + 1,
            "key": "HF_TOKEN",
            **dict.fromkeys(("base", "yours", "theirs"), "HF_TOKEN=***"),
        }
    ]
    assert content["new_keys"] == [f"{ENV}: ADDED"]
    assert content["from"] == {"version": None, "digest": prepared.old.digest}


def test_option_that_the_user_has_added_is_switched_on_in_a_package_that_has_it(package: Path, tmp_path: Path) -> None:
    new = built(tmp_path / "new", "hello-mpi", components=("all",))
    values = (Assignment("--set", "GPU_COUNT", "4"), Assignment("--set", "SHM_SIZE", "3Gi"))
    configured(package, configure.Answers(switch_on=("shared-memory", "gpu"), assignments=values))
    upgraded(package, new)
    assert {f"{edit.kind} {edit.key}": edit.after for edit in edits_of(package)} == {
        "option gpu": "on",
        "option shared-memory": "on",
        "value GPU_COUNT": "4",
        "value SHM_SIZE": "3Gi",
    }
