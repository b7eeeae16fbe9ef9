"""Tests of `packager.site`: which file it finds, which files it accepts, and what it says of the others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError, UsageError
from packager.package.options import OPTIONS
from packager.site import find
from packager.site.read import create, parsed, read

if TYPE_CHECKING:
    from pathlib import Path

COMPLETE = """\
registry: reg.example.com/team
root: /nfs/models
ids: {uid: 2000, gid: 3000, fsGroup: 4000}
storage:
  pvc: {OUTPUT_CLAIM: results, DATASET_CLAIM: dataset}
queue: user-queue
pullSecret: registry
nodeSelector: {pool: train}
tolerations:
  - {key: train, operator: Exists, effect: NoSchedule}
options:
  shared-memory: {SHM_SIZE: 8Gi}
"""


def problems(path: Path, text: str | bytes) -> list[str]:
    with pytest.raises(UsageError) as refused:
        parsed(path, text.encode() if isinstance(text, str) else text)
    assert str(refused.value) == f"{path} is not valid"
    return [str(problem).removeprefix(f"{path}:") for problem in refused.value.problems]


def test_read_accepts_complete_file_and_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(COMPLETE, encoding="utf-8")
    assert read(path).config.queue == "user-queue"
    path.write_text("# nothing\n", encoding="utf-8")
    assert read(path).config.registry is None


def test_read_reports_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be read"):
        read(tmp_path / "none.yaml")


def test_read_reports_all_problems_with_their_places(tmp_path: Path) -> None:
    text = (
        "registery: x\n"
        "root: rel\n"
        "ids: {uid: -1, gid: a}\n"
        "storage: {pvc: {OUTPUT_CLAM: a}, nfs: {NFS_SERVER: a b}, gpu: {}}\n"
        "queue: A B\n"
        "options: {shared-memry: {}, queue: {}, gpu: {GPU_COUNT: 0}}\n"
        'nodeSelector: {"a b": c}\n'
        "tolerations: [{key: a, efect: NoSchedule}]\n"
    )
    storages = (
        "scratch, host-path, nfs, pvc, output-host-path, output-nfs, output-pvc, dataset-host-path, dataset-nfs, "
        "dataset-pvc, checkpoint-host-path, checkpoint-nfs, checkpoint-pvc, model-host-path, model-nfs, model-pvc, "
        "package-volume"
    )
    shorter = ("queue", "pull-secret")
    others = ", ".join(option.name for option in OPTIONS if not option.places and option.name not in shorter)
    assert problems(tmp_path / "site.yaml", text) == [
        "1:1: unknown key 'registery' (did you mean 'registry'?)",
        "2:7: expected an absolute path without ':' and '..', found 'rel'",
        "3:12: expected at least 0, found the number -1",
        "3:21: expected a whole number, found 'a'",
        "4:11: nfs and pvc cannot be combined: each sets where results go (keep one of them)",
        "4:11: the option pvc needs OUTPUT_CLAIM (pvc: {OUTPUT_CLAIM: results})",
        "4:17: the option pvc reads no 'OUTPUT_CLAM' (did you mean 'OUTPUT_CLAIM'?)",
        "4:52: expected a host's name or address, found 'a b'",
        f"4:58: expected one of {storages}, found 'gpu' (put it below `options`)",
        "5:8: expected the name of an object in Kubernetes (at most 253), found 'A B'",
        f"6:11: expected one of {others}, found 'shared-memry' (did you mean 'shared-memory'?)",
        "6:29: the option queue has a key of its own (queue: NAME)",
        "6:57: expected a whole number from 1, found '0'",
        "7:16: expected a key such as pool or example.com/pool, found the key 'a b'",
        "8:24: unknown key 'efect' (did you mean 'effect'?)",
    ]


def test_read_refuses_hostile_or_wrong_file(tmp_path: Path) -> None:
    for text, problem in (
        ("- a\n", "1:1: expected a mapping, found a list"),
        ("registry: a\nregistry: b\n", "2:1: duplicate key 'registry' (keep one of them)"),
        ("nodeSelector: {}\n", "1:15: expected at least 1 key, found an empty mapping"),
        ("ids: {uid: 0}\n", "1:12: user 0 needs the option root (options: {root: {}})"),
        (
            "options: {service-account: }\n",
            "1:11: the option service-account needs SERVICE_ACCOUNT (service-account: {SERVICE_ACCOUNT: trainer})",
        ),
        ('registry: "a\\e[2J"\n', "1:11: expected a host, optionally with a port and a path, found 'a\\x1b[2J'"),
        ('queue: "a\\nb"\n', "1:8: expected the name of an object in Kubernetes (at most 253), found 'a\\nb'"),
        (
            'storage: {pvc: {OUTPUT_CLAIM: "a\\nX=1"}}\n',
            "1:31: expected the name of an object in Kubernetes, found 'a\\nX=1'",
        ),
        (b"registry: \xff\n", "1:11: expected UTF-8 text, found other bytes"),
    ):
        assert problems(tmp_path / "site.yaml", text) == [problem]


def test_values_of_a_site_are_those_of_options_and_short_keys(tmp_path: Path) -> None:
    site = parsed(tmp_path / "site.yaml", COMPLETE.encode())
    assert site.ids == {"uid": 2000, "gid": 3000, "fs_group": 4000}
    assert site.storage == ("pvc",)
    assert site.options == ("queue", "placement", "pull-secret", "shared-memory")
    assert site.values == {
        "OUTPUT_CLAIM": "results",
        "DATASET_CLAIM": "dataset",
        "SHM_SIZE": "8Gi",
        "QUEUE": "user-queue",
        "PULL_SECRET": "registry",
    }
    assert site.placement == {
        "nodeSelector": {"pool": "train"},
        "tolerations": [{"key": "train", "operator": "Exists", "effect": "NoSchedule"}],
    }
    empty = parsed(tmp_path / "site.yaml", b"")
    assert (empty.entries, empty.storage, empty.options, empty.config.registry) == ((), (), (), None)


def test_find_returns_nearest_file_above(tmp_path: Path) -> None:
    config, folder = tmp_path / "config.yaml", tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    assert find(folder, config) is None
    config.touch()
    assert find(folder, config) == config
    (tmp_path / "mlpack-site.yaml").touch()
    assert find(folder, config) == tmp_path / "mlpack-site.yaml"
    (tmp_path / "a" / "mlpack-site.yaml").touch()
    assert find(folder, config) == tmp_path / "a" / "mlpack-site.yaml"


def test_find_ignores_file_that_came_with_a_package(tmp_path: Path) -> None:
    package = tmp_path / "hello"
    (package / "quickstart").mkdir(parents=True)
    (package / "manifest.json").touch()
    (package / "mlpack-site.yaml").touch()
    (package / "quickstart" / "mlpack-site.yaml").touch()
    assert find(package / "quickstart", tmp_path / "none") is None
    (tmp_path / "mlpack-site.yaml").touch()
    assert find(package / "quickstart", tmp_path / "none") == tmp_path / "mlpack-site.yaml"


def test_created_file_is_valid_with_every_line_uncommented(tmp_path: Path) -> None:
    path = tmp_path / "new" / "site.yaml"
    create(path, force=False)
    lines = [re.sub(r"^#(?! )|^#(?=  )", "", line) for line in path.read_text(encoding="utf-8").splitlines()]
    config = parsed(path, "\n".join(lines).encode()).config
    assert config.registry == "registry.example.com/team"
    assert config.tolerations
