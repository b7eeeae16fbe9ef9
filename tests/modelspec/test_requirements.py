"""Requirements files of variants: what lint accepts and refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.modelspec.load import load
from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = f"sha256:{'0a' * 32}"
VARIANT = "  - {mode: cuda, script: train.sh, requirements: requirements.txt, files: [requirements.txt]}"
SPEC = demo.changed(VARIANT)


def problems(folder: Path, requirements: str | bytes) -> list[str]:
    return demo.problems(demo.write(folder, SPEC, {"requirements.txt": requirements}))


def test_only_packages_with_digests_are_accepted(tmp_path: Path) -> None:
    for requirements in [
        "",
        f"a==1 --hash={DIGEST}",
        f"# a\r\na-b[c, d] == 1.post1+cu1 ; sys_platform == 'x' \\\r\n  --hash={DIGEST} \\\r\n  --hash={DIGEST}\r\n",
        f"a==1!2 \\\n    --hash={DIGEST}\n    # via b\nb==2 --hash={DIGEST} # why\n",
    ]:
        assert problems(tmp_path, requirements) == []
    for line, found in (
        ("a==1", "found no digest of 'a==1'"),
        (f"a>=1 --hash={DIGEST}", "found 'a>=1"),
        (f"a==1 --hash=md5:{'0' * 32}", "found the digest 'md5:"),
        ("a==1 --hash=sha256:0a", "found the digest 'sha256:0a'"),
        (f"a==1 --hash={DIGEST} --global-option=x", f"found the digest '{DIGEST[:20]}"),
        ("--index-url https://evil.example", "found '--index-url"),
        ("-r ../other.txt", "found '-r ../other.txt'"),
        ("-e .", "found '-e .'"),
        (f"a @ https://evil.example/a.whl --hash={DIGEST}", "found 'a @ https"),
        (f"a==1; $(touch x) --hash={DIGEST}", "found 'a==1; $(touch x)"),
        (f"a==$VERSION --hash={DIGEST}", "found 'a==$VERSION"),
    ):
        (problem,) = problems(tmp_path, f"# first\nb==1 --hash={DIGEST}\n{line}\n")
        assert problem.startswith("requirements.txt:3:1: expected NAME==VERSION and its files' --hash=sha256:…, ")
        assert found in problem
        assert "pip-compile --generate-hashes" in problem
    assert problems(tmp_path, "a\n" * 5_000)[100:] == ["requirements.txt:101:1: 4,900 more problems are not listed"]
    (problem,) = problems(tmp_path, b"\n\n\xff")
    assert problem.startswith("requirements.txt:3:1: the line is not UTF-8")


def test_requirements_must_be_one_of_the_files(tmp_path: Path) -> None:
    spec = demo.write(tmp_path, SPEC.replace(", files: [requirements.txt]", ""), {"requirements.txt": ""})
    (problem,) = demo.problems(spec)
    assert "'requirements.txt' is not one of the variant's `files`" in problem


def test_only_packages_with_requirements_install_some(tmp_path: Path) -> None:
    loaded = load(demo.write(tmp_path, SPEC, {"requirements.txt": f"a==1 --hash={DIGEST}"}))
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
