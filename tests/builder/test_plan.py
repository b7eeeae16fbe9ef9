"""The plan of a package: its variant, its names, and the lines of mlops.env."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager import __version__
from packager.base.errors import UsageError
from packager.builder.plan import Options, check_options, choose, plan
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

    from packager.builder.plan import Plan


def planned(
    folder: Path, spec: str = demo.SPEC, options: Options | None = None, variant: int = 0, *settings: str
) -> Plan:
    loaded = load(demo.write(folder, spec), [parse_setting(setting) for setting in settings])
    return plan(loaded, loaded.spec.variants[variant], options or Options())


def variables(plan: Plan) -> dict[str, str]:
    return {variable.key: variable.value for variable in plan.variables}


def test_variant_is_chosen_by_precision_and_mode(tmp_path: Path) -> None:
    for precision, mode, label in (
        (None, None, "fp32 training"),
        ("bf16", None, "bf16 training"),
        (None, "inference", "fp32 inference"),
        ("fp32", "training", "fp32 training"),
    ):
        spec = load(demo.write(tmp_path, demo.changed(*demo.VARIANTS))).spec
        assert choose(spec, precision, mode).label == label


def test_unknown_variant_is_refused_with_a_similar_one(tmp_path: Path) -> None:
    spec = load(demo.write(tmp_path, demo.changed(*demo.VARIANTS))).spec
    with pytest.raises(UsageError) as refused:
        choose(spec, "bf16", "inference")
    assert str(refused.value) == (
        "demo has no variant 'bf16 inference'; it has: fp32 training, bf16 training, fp32 inference"
    )
    assert refused.value.hint == "did you mean 'fp32 inference'?"
    with pytest.raises(UsageError, match="demo has no variant 'fp61'"):
        choose(spec, "fp61", None)


def test_plan_names_package_image_title_and_overlays(tmp_path: Path) -> None:
    got = planned(tmp_path, demo.changed("package: demo-v2", "use_case: tests"))
    assert (got.name, got.image) == ("demo-v2-fp32-training", "demo:1.0")
    assert got.title == "Demo, fp32 training"
    assert [overlay.name for overlay in got.overlays] == ["single-node", "multi-node"]


def test_environment_has_registry_and_folders_by_default(tmp_path: Path) -> None:
    assert variables(planned(tmp_path)) == {
        "REGISTRY": "docker.io",
        "IMAGE": "demo:1.0",
        "DATASET_DIR": "/dataset",
        "MODEL_DIR": "ROOT/demo-fp32-training",
        "OUTPUT_DIR": "ROOT/demo-fp32-training/output",
    }


def test_variant_overrides_environment_of_the_spec_which_follows_the_defaults(tmp_path: Path) -> None:
    spec = demo.changed(
        "script: train.sh => script: train.sh, environment: {STEPS: 5, EXTRA: 'true'}",
        "environment: {STEPS: {value: 3, description: How many.}, DATASET_DIR: /data, FLAG: true}",
    )
    got = planned(tmp_path, spec)
    assert list(variables(got).items())[5:] == [("STEPS", "5"), ("FLAG", "true"), ("EXTRA", "true")]
    assert variables(got)["DATASET_DIR"] == "/data"
    descriptions = {variable.key: variable.description for variable in got.variables}
    assert descriptions["STEPS"] == "How many."
    assert descriptions["DATASET_DIR"] == "Where the dataset is, as the container sees it."


def test_root_option_replaces_placeholder_at_the_start_of_values(tmp_path: Path) -> None:
    model = "/nfs/me"
    spec = demo.changed("environment: {DATASET_DIR: ROOT/data, NOTE: below ROOT/x}")
    got = variables(planned(tmp_path, spec, Options(root="/nfs/me/")))
    assert got["MODEL_DIR"] == f"{model}/demo-fp32-training"
    assert got["OUTPUT_DIR"] == f"{model}/demo-fp32-training/output"
    assert got["DATASET_DIR"] == f"{model}/data"
    assert got["NOTE"] == "below ROOT/x"


def test_registry_option_replaces_registry_of_the_spec(tmp_path: Path) -> None:
    got = planned(tmp_path, options=Options(registry="localhost:5000/team"))
    assert variables(got)["REGISTRY"] == "localhost:5000/team"


def test_root_and_registry_options_refuse_invalid_values() -> None:
    for root in ("nfs", "", "/", "//", "/a:b", "/a/../b", "/a\n", "/\udcff"):
        with pytest.raises(UsageError, match=r"--root .*: expected an absolute path without ':' and '\.\.'"):
            check_options(Options(root=root))
    for registry in ("", "http://x", "a b", "x/", "x:port", "-x", "x/Team", "x\n"):
        with pytest.raises(UsageError, match=r"--registry .*: expected a host, optionally with a port and a path"):
            check_options(Options(registry=registry))
    for registry in ("localhost:5000", "a.b.c:443/team/x_y", "10.0.0.1:5000"):
        check_options(Options(root="/nfs/a b", registry=registry))


def test_inventory_records_version_variant_and_options(tmp_path: Path) -> None:
    options = Options(root="/nfs", registry="localhost")
    settings = [parse_setting("environment.A=1", adds=True), parse_setting("title=x=y")]
    loaded = load(demo.write(tmp_path), settings)
    got = plan(loaded, loaded.spec.variants[0], options)
    assert got.about["tool"] == {"name": "mlpack", "version": __version__}
    assert got.about["package"] == "demo-fp32-training"
    spec = got.about["spec"]
    assert (spec["name"], spec["precision"], spec["mode"]) == ("demo", "fp32", "training")
    assert (spec["root"], spec["registry"], spec["set"]) == ("/nfs", "localhost", ["title=x=y"])
    assert spec["add"] == ["environment.A=1"]


def test_package_sequence_contains_only_overlays_of_its_variant(tmp_path: Path) -> None:
    spec = demo.changed(*demo.VARIANTS, "sequence: [single-node, multi-node]")
    whole, part = (planned(tmp_path, spec, variant=variant) for variant in (0, 2))
    assert [overlay.name for overlay in whole.sequence] == ["single-node", "multi-node"]
    assert (whole.about["sequence"], part.about["sequence"]) == (["single-node", "multi-node"], ["single-node"])
    assert "sequence" not in planned(tmp_path).about


def test_variant_runs_in_its_own_image(tmp_path: Path) -> None:
    own = "  - {mode: cuda, script: train.sh, image: {name: team/gpu, tag: '2', registry: quay.io}}"
    spec = demo.changed('tag: "1.0" => tag: "1.0", dockerfile: Dockerfile', own)
    demo.write(tmp_path, files={"Dockerfile": "FROM scratch\n"})
    model, gpu = (planned(tmp_path, spec, variant=variant) for variant in (0, 1))
    assert (model.image, variables(model)["REGISTRY"], model.dockerfile) == ("demo:1.0", "docker.io", True)
    assert (gpu.image, variables(gpu)["REGISTRY"], gpu.dockerfile) == ("team/gpu:2", "quay.io", False)
    assert {overlay.image for overlay in gpu.overlays} == {"team/gpu:2"}


def test_image_of_variant_needs_tag_or_digest(tmp_path: Path) -> None:
    spec = demo.write(tmp_path, demo.changed("  - {mode: cuda, script: train.sh, image: {name: team/gpu}}"))
    assert [problem.partition(" (")[0] for problem in demo.problems(spec)] == [
        "spec.yaml:11:43: the key 'tag' is missing"
    ]
