"""Tests of the cache of rendered output, and of the digests of its entries."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.process import Finished
from packager.package.layout import OVERLAYS
from packager.package.options import BY_NAME
from tests import kinds, kubectls, renders
from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.conftest import Outcome


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(renders, "CACHE", tmp_path / "cache")
    return tmp_path / "cache"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name in ("over", "package"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kustomization.yaml").write_text(f"# {name}\n")
    return tmp_path


def _digest(files: Path, *versions: str, kustomization: str = "over") -> str:
    return renders.digest(files / kustomization, [files / "over", files / "package"], versions or kubectls.VERSIONS)


CHANGES: dict[str, Callable[[Path], object]] = {
    "a byte": lambda files: (files / "package/kustomization.yaml").write_text("# Package\n"),
    "a name": lambda files: (files / "package/kustomization.yaml").rename(files / "package/Kustomization"),
    "one file more": lambda files: (files / "package/empty.env").write_text(""),
    "where one ends": lambda files: [
        (files / "over/kustomization.yaml").write_text("# over\n# "),
        (files / "package/kustomization.yaml").write_text("package\n"),
    ],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_digest_changes_with_files(files: Path, change: Callable[[Path], object]) -> None:
    before = _digest(files)
    assert _digest(files) == before
    change(files)
    assert _digest(files) != before


def test_digest_changes_with_kubectl_and_kustomization(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = [_digest(files), _digest(files, "1.36"), _digest(files, kustomization="package")]
    monkeypatch.setitem(kubectls.WHEELS, "1.36", kubectls.Wheel("2.0.2", "0" * 64))
    digests += [_digest(files), _digest(files, "1.36")]
    assert len(set(digests)) == len(digests)


def test_cache_returns_renders_until_unused_for_a_month(cache: Path) -> None:
    first, second, third = ("0" * 64, "1" * 64, "2" * 64)
    assert renders.kept(first) is None
    for name in (first, second):
        renders.keep(name, f"é {name}\n")
    (cache / "notes").write_text("somebody else's")
    for name in (first, second, "notes"):
        os.utime(cache / name, (0, 0))
    assert renders.kept(first) == f"é {first}\n"
    renders.keep(third, "x")
    renders.prune()
    assert sorted(path.name for path in cache.iterdir()) == [first, third, "notes"]


class Counted:
    """A Runner that counts its runs, and returns prepared output."""

    def __init__(self, *, stderr: str = "", code: int = 0) -> None:
        self.count = 0
        self._stderr, self._code = stderr, code

    def run(self, argv: list[str]) -> Finished:
        self.count += 1
        return Finished(self._code, f"{argv[2]} no. {self.count}\n", self._stderr)


MULTI, SINGLE = "quickstart/k8s/mlops/multi-node", "quickstart/k8s/mlops/single-node"


def _rendered_twice(first: Path, second: Path, versions: tuple[str, str] = ("1.35", "1.35"), **outcome: Any) -> bool:
    """Render two folders, and return whether kubectl was started for both."""
    counted = Counted(**outcome)
    run = renders.remembering(Counted.run)
    for folder, version in zip((first, second), versions, strict=True):
        done = run(counted, [str(kubectls.kubectl(version)), "kustomize", str(folder)])
        assert (done.returncode, done.stderr) == (outcome.get("code", 0), outcome.get("stderr", ""))
    return counted.count == 2


def test_package_is_rendered_once_in_any_folder(package: Path, tmp_path: Path) -> None:
    other = shutil.copytree(package, tmp_path / "other")
    assert not _rendered_twice(package / MULTI, other / MULTI)


def test_kubectl_renders_again_after_change_of_overlay_kubectl_or_file(package: Path, tmp_path: Path) -> None:
    other = shutil.copytree(package, tmp_path / "other")
    assert _rendered_twice(package / MULTI, package / SINGLE)
    shutil.rmtree(renders.CACHE)
    assert _rendered_twice(package / MULTI, package / MULTI, ("1.35", "1.36"))
    shutil.rmtree(renders.CACHE)
    with (other / MULTI / "mlops.env").open("a") as file:
        file.write("# more\n")
    assert _rendered_twice(package / MULTI, other / MULTI)


@pytest.mark.parametrize(
    ("changed", "is_read"),
    [
        (f"{SINGLE}/mlops.env", True),
        (f"{SINGLE}/pod-patch.yaml", True),
        ("quickstart/common/mpi/k8s/mlops/site/site.env", True),
        ("quickstart/common/mpi/k8s/mlops/placement/kustomization.yaml", True),
        ("quickstart/common/mpi/k8s/mlops/site/placement.yaml", True),
        ("quickstart/common/mpi/k8s/mlops/pvc/kustomization.yaml", False),
        (f"{MULTI}/mlops.env", False),
        ("quickstart/README.md", False),
        ("README.md", False),
    ],
)
def test_kubectl_renders_again_after_change_of_a_file_that_the_overlay_reads(
    changed: str, *, is_read: bool, mlpack: Callable[..., Outcome], package: Path, tmp_path: Path
) -> None:
    assert mlpack("configure", package, "--with", "placement").code == 0
    other = shutil.copytree(package, tmp_path / "other")
    with (other / changed).open("a") as file:
        file.write("# more\n")
    assert _rendered_twice(package / SINGLE, other / SINGLE) == is_read


@pytest.mark.parametrize("path", ["patch.yaml", "folder/patch.yaml"])
def test_kubectl_renders_again_after_change_of_a_patch_of_a_transformer(
    path: str, package: Path, tmp_path: Path
) -> None:
    """The transformer, a manifest, names the patch."""
    folder = package / SINGLE
    (folder / "transformers").mkdir()
    transformer = f"kind: PatchTransformer\npath: {path}\n"
    (folder / "transformers/kustomization.yaml").write_text("resources: [one.yaml]\n")
    (folder / "transformers/one.yaml").write_text(transformer)
    (folder / "transformers" / path).parent.mkdir(exist_ok=True)
    (folder / "transformers" / path).write_text("a: 1\n")
    replace(folder / "kustomization.yaml", "resources:\n", "transformers: [transformers]\nresources:\n")
    other = shutil.copytree(package, tmp_path / "other")
    assert not _rendered_twice(folder, other / SINGLE)
    shutil.rmtree(renders.CACHE)
    (other / SINGLE / "transformers" / path).write_text("a: 2\n")
    assert _rendered_twice(folder, other / SINGLE)


def test_overlay_renders_from_the_files_of_its_digest_alone(
    mlpack: Callable[..., Outcome], tmp_path: Path, kubectl: Path
) -> None:
    names = ("queue", "placement", "pvc", "pvc-create", "gpu")
    options = [f"--with={name}" for name in names]
    options += [f"--site={key.name}={key.example}" for name in names for key in BY_NAME[name].keys]
    settings = [f"--set={setting}" for setting in (*kinds.SET, *kinds.FOLDERS)]
    built = mlpack("build", "hello-mpi", "--format", "dir", *options, *settings)
    assert built.code == 0, built.stderr
    package = Path("hello-mpi").resolve()
    for overlay in sorted((package / OVERLAYS).iterdir()):
        files = renders.reached(package / "quickstart", overlay)
        assert files is not None
        alone = tmp_path / "alone" / overlay.name
        for path in files:
            copy = alone / path.relative_to(package)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        folders = (overlay, alone / OVERLAYS / overlay.name)
        whole, part = (subprocess.check_output([kubectl, "kustomize", folder]) for folder in folders)
        assert part == whole


@pytest.mark.parametrize(
    "outcome",
    [{"code": 1}, {"code": -9, "stderr": "no memory"}, {"stderr": "# Warning: 'x' is deprecated"}],
)
def test_render_with_unusual_outcome_is_not_cached(package: Path, outcome: dict[str, Any]) -> None:
    assert _rendered_twice(package / MULTI, package / MULTI, **outcome)


def _failed_twice(kubectl: Path, first: Path, second: Path, printed: Callable[[Path], str]) -> bool:
    """Render two folders, for which kubectl fails with an error, and return whether it was started for both."""
    started = []

    def run(_: object, argv: list[str]) -> Finished:
        started.append(argv)
        return Finished(1, "", printed(Path(argv[2])))

    for folder in (first, second):
        done = renders.remembering(run)(None, [str(kubectl), "kustomize", str(folder)])
        assert done == Finished(1, "", printed(folder))
    return len(started) == 2


def test_error_is_cached_with_the_folder_of_each_package(package: Path, tmp_path: Path, kubectl: Path) -> None:
    other = shutil.copytree(package, tmp_path / "other")
    assert not _failed_twice(kubectl, package / MULTI, other / MULTI, lambda folder: f"{folder}/x.yaml: not found")


def test_error_with_path_of_another_temporary_file_is_not_cached(package: Path, tmp_path: Path, kubectl: Path) -> None:
    assert _failed_twice(kubectl, package / MULTI, package / MULTI, lambda _: f"{tmp_path}/x.yaml: not found")


def test_error_depends_on_the_names_of_all_files(package: Path, tmp_path: Path, kubectl: Path) -> None:
    other = shutil.copytree(package, tmp_path / "other")
    (other / MULTI / "x.yaml").mkdir()
    assert _failed_twice(kubectl, package / MULTI, other / MULTI, lambda _: "x.yaml: not found")


def test_render_that_may_read_other_files_is_not_cached(package: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    assert _rendered_twice(tmp_path / "own", tmp_path / "own")
    replace(package / MULTI / "kustomization.yaml", "resources:\n", "resources:\n  - ../../../x/../../own\n")
    assert _rendered_twice(package / MULTI, package / MULTI)


def test_render_with_symlink_is_not_cached(package: Path, tmp_path: Path) -> None:
    (package / "quickstart/link").symlink_to(tmp_path)
    assert _rendered_twice(package / MULTI, package / MULTI)


def test_other_commands_and_kubectls_are_not_cached(package: Path, tmp_path: Path) -> None:
    counted = Counted()
    run = renders.remembering(Counted.run)
    copied = shutil.copy(kubectls.kubectl(), tmp_path / "kubectl")
    for argv in ([str(copied), "kustomize", str(package / MULTI)], [str(kubectls.kubectl()), "apply", "-k"]):
        for _ in range(2):
            run(counted, argv)
    assert counted.count == 4
