"""Sources of a spec: what lint accepts and refuses, what a package then runs, and what `verify` lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.modelspec.load import load
from tests import demo

if TYPE_CHECKING:
    from pathlib import Path


DIGEST = "0a" * 32
SOURCE = f"{{from: https://example.com/a, to: OUTPUT_DIR/data/a, sha256: {DIGEST}, size: 3}}"


def problems(folder: Path, *sources: str, more: str = "") -> list[str]:
    return demo.problems(demo.write(folder, f"{demo.SPEC}{more}sources: [{', '.join(sources)}]\n"))


def test_pods_fetch_sources_before_their_program(tmp_path: Path) -> None:
    loaded = load(demo.write(tmp_path, f"{demo.SPEC}sources: [{SOURCE}]\n"))
    planned = plan(loaded, loaded.spec.variants[0], Options())
    for overlay in planned.overlays:
        assert overlay.init is not None
        assert overlay.init.command == (
            *("/bin/sh", "/etc/mlpack/runtime/sources.sh"),
            *("https://example.com/a", "$(OUTPUT_DIR)/data/a", DIGEST, "3", "-", "--"),
        )
    paths = [entry.path for entry in render(planned).entries]
    assert "quickstart/common/mpi/k8s/mlops/base/sources.sh" in paths
    plain = load(demo.write(tmp_path / "plain"))
    assert not [one for one in render(plan(plain, plain.spec.variants[0], Options())).entries if "sources" in one.path]


def test_wrong_source_is_refused(tmp_path: Path) -> None:
    for old, new, message in (
        ("https://example.com/a", "https://user:word@example.com/a", "expected an http or https URL"),
        ("https://example.com/a", "https://example.com/$(TOKEN)", "expected an http or https URL"),
        ("OUTPUT_DIR/data/a", "OUTPUT_DIR/../a", "expected DATASET_DIR, OUTPUT_DIR or CHECKPOINT_DIR"),
        ("OUTPUT_DIR/data/a", "/etc/passwd", "expected DATASET_DIR, OUTPUT_DIR or CHECKPOINT_DIR"),
        ("OUTPUT_DIR/data/a", "OUTPUT_DIR", "`from` is one file, and `to` does not name it (write OUTPUT_DIR/a)"),
        ("OUTPUT_DIR/data/a", "CHECKPOINT_DIR/a", "CHECKPOINT_DIR is not a folder that the pods"),
        ("size: 3", "size: -1", "expected at least 0"),
        ("size: 3", "size: 3, secret: TOKEN", "'TOKEN' is not one of `secrets`"),
        (f"sha256: {DIGEST}, ", "", "the content of https://example.com/a may change"),
        ("https://example.com/a", "s3://UPPER/a", "expected an http or https URL"),
        ("https://example.com/a", "hf://owner/name", "expected an http or https URL"),
        ("https://example.com/a", "oci://registry.example/team/a:1", "expected an http or https URL"),
    ):
        (problem,) = problems(tmp_path, SOURCE.replace(old, new))
        assert message in problem


def test_address_with_a_commit_or_a_digest_needs_no_sha256(tmp_path: Path) -> None:
    for address in (
        f"hf://owner/name@{'0' * 40}",
        f"hf://datasets/owner/name@{'0' * 40}/data/a.csv",
        f"oci://a.example/b@sha256:{DIGEST}",
    ):
        source = f"{{from: '{address}', to: OUTPUT_DIR/data, size: 3}}"
        assert problems(tmp_path, source) == []
        loaded = load(demo.write(tmp_path / "other", f"{demo.SPEC}sources: [{source}]\n"))
        init = plan(loaded, loaded.spec.variants[0], Options()).overlays[0].init
        assert init is not None
        assert init.command[2:] == (address, "$(OUTPUT_DIR)/data", "-", "3", "-", "--")


def test_several_files_may_go_into_the_folder_itself(tmp_path: Path) -> None:
    source = f"{{from: 'hf://owner/name@{'0' * 40}', to: DATASET_DIR, size: 3}}"
    loaded = load(demo.write(tmp_path, f"{demo.SPEC}sources: [{source}]\n"))
    init = plan(loaded, loaded.spec.variants[0], Options()).overlays[0].init
    assert init is not None
    assert init.command[3] == "$(DATASET_DIR)/"


def test_source_needs_a_folder_a_digest_and_https_for_a_secret(tmp_path: Path) -> None:
    source = SOURCE.replace("OUTPUT_DIR/data", "DATASET_DIR")
    assert problems(tmp_path, source) == []
    (problem,) = problems(tmp_path, source, more="dataset: false\n")
    assert "DATASET_DIR is not a folder that the pods of this model can write to" in problem
    assert problem.endswith("(they can write to OUTPUT_DIR)")
    for address in ("hf://owner/name@main/a", "s3://bucket/a"):
        source = SOURCE.replace("https://example.com/a", address)
        assert problems(tmp_path, source) == []
        (problem,) = problems(tmp_path, source.replace(f"sha256: {DIGEST}, ", ""))
        assert f"the content of {address} may change" in problem
    source = SOURCE.replace("https://example.com", "s3://bucket").replace("size: 3", "size: 3, secret: TOKEN")
    (problem,) = problems(tmp_path, source, more="secrets: {TOKEN: {description: A token.}}\n")
    assert "the secrets for S3 are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in problem
    source = SOURCE.replace("size: 3", "size: 3, secret: TOKEN")
    secrets = "secrets: {TOKEN: {description: A token.}}\n"
    assert problems(tmp_path, source, more=secrets) == []
    (problem,) = problems(tmp_path, source.replace("https", "http"), more=secrets)
    assert "a secret is only sent by https" in problem


VARIANT = "  - {mode: cuda, script: train.sh, requirements: requirements.txt, files: [requirements.txt]}"
SPEC = demo.changed(VARIANT)


def test_only_packages_with_requirements_install_some(tmp_path: Path) -> None:
    loaded = load(demo.write(tmp_path, SPEC, {"requirements.txt": f"a==1 --hash=sha256:{DIGEST}"}))
    without, package = (render(plan(loaded, variant, Options())) for variant in loaded.spec.variants)
    texts = {entry.path: entry.content for entry in package.entries}
    script = "quickstart/common/mpi/k8s/mlops/base/requirements.sh"
    assert script in texts
    assert script not in {entry.path for entry in without.entries}
    for overlay, manifest in (("single-node", "pod.yaml"), ("multi-node", "mpi-job.yaml")):
        text = texts[f"quickstart/k8s/mlops/{overlay}/{manifest}"]
        assert isinstance(text, bytes)
        assert text.count(b"/etc/mlpack/runtime/requirements.sh") == 1
        values = texts[f"quickstart/k8s/mlops/{overlay}/mlops.env"]
        assert isinstance(values, bytes)
        assert b"PYTHONPATH=/home/mlpack/packages" in values


def test_sources_are_fetched_after_the_installation(tmp_path: Path) -> None:
    """A package may bring botocore, which finds the key of a pod's role."""
    source = "{from: https://example.com/a, to: OUTPUT_DIR/a, sha256: " + "0a" * 32 + ", size: 3}"
    loaded = load(demo.write(tmp_path, f"{SPEC}sources: [{source}]\n", {"requirements.txt": ""}))
    first = plan(loaded, loaded.spec.variants[1], Options()).overlays[0].init
    assert first is not None
    programs = [word for word in first.command if word.startswith("/etc/mlpack/runtime")]
    assert programs == ["/etc/mlpack/runtime/requirements.sh", "/etc/mlpack/runtime/sources.sh"]


def test_init_of_a_variant_follows_the_installation(tmp_path: Path) -> None:
    spec = SPEC.replace("{mode: cuda,", "{mode: cuda, init: {command: [prepare, -x]},")
    loaded = load(demo.write(tmp_path, spec, {"requirements.txt": ""}))
    first = plan(loaded, loaded.spec.variants[1], Options()).overlays[0].init
    assert first is not None
    assert first.command == ("/bin/sh", "/etc/mlpack/runtime/requirements.sh", "requirements.txt", "prepare", "-x")
