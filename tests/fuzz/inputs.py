"""Inputs: a command line, and the mutated spec or package that it names."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from packager.modelspec.catalog import bundled
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
    """The real specs and packages that inputs are made from, in memory."""

    def __init__(self, work: Path) -> None:
        self.models = [path.parent for path in sorted(bundled().glob("*/spec.yaml"))]
        self.packages = {}
        for model in ("hello-mpi", "resnet50"):
            folder = build(work / model, model)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            self.packages[model] = {
                path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mode & 0o777) for path in files
            }


def make(random: Random, seeds: Seeds, folder: Path) -> Input:
    """Write a mutated spec or package into the empty `folder`, and return the input for it."""
    return spec(random, seeds, folder) if random.random() < 0.5 else package(random, seeds, folder)


def spec(random: Random, seeds: Seeds, folder: Path) -> Input:
    """Write a mutated spec into the empty `folder`, and return the input for it."""
    model = folder / "specs/model"
    source = random.choice(seeds.models)
    shutil.copytree(source, model)
    path = model / "spec.yaml"
    text = path.read_bytes()
    if random.random() < 0.6:
        path.write_bytes(dump(mutate.value(random, yaml.load(text, yaml.CSafeLoader))))
    else:
        path.write_bytes(mutate.raw(random, text))
    if random.random() < 0.1:
        _harm_a_file(random, model)
    destination = folder / "out"
    destination.mkdir()
    match random.randrange(8):
        case 0:
            return Input(["lint", str(path)], None)
        case 1:
            return Input(["show", str(path), *_json(random)], None)
        case 2:
            return Input(["list", "--specs", str(folder / "specs"), *_json(random)], None)
        case _:
            argv = ["build", str(path), "-d", str(destination), *_options(random), *_json(random)]
            return Input(argv, destination)


def _harm_a_file(random: Random, model: Path) -> None:
    victim = random.choice(sorted(path for path in model.iterdir() if path.name != "spec.yaml"))
    match random.randrange(5):
        case 0:
            victim.unlink()
        case 1:
            victim.unlink()
            victim.symlink_to(random.choice(("/etc/passwd", "..", victim.name, "spec.yaml", "nothing")))
        case 2:
            victim.unlink()
            victim.mkdir()
        case 3:
            victim.write_bytes(mutate.raw(random, victim.read_bytes()))
        case _:
            victim.write_bytes(b"x" * 300_000)


def _options(random: Random) -> list[str]:
    options = []
    for flag in ("--root", "--registry", "--precision", "--mode"):
        if random.random() < 0.05:
            options += [flag, word(random)]
    if random.random() < 0.15:
        path = random.choice(("environment.STEPS", "overlays.multi-node.workers", "package", "variants", word(random)))
        options += ["--set", f"{path}={word(random)}"]
    if random.random() < 0.3:
        options += ["--format", "dir"]
    if random.random() < 0.5:
        options.append("--all")
    return options


def word(random: Random) -> str:
    """Return a word for a command line, without NUL."""
    return str(random.choice(mutate.VALUES)).replace("\0", "")[:2000]


def _json(random: Random) -> list[str]:
    return ["-o", "json"] if random.random() < 0.3 else []


def package(random: Random, seeds: Seeds, folder: Path) -> Input:
    """Write a mutated package into the empty `folder`, and return the input for it."""
    files = dict(random.choice(list(seeds.packages.values())))
    if random.random() < 0.75:
        _mutate_files(random, files)
    archive = random.random() < 0.6
    path = folder / ("package.tar.gz" if archive else "package")
    if archive:
        path.write_bytes(_archive(random, files))
    else:
        _write(files, path)
    argv = ["verify", str(path), *_json(random)]
    if random.random() < 0.2:
        argv.append("-v")
    if random.random() < 0.05:
        argv += [random.choice(("--kubernetes-version", "--max-size", "--max-files")), word(random)]
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


def _archive(random: Random, files: dict[str, tuple[bytes, int]]) -> bytes:
    """Return a tar.gz of `files`, sometimes with changed members, or changed bytes of the tar or the gzip stream."""
    stream = io.BytesIO()
    form = random.choice((tarfile.PAX_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
    harmed = random.randrange(len(files)) if random.random() < 0.3 else -1
    with tarfile.open(fileobj=stream, mode="w", format=form, errors="surrogateescape") as tar:
        for index, (name, (content, mode)) in enumerate(files.items()):
            info = tarfile.TarInfo(f"package/{name}")
            info.size, info.mode = len(content), mode
            if index == harmed:
                _harm_a_member(random, info)
            try:
                tar.addfile(info, io.BytesIO(content + bytes(max(info.size - len(content), 0))))
            except (ValueError, OSError, OverflowError):
                continue  # not even tarfile can write it
    content = stream.getvalue()
    if random.random() < 0.2:
        content = mutate.raw(random, content)
    compressed = gzip.compress(content, 1, mtime=0)
    return mutate.raw(random, compressed) if random.random() < 0.2 else compressed


def _harm_a_member(random: Random, info: tarfile.TarInfo) -> None:
    match random.randrange(6):
        case 0:
            info.name = word(random) or "x"
        case 1:
            info.name = random.choice(("package/", "../", "/", "")) + info.name
        case 2:
            info.type = bytes((random.randrange(256),))
            info.linkname = word(random)[:90]
        case 3:
            info.size = random.choice((0, 1, info.size + 1, 1 << 20))
        case 4:
            info.mode = random.randrange(0o10000)
        case _:
            info.pax_headers = {
                random.choice(("path", "size", "linkpath", "GNU.sparse.map", "mtime", "x")): word(random)
            }


def dump(document: Any) -> bytes:
    """Return `document` as YAML; empty if YAML cannot represent it."""
    try:
        return yaml.dump(document, Dumper=yaml.CSafeDumper, allow_unicode=True, sort_keys=False).encode(
            "utf-8", "surrogatepass"
        )
    except yaml.YAMLError:
        return b""
