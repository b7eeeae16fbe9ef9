"""The programs of overlays that are too large for a manifest; the other cases are in golden/spec/programs.yml."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests import demo

if TYPE_CHECKING:
    from pathlib import Path


def test_command_and_args_have_a_total_limit(tmp_path: Path) -> None:
    key = "command"
    column = 28
    arguments = json.dumps(["a" * 20_000] * 4)
    overlay = f"{{kind: Pod}} => {{kind: Pod, {key}: {arguments}}}"
    path = demo.write(tmp_path, demo.changed(", script: train.sh => , overlays: [single-node]", overlay))
    assert demo.problems(path) == [
        f"spec.yaml:7:{column}: the words take 78 KiB; at most 64 KiB fit (put them into a file)"
    ]


def test_overlay_without_a_variant_is_checked(tmp_path: Path) -> None:
    path = demo.write(
        tmp_path,
        demo.changed(
            "script: train.sh => script: train.sh, overlays: [single-node]",
            "multi-node: {kind: MPIJob} => multi-node: {kind: MPIJob, script: trian.sh, workdir: src}",
        ),
    )
    assert demo.problems(path) == [
        "spec.yaml:8:38: 'trian.sh' is not one of `files` (did you mean 'train.sh'?)",
        "spec.yaml:8:57: `files` have no folder 'src' (a folder of the image is an absolute path: /src)",
    ]
