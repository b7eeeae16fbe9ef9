"""Inputs: a command line, and the mutated package that it names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from tests.broken import build
from tests.fuzz import mutate

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random


@dataclass(frozen=True, slots=True)
class Input:
    """One input of the fuzzer.

    Attributes:
        argv: The arguments of mlpack.
        destination: The only folder that mlpack may write to; None if it may not write at all.
        real: Whether the real kubectl renders, in place of a fast substitute.
        edited: Whether packages in the destination may have edits.
    """

    argv: list[str]
    destination: Path | None
    real: bool = False
    edited: bool = False


class Seeds:
    """The real packages that inputs are made from, in memory."""

    def __init__(self, work: Path) -> None:
        self.packages = {}
        for model in ("hello-mpi", "resnet50"):
            folder = build(work / model, model)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            self.packages[model] = {
                path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mode & 0o777) for path in files
            }


def word(random: Random) -> str:
    """Return a word for a command line, without NUL."""
    return str(random.choice(mutate.VALUES)).replace("\0", "")[:2000]


def package(random: Random, seeds: Seeds, folder: Path) -> Input:
    """Write a mutated package into the empty `folder`, and return the input for it."""
    files = dict(random.choice(list(seeds.packages.values())))
    _mutate_files(random, files)
    path = folder / "package"
    _write(files, path)
    argv = ["verify", str(path), *random.choice(([], ["-o", "json"], ["-v"]))]
    if random.random() < 0.05:
        argv += ["--kubernetes-version", word(random)]
    return Input(argv, None, real=random.random() < 0.003)


def _mutate_files(random: Random, files: dict[str, tuple[bytes, int]]) -> None:
    for _ in range(random.choice((1, 1, 2, 3))):
        name = random.choice([path for path in files if path.endswith((".yaml", ".env", ".json"))])
        content, mode = files[name]
        documents = values(name, content) if random.random() < 0.75 else []
        mutated = [mutate.value(random, value) for value in documents]
        if not documents:
            files[name] = mutate.raw(random, content), mode
        elif name.endswith(".json"):
            files[name] = json.dumps(mutated[0]).encode(), mode
        else:
            files[name] = b"---\n".join(map(dump, mutated)), mode


def values(name: str, content: bytes) -> list[Any]:
    """Return the documents of a file; none if it cannot be read, as after an earlier mutation."""
    try:
        if name.endswith(".json"):
            return [json.loads(content)]
        return list(yaml.load_all(content, yaml.CSafeLoader)) if name.endswith((".yaml", ".yml")) else []
    except Exception:  # noqa: BLE001 - PyYAML raises KeyError for `!!bool x`, AttributeError for `!!timestamp x`
        return []


def _write(files: dict[str, tuple[bytes, int]], folder: Path) -> None:
    folder.mkdir()
    for name, (content, mode) in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)


def dump(document: Any) -> bytes:
    """Return `document` as YAML; empty if YAML cannot represent it."""
    try:
        return yaml.dump(document, Dumper=yaml.CSafeDumper, allow_unicode=True, sort_keys=False).encode(
            "utf-8", "surrogatepass"
        )
    except yaml.YAMLError:
        return b""
