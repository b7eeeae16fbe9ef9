from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.base.errors import SpecError
from packager.modelspec.importers.cubepaths import PATHS, place
from packager.modelspec.importers.mlcube import Choices
from packager.modelspec.importing import ModelDestination, import_mlcube
from packager.workloads.program import references
from tests.modelspec.importers.results import check_package, imported, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_golden.plugin import GoldenTestFixture

    from packager.modelspec.importing import Imported
    from tests.conftest import Outcome


def choices(values: dict[str, Any]) -> Any:
    given: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    return Choices(**given)


@pytest.mark.golden_test("../../golden/import/mlcube/[!r]*.yml")
def test_import_of_cube_writes_the_golden_model(
    golden: GoldenTestFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kubectl: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    cube = tmp_path / "cube"
    for name in ("mlcube.yaml", *golden["disk"]):
        (cube / name).parent.mkdir(parents=True, exist_ok=True)
        (cube / name).write_text(golden["input"] if name == "mlcube.yaml" else "text", encoding="utf-8")
    models = tmp_path / "models"
    result = import_mlcube(cube.relative_to(tmp_path), ModelDestination(models), choices(golden["choices"]))
    for key, value in imported(result, models).items():
        assert value == golden.out[key]
    check_package(result, tmp_path / "packages", kubectl)


@pytest.mark.golden_test("../../golden/import/mlcube/refused.yml")
def test_import_refuses_invalid_cubes_with_problems(
    golden: GoldenTestFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mlcube.yaml"
    models = ModelDestination(tmp_path / "models")
    messages = {}
    for case, text in golden["cases"].items():
        path.write_text(text, encoding="utf-8")
        messages[case] = refused(lambda: import_mlcube(path.relative_to(tmp_path), models, choices({})))
        assert not models.folder.exists() or not any(models.folder.iterdir())
    assert messages == golden.out["problems"]


DOCUMENTED = """\
name: mnist
docker: {image: "mlcommons/mlcube:mnist"}
tasks:
  train:
    parameters:
      inputs: {data_dir: workspace/data/}
      outputs: {model_dir: workspace/model/}
"""


def expanded(word: str, environment: dict[str, str]) -> str:
    for name in references(word):
        word = word.replace(f"$({name})", environment[name])
    return word


def test_init_creates_the_folders_of_all_parameters(tmp_path: Path) -> None:
    tasks = {"a": {"parameters": {"inputs": {"x": "one two/x.txt"}, "outputs": {"y": "d/", "z": {"type": "file"}}}}}
    result = import_mlcube(cube(tmp_path / "cube", tasks=tasks), ModelDestination(tmp_path / "models"), choices({}))
    overlay = yaml.safe_load((result.folder / "spec.yaml").read_text(encoding="utf-8"))["overlays"]["a"]
    environment = {name: value["value"] for name, value in overlay["environment"].items()}
    words = [expanded(word, environment).replace("/mnt/mlcube", str(tmp_path)) for word in overlay["init"]["command"]]
    subprocess.run(words, check=True)
    folders = {path.relative_to(tmp_path / "mnist").as_posix() for path in (tmp_path / "mnist").rglob("*")}
    assert folders == {"one two", "d"}


def _read_spec(result: Imported) -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load((result.folder / "spec.yaml").read_text(encoding="utf-8"))
    return spec


def test_program_words_name_the_mounted_workspace(tmp_path: Path) -> None:
    task = {"entrypoint": "${python} ${workspace}/main.py"}
    changes = {"tasks": {"train": task}, "python": "python3", "docker": {"env_args": "-e CACHE=${workspace}/cache"}}
    path = cube(tmp_path / "cube", **changes)
    result = import_mlcube(path, ModelDestination(tmp_path / "models"), choices({"image": "example/cube:1"}))
    spec = _read_spec(result)
    overlay = spec["overlays"]["train"]
    assert (overlay["command"], overlay["args"]) == (["python3"], ["/mnt/mlcube/mnist/main.py"])
    assert spec["environment"] == {"CACHE": "/mnt/mlcube/mnist/cache"}
    assert overlay["claims"] == [{"claim": "mnist", "path": "/mnt/mlcube/mnist"}]
    assert spec["workspace"] == "mnist"


def test_dollars_of_an_entrypoint_reach_its_program(tmp_path: Path) -> None:
    for word in ("echo $$ $HOME", "$(date)", "$$$(MODEL_DIR)$"):
        path = cube(tmp_path / "cube", tasks={"train": {"entrypoint": f"sh -c '{word}'"}})
        result = import_mlcube(
            path, ModelDestination(tmp_path / "models", force=True), choices({"image": "example/cube:1"})
        )
        args = _read_spec(result)["overlays"]["train"]["args"]
        assert args[1].replace("$$", "$") == word


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "${workspace}"}, "${workspace} is not a value of the file: it is a folder, which has no place here"),
        ({"tasks": {"a": {"entrypoint": "${nothing}/a"}}}, "${nothing} is not a value of the file"),
    ],
)
def test_invalid_reference_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = cube(tmp_path / "cube", **changes)
    with pytest.raises(SpecError) as error:
        import_mlcube(path, ModelDestination(tmp_path / "models"), choices({}))
    assert [problem.message for problem in error.value.problems] == [message]


@pytest.mark.parametrize(("gigabytes", "size"), [(100, "100Gi"), (0.5, "512Mi"), (1.0001, "1025Mi")])
def test_claim_has_the_disk_size_of_the_cube(tmp_path: Path, gigabytes: Any, size: str) -> None:
    path = cube(tmp_path / "cube", platform={"host_disk_space_gb": gigabytes, "host_memory_gb": gigabytes})
    result = import_mlcube(path, ModelDestination(tmp_path / "models"), choices({}))
    assert f"--site=CLAIM_SIZE={size}" in result.build
    assert _read_spec(result)["overlays"]["train"]["resources"]["requests"]["memory"] == size
    existing = import_mlcube(path, ModelDestination(tmp_path / "others"), choices({"claim": "existing"}))
    assert existing.site == ()


@pytest.mark.parametrize("gigabytes", [-1, float("nan"), "100GB"])
def test_invalid_disk_size_is_refused(tmp_path: Path, gigabytes: Any) -> None:
    path = cube(tmp_path / "cube", platform={"host_disk_space_gb": gigabytes})
    with pytest.raises(SpecError, match="1 problem"):
        import_mlcube(path, ModelDestination(tmp_path / "models"), choices({}))


def cube(folder: Path, **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    values = yaml.safe_load(DOCUMENTED) | changes
    (folder / "mlcube.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "trian"], "error: --task trian: the cube has no such task\nhint: did you mean 'train'?\n"),
        (
            ["--param", "model_di=x"],
            "error: --param model_di=x: no task has such a parameter\nhint: did you mean 'model_dir'?\n",
        ),
        (["--param", "x"], "error: --param x: expected [TASK.]NAME=PATH\n"),
        (["-P", "docker"], "error: -P docker: expected PATH=VALUE, such as docker.image=example/image:1\n"),
        (["-P", "name.x=1"], "error: -P name.x: expected name to have keys, found 'mnist'\n"),
    ],
)
def test_invalid_choices_are_refused(
    mlpack: Callable[..., Outcome], tmp_path: Path, arguments: list[str], message: str
) -> None:
    cube(tmp_path)
    done = mlpack("import", "mlcube", "mlcube.yaml", *arguments)
    assert (done.code, done.stdout, done.stderr) == (2, "", message)


def test_build_line_has_the_default_size_of_the_claim(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    cube(tmp_path)
    done = mlpack("import", "mlcube", ".")
    assert done.stderr.endswith(
        "the workspace's claim requests 10Gi, the default: CLAIM_SIZE, here or in site.env, sets another size\n"
        "build it with: mlpack build ./mnist --site=CLAIM_SIZE=10Gi\n"
    )
    existing = mlpack("import", "mlcube", ".", "--force", "--claim", "shared").stderr
    assert existing.endswith("build it with: mlpack build ./mnist\n")
    (tmp_path / "site.yaml").write_text("registry: reg.example\n", encoding="utf-8")
    of_site = mlpack("import", "mlcube", ".", "--force", "--site-file", "site.yaml").stderr
    assert of_site.endswith("build it with: mlpack build ./mnist --site-file site.yaml\n")


def test_options_replace_values_of_the_cube(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    cube(tmp_path)
    settings = ("-P", "docker.image=example/other:2", "-P", "runner.pvc=shared", "-P", "platform.accelerator_count=1")
    assert mlpack("import", "mlcube", ".", *settings, "--gpus", "3", "--param", "data_dir=new/").code == 0
    spec = yaml.safe_load((tmp_path / "mnist/spec.yaml").read_text(encoding="utf-8"))
    assert spec["image"] == {"registry": "docker.io", "name": "example/other", "tag": "2"}
    assert spec["overlays"]["train"]["claims"] == [{"claim": "shared", "path": "/mnt/mlcube/shared"}]
    assert spec["overlays"]["train"]["environment"]["PARAM_data_dir"]["value"] == "new"
    wrong = mlpack("import", "mlcube", ".", "--force", "--claim", "No Claim")
    assert wrong.code == 3
    assert (
        "--claim: expected a name of lower-case letters, digits and '-' (at most 63), found 'No Claim'" in wrong.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "tasks", "workspace"),
    [
        (("-P", "k8s.pvc=shared"), ("train",), "shared"),
        (("--claim", "existing"), ("train",), None),
        ((), ("train", "workspace"), None),
        (("--task", "train"), ("train", "workspace"), "mnist"),
    ],
)
def test_package_creates_the_claim_unless_named_or_name_is_taken(
    mlpack: Callable[..., Outcome],
    tmp_path: Path,
    arguments: tuple[str, ...],
    tasks: tuple[str, ...],
    workspace: str | None,
) -> None:
    parameters = {"parameters": {"outputs": {"out": "out/"}}}
    cube(tmp_path, tasks=dict.fromkeys(tasks, parameters))
    done = mlpack("import", "mlcube", ".", *arguments)
    assert done.code == 0, done.stderr
    spec = yaml.safe_load((tmp_path / "mnist/spec.yaml").read_text(encoding="utf-8"))
    assert spec.get("workspace") == workspace


def test_import_reads_no_file_outside_of_the_cube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths and links that lead out of the folder are not followed; only mlcube.yaml is opened."""
    folder = cube(
        tmp_path / "cube",
        tasks={"train": {"parameters": {"inputs": {"a": "link/secret", "b": "../../secret", "c": "/etc/hostname"}}}},
    )
    (folder / "workspace").mkdir()
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (folder / "workspace/link").symlink_to(tmp_path)
    opened: list[str] = []
    real_open, real_stat = os.open, os.stat

    def watched(path: Any, *arguments: Any, **options: Any) -> int:
        opened.append(str(path))
        return real_open(path, *arguments, **options)

    def watched_stat(path: Any, **options: Any) -> os.stat_result:
        opened.append(str(path))
        return real_stat(path, **options)

    monkeypatch.setattr(os, "open", watched)
    monkeypatch.setattr(os, "stat", watched_stat)
    result = import_mlcube(folder, ModelDestination(tmp_path / "models"), choices({}))
    assert not [path for path in opened if "secret" in path or "hostname" in path]
    places = {finding.message.partition(" ")[0].rpartition(".")[2] for finding in result.findings}
    assert places == {"a", "b", "c"}


def test_cube_that_is_a_link_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    for name in ("elsewhere", "cube"):
        cube(tmp_path / name)
    link = tmp_path / "cube/mlcube.yaml"
    link.unlink()
    link.symlink_to("../elsewhere/mlcube.yaml")
    with pytest.raises(SpecError, match="is a link that leads out of its folder"):
        import_mlcube(tmp_path / "cube", ModelDestination(tmp_path / "models"), choices({}))
    assert import_mlcube(link, ModelDestination(tmp_path / "models"), choices({})).files
    link.unlink()
    link.symlink_to("mlcube.yaml")
    with pytest.raises(SpecError, match="is not a path"):
        import_mlcube(tmp_path / "cube", ModelDestination(tmp_path / "models"), choices({}))


def test_invalid_gpus_and_shm_size_are_reported(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    cube(tmp_path / "cube")
    done = mlpack("import", "mlcube", "cube", "--gpus", "100000")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: --gpus 100000: ")
    done = mlpack("import", "mlcube", "cube", "-P", "docker.gpu_args=--shm-size=banana")
    assert (
        "--shm-size banana is the option shared-memory of a site (--with shared-memory, and another SHM_SIZE: "
        in done.stderr
    )


def test_pipe_in_the_folder_of_a_cube_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "mlcube.yaml")
    with pytest.raises(SpecError):
        import_mlcube(tmp_path, ModelDestination(tmp_path / "models"), choices({}))


def test_place_returns_the_path_on_the_claim() -> None:
    for text, path in (
        ("./a//b/", "a/b"),
        ("a/../b", "b"),
        (".", ""),
        ("../workspace/x", "x"),
        ("../x", ".outside/x"),
        ("~/x", ".outside/x"),
        ("$HOME/x", ".outside/HOME/x"),
        ("/abs/../../etc", ".outside/etc"),
        ("C:\\data\\", ".outside/C/data"),
        (PATHS["workspace"], ""),
        (f"{PATHS['workspace']}/../x", ".outside/x"),
        (PATHS["runtime.root"], ".outside"),
        (f"{PATHS['runtime.root']}/workspace/data", "data"),
    ):
        assert place(text).path == path


def test_claims_of_parameters_give_the_layout_that_the_runner_documents(
    mlpack: Callable[..., Outcome], tmp_path: Path
) -> None:
    """The claim of a parameter can be chosen also where another task writes it, as in MLCube's MNIST cube."""
    download = {"parameters": {"inputs": {"data_config": "data.yaml"}, "outputs": {"data_dir": "data/"}}}
    train = {"parameters": {"inputs": {"data_dir": "data/"}, "outputs": {"model_dir": "model/"}}}
    cube(tmp_path, tasks={"download": download, "train": train})
    claims = ("--claim", "mlcube-output", "--param-claim", "data_dir=mlcube-input")
    paths = ("--param", "data_dir=workspace/data", "--param", "train.model_dir=workspace/model")
    done = mlpack("import", "mlcube", ".", *claims, *paths)
    assert done.code == 0, done.stderr
    overlays = yaml.safe_load((tmp_path / "mnist/spec.yaml").read_text(encoding="utf-8"))["overlays"]
    words = {}
    for name, overlay in overlays.items():
        environment = {key: value["value"] for key, value in overlay["environment"].items()}
        words[name] = [expanded(word, environment) for word in overlay["args"]]
    assert words["download"][-1] == "--data_dir=/mnt/mlcube/mlcube-input/workspace/data"
    assert words["train"][1:] == [
        "--data_dir=/mnt/mlcube/mlcube-input/workspace/data",
        "--model_dir=/mnt/mlcube/mlcube-output/workspace/model",
    ]
    assert [claim["claim"] for claim in overlays["train"]["claims"]] == ["mlcube-input", "mlcube-output"]
    wrong = mlpack("import", "mlcube", ".", "--force", "--param-claim", "data=mlcube-input")
    assert (wrong.code, "--param-claim data=mlcube-input: no task has such a parameter" in wrong.stderr) == (2, True)
