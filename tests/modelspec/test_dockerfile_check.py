"""The sources of a spec's Dockerfile are in the package, or lint reports them; the context contains no secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import SpecError
from packager.modelspec.load import load
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

SPEC = demo.changed(
    'tag: "1.0"} => tag: "1.0", dockerfile: Dockerfile}', "assets: [data]", "[train.sh] => [train.sh, lib/a.py]"
)
FILES = {"lib/a.py": "#!/usr/bin/env python3\n", "data/set.csv": "1\n", "data/deep/x.bin": "2\n", "data/[a].txt": ""}
NOWHERE = "there is no such file in the image's context"
HELP = "the spec's `files` are in quickstart/scripts, and its `assets` in assets"


def lint(folder: Path, dockerfile: str) -> list[str]:
    try:
        load(demo.write(folder, SPEC, {**FILES, "Dockerfile": dockerfile}))
    except SpecError as error:
        return [str(problem).removeprefix(f"{folder}/") for problem in error.problems]
    return []


def test_lint_accepts_sources_that_exist_or_cannot_be_checked(tmp_path: Path) -> None:
    for line in [
        "COPY ./quickstart/scripts/lib/a.py assets/data/set.csv /x/",
        "copy /assets/data /x",
        "COPY . /x",
        "COPY --chown=1000:1000 --chmod=755 assets /x",
        "COPY --from=builder /nowhere /x",
        "COPY assets/data/se?.c[rs]v /x",
        "COPY assets/**/x.bin /x",
        r"COPY assets/data/\[a\].txt /x",
        'COPY ["assets/data", "/x"]',
        "COPY $NAME/a ${OTHER}/b /x",
        "ADD git://example.com/a/b /x",
        "COPY \\\n  assets/data \\\n# said between\n  /x",
        "# syntax=docker/dockerfile:1\n# escape=`\nCOPY assets/data `\n  /x",
        "COPY <<EOF /x\nCOPY nowhere /y\nEOF",
        "RUN <<-'A' cat\nCOPY nowhere /y\n\tA\nCOPY assets /x",
        "RUN cat <<< COPY\nCOPY assets /x",
        "RUN echo \\\n COPY nowhere /x",
        'COPY ["x',
        "COPY [1, 2]",
        "COPY assets /x\r",
    ]:
        prefix = "" if line.startswith("# ") else "FROM scratch\n"
        assert lint(tmp_path, f"{prefix}{line}\n") == []


def test_lint_reports_sources_missing_from_the_package(tmp_path: Path) -> None:
    for line, expected in [
        ("COPY train.sh /", f"2:6: COPY train.sh: {NOWHERE} (it is quickstart/scripts/train.sh)"),
        ("ADD --chown=1 a.py /", f"2:15: ADD a.py: {NOWHERE} (it is quickstart/scripts/lib/a.py)"),
        ("COPY assets nowhere /", f"2:13: COPY nowhere: {NOWHERE} ({HELP})"),
        ("COPY assets/dat/set.cs /", f"2:6: COPY assets/dat/set.cs: {NOWHERE} (did you mean 'assets/data/set.csv'?)"),
        ("COPY \\\n# said\n  nowhere /x", f"4:3: COPY nowhere: {NOWHERE} ({HELP})"),
        ('COPY ["nowhere", "/x"]', f"2:7: COPY nowhere: {NOWHERE} ({HELP})"),
        ("COPY *.txt /", f"2:6: COPY *.txt: {NOWHERE} ({HELP})"),
        ("COPY quickstart/k8s /", f"2:6: COPY quickstart/k8s: {NOWHERE} ({HELP})"),
        ("RUN <<A\nx\nA\nCOPY nowhere /x", f"5:6: COPY nowhere: {NOWHERE} ({HELP})"),
        ("COPY no\x1bwhere /x", f"2:6: COPY 'no\\x1bwhere': {NOWHERE} ({HELP})"),
    ]:
        assert lint(tmp_path, f"FROM scratch\n{line}\n") == [f"Dockerfile:{expected}"]


def test_dockerignore_admits_only_code_and_assets_without_secrets(
    mlpack: Callable[..., Outcome], tmp_path: Path
) -> None:
    demo.write(tmp_path / "demo", SPEC, {**FILES, "Dockerfile": "FROM scratch\n"})
    assert mlpack("build", "./demo", "--format", "dir").code == 0
    lines = (tmp_path / "demo-fp32-training/.dockerignore").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        *("*", "!assets", "!quickstart", "quickstart/*", "!quickstart/scripts"),
        *("**/.git", "**/.env*", "**/.ssh", "**/.netrc"),
    ]


def test_package_has_no_dockerignore_without_a_dockerfile(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    demo.write(tmp_path / "demo")
    assert mlpack("build", "./demo", "--format", "dir").code == 0
    assert not (tmp_path / "demo-fp32-training/.dockerignore").exists()
