"""Reads a spec of Intel's Model Zoo into a Draft: the workloads of its manifests, or a Pod that runs its scripts."""

from __future__ import annotations

import json
import posixpath
import re
from typing import TYPE_CHECKING

from packager.base.fields import Download, anchored
from packager.base.names import LETTER_FIRST
from packager.base.problems import Problem, show
from packager.base.values import FieldsError, Value, convert
from packager.kubernetes import configmap
from packager.modelspec.importers.draft import Draft, DraftFile, Sketch, named
from packager.modelspec.importers.images import put_image
from packager.modelspec.importers.intel import documentation, manifests
from packager.modelspec.importers.intel.checkout import Checkout, checkout
from packager.modelspec.importers.intel.code import ZooFile, collected
from packager.modelspec.importers.intel.pool import KIND, Pool, arguments, items_of, loaded, release_slices
from packager.modelspec.importers.source import (
    ForeignValue,
    Ledger,
    ValueOrigin,
    decided,
    invalid,
    printable,
    read_bytes,
)
from packager.package.layout import KUSTOMIZATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_RUN = "run"
_OVERLAY = "single-node"
_SUFFIX = "_spec.yml"
_LONGEST_NAME = 40
_LARGE = 100 << 10
_PARTS = re.compile(
    r"(?P<package>.+?)-(?P<precision>fp32|int8|bf16|bfloat16|fp16)-(?P<mode>training|inference)(?P<k8s>-k8s)?"
)
_WRAPPER_FOLDERS = ("quickstart", "scripts")
# Keys that only name images and Dockerfiles.
_NAMING = ("add_to_name", "dockerfile_exclusive_name", "dockerfile_subdirectory")

_SCRIPT = """\
#!/bin/sh
# Runs {path}, which expects the folder of the code as the current one and in MODEL_DIR.
set -e
cd "${{CODE_DIR:-$(dirname "$0")/..}}"
MODEL_DIR=$PWD
export MODEL_DIR
# shellcheck disable=SC2086 # SCRIPT_ARGS are words
exec {start} $SCRIPT_ARGS
"""


class ZooChoices(Value, frozen=True):
    """The user's choices for an import.

    Attributes:
        models: The checkout of the zoo; found from the spec's own path when None.
        image: The image, in place of the one of the spec.
        downloads: Whether to put the package's downloads into `downloads`.
    """

    models: Path | None = None
    image: str | None = None
    downloads: bool = False


def spec_files(path: Path, name: str) -> list[tuple[Path, str]]:
    """Return the specs at `path`: the file itself, or those of packages in a folder and its folders."""
    if not path.is_dir():
        return [(path, name)]
    specs = sorted(file for file in path.rglob(f"*{_SUFFIX}") if file.is_file() and not file.is_symlink())
    packages = [file for file in specs if b"PACKAGE_NAME=" in read_bytes(file, str(file))]
    if not packages:
        problem = Problem(name, 0, 0, f"expected files called *{_SUFFIX} with a PACKAGE_NAME, found none")
        raise invalid(name, KIND, [problem])
    return [(file, f"{name.rstrip('/')}/{file.relative_to(path).as_posix()}") for file in packages]


def read(path: Path, name: str, choices: ZooChoices) -> Draft:
    """Return the draft of a package.

    Args:
        path: The spec of the package, in a folder of the zoo's tools/docker/specs.
        name: The name of the spec in messages.
        choices: The user's choices.

    Raises:
        SpecError: The file is not a spec of the zoo, or names files that do not exist.
    """
    ledger = Ledger()
    document = loaded(path, name, ledger)
    if "slice_sets" not in document.data:
        message = "expected releases and slice_sets"
        raise invalid(name, KIND, [document.problem((), message, hint="a spec of tools/docker/specs")])
    pool = Pool(path, name, document, ledger)
    slices = release_slices(pool)
    ledger.check(name, KIND)
    reader = _PackageImport(pool, slices, checkout(path, choices.models, name), choices)
    sketch = reader.draft()
    ledger.check(name, KIND)
    pool.own.report_unread()
    return Draft(
        sketch.data["name"],
        f"Imported from {printable(path.name)} by `mlpack import intel`.",
        sketch.data,
        sketch.origins,
        tuple(sketch.files),
        tuple(ledger.findings),
        tuple(sketch.options),
        tuple(sketch.site.items()),
        name,
        KIND,
    )


class _PackageImport:
    """The import of one package."""

    def __init__(self, pool: Pool, slices: list[ForeignValue], zoo: Checkout, choices: ZooChoices) -> None:
        self.pool = pool
        self.ledger = pool.own.ledger
        self.slices = slices
        self.own = slices[-1]
        self.zoo = zoo
        self.root = zoo.root
        self.choices = choices
        self.sketch = Sketch()
        self.folder = pool.own.document.name

    def draft(self) -> Sketch:
        """Fill in the sketch; problems and findings are in the ledger."""
        for entry in self.slices:
            for key in _NAMING:
                entry.child(key)
        package = self._names()
        entries = documentation.documents(self.own.child("documentation"))
        replaced = documentation.replacements(entries[0]) if entries else {}
        self._titles(package, replaced)
        self._left()
        items = items_of(self.slices, "files")
        files = collected(items, self.root)
        if self.ledger.problems:
            return self.sketch
        folder = self._manifests(files)
        documentation.put(self.sketch, entries, self.zoo, {} if folder else files, self.ledger)
        if folder is not None:
            for item in items:
                if item.source is self.pool.own:
                    item.leave("is not carried over: what runs is in the image")
            self._image(package, replaced, manifests.image(folder, self.zoo))
            manifests.put(self.sketch, folder, self.zoo, self.ledger, self.own)
        else:
            self._image(package, replaced, None)
            self._code(package, files)
        self._downloads()
        return self.sketch

    def _names(self) -> str:
        values = arguments(self.slices)
        if "PACKAGE_NAME" not in values:
            self.own.refuse("expected args with PACKAGE_NAME", "this file makes an image, and no package", at_key=True)
            return "package"
        text, entry = values["PACKAGE_NAME"]
        for name, (_, item) in values.items():
            if name != "PACKAGE_NAME" and item.source is self.pool.own:
                item.leave("is not carried over: it is for the zoo's Dockerfile")
        if not re.fullmatch(anchored(LETTER_FIRST), text) or len(text) > _LONGEST_NAME:
            naming = named(text, prefix="package")
            entry.leave(f"becomes {naming.name!r}, found {show(text)}")
            text = naming.name
        self.sketch.put(("name",), text, entry.origin)
        parts = _PARTS.fullmatch(text)
        if parts is None:
            self.sketch.put(("variants", 0), {}, decided("the name has no precision and no mode"))
        else:
            mode = parts["mode"] + (parts["k8s"] or "")
            self.sketch.put(("package",), parts["package"], entry.origin)
            self.sketch.put(("variants", 0, "precision"), parts["precision"], entry.origin)
            self.sketch.put(("variants", 0, "mode"), mode, entry.origin)
        return text

    def _titles(self, package: str, replaced: dict[str, ForeignValue]) -> None:
        title = replaced.get("<model name>")
        text = "".join(character for character in (title.text() or "") if character.isprintable()) if title else ""
        self.sketch.put(("title",), text[:200].strip() or package, title.origin if title else decided("its name"))
        if (use := replaced.get("<use case>")) and (word := use.text()):
            label = re.sub("[^a-z0-9_-]+", "_", word.lower()).strip("-_")[:_LONGEST_NAME]
            if label:
                self.sketch.put(("use_case",), label, use.origin)
        folder = self.folder.replace("\\", "/").split("/")[-2:-1] or ["tensorflow"]
        framework = named(folder[0], prefix="framework").name if folder[0] not in ("", ".") else "tensorflow"
        if framework == "k8s":
            framework = "tensorflow"
        self.sketch.put(("framework",), framework, decided("the folder of its spec"))

    def _image(self, package: str, replaced: dict[str, ForeignValue], served: ForeignValue | None) -> None:
        entry = replaced.get("<docker image>")
        if self.choices.image is not None:
            put_image(self.sketch, self.choices.image, ValueOrigin("--image", "--image"), self.ledger)
            if entry:
                entry.leave("is replaced by --image")
        elif served is not None and (text := served.text()):
            put_image(self.sketch, text, served.origin, self.ledger)
            if entry and text not in (entry.value, f"docker.io/{entry.value}"):
                entry.leave(f"is replaced by {show(printable(text))}, which the manifests run")
        elif entry is not None and (text := entry.text()):
            put_image(self.sketch, text, entry.origin, self.ledger)
        else:
            reference = f"localhost/model-zoo:{package}"
            put_image(self.sketch, reference, decided("the spec names no image"), self.ledger)
            message = f"the spec names no image: {reference} is made up"
            self.ledger.findings.append(self.own.problem(message, "build it as the zoo does, or name one by --image"))

    def _left(self) -> None:
        """Report the parts of a spec that a package cannot have."""
        for entry in self.slices:
            for key, message in (
                ("partials", "are not carried over: build the image as the zoo does"),
                ("tests", "are not carried over"),
                ("test_runtime", "is not carried over"),
            ):
                child = entry.child(key)
                if child is None:
                    continue
                if entry.source is self.pool.own and child.value:
                    child.leave(message)
                else:
                    child.done()
        if runtime := self.own.child("runtime"):
            runtime.leave("is not carried over: mlops.env, site.env and mlpack configure have these values")

    def _downloads(self) -> None:
        """Put the package's downloads, if the user chooses so; add a finding for each, as the zoo states no digest."""
        number = 0
        for item in items_of(self.slices, "downloads"):
            source, destination = item.at("source"), item.at("destination")
            url = ((source.text() if source else None) or "").strip()
            target = posixpath.normpath(((destination.text() if destination else None) or "").strip() or ".")
            shown = f"({printable(url)} to {printable(target)})"
            download = {"url": url, "path": target}
            if not _is_download(download):
                item.leave(f"{shown} is not carried over: expected an http or https URL and a path in the package")
            elif not self.choices.downloads:
                hint = "import it with --downloads, or put the file into the image or on the dataset's storage"
                item.leave(f"{shown} is not carried over: the zoo states no digest of it", hint)
            else:
                for key, value in download.items():
                    self.sketch.put(("downloads", number, key), value, item.origin)
                number += 1
                item.leave(
                    f"{shown} is fetched into assets, and the zoo states no digest of it",
                    "mlpack build --record adds the one that it sees; scripts look for the file in their own folder",
                )

    def _manifests(self, files: dict[str, ZooFile]) -> str | None:
        """Return the folder in the checkout with the package's manifests; None without any."""
        for path, file in files.items():
            steps = path.split("/")
            if steps[:2] == ["quickstart", "mlops"] and steps[-1] in KUSTOMIZATIONS:
                below = file.path.relative_to(self.root).as_posix().split("/")
                return "/".join(below[: below.index("mlops") + 1])
        return None

    def _code(self, package: str, files: dict[str, ZooFile]) -> None:
        """Put the files into ConfigMaps if they fit; else only the scripts that start the code in the image."""
        wrappers = [path for path in files if _is_wrapper(path)]
        if not wrappers:
            wrappers = [path for path in files if "/" not in path and path.endswith((".py", ".sh"))]
        if not wrappers:
            self.own.refuse("expected a script in quickstart or scripts, found none", at_key=True)
            return
        code = {path: file for path, file in files.items() if not path.startswith("licenses/")}
        fits = _fits(list(code.values()))
        tops = sorted({path.partition("/")[0] for path in code})
        origin = self.own.child("files")
        place = origin.origin if origin else decided("the files of its slices")
        if _RUN in tops:
            self.own.refuse(f"the package has {_RUN!r} itself, where the scripts go that start its own", at_key=True)
            return
        if fits:
            self.sketch.put(("files",), [*tops, _RUN], place)
        else:
            self.sketch.put(("files",), [_RUN], decided("scripts of mlpack's own"))
            message = "the code does not fit into ConfigMaps: it runs from the image, which the zoo puts it into"
            self.ledger.findings.append(self.own.problem(message, "changing it takes a new image", at_key=True))
            self.sketch.put(
                ("environment", "CODE_DIR"), f"/workspace/{package}", decided("where the image has the code")
            )
        licenses = any(path.startswith("licenses/") for path in files)
        assets = ["licenses"] if licenses else []
        if not fits:
            assets = sorted({path.partition("/")[0] for path in files})
        if assets:
            self.sketch.put(("assets",), assets, place)
        for path, file in sorted(files.items()):
            self.sketch.files.append(DraftFile(path, file.path, file.executable))
        for path in wrappers:
            start = f"python3 ./{path}" if path.endswith(".py") else f"./{path}"
            text = _SCRIPT.format(path=path, start=start)
            self.sketch.files.append(DraftFile(_started(path), text.encode(), executable=True))
        names = [_started(path) for path in wrappers]
        origin_of = files[wrappers[0]].entry.origin
        key = ("variants", 0, "scripts") if len(names) > 1 else ("variants", 0, "script")
        self.sketch.put(key, names if len(names) > 1 else names[0], origin_of)
        arguments_of = {"value": "", "description": "more arguments for the script"}
        self.sketch.put(("environment", "SCRIPT_ARGS"), arguments_of, decided("what scripts pass on"))
        self.sketch.put(("overlays", _OVERLAY, "kind"), "Pod", decided("one container runs the package"))
        self._warn(wrappers, files)

    def _warn(self, wrappers: Sequence[str], files: dict[str, ZooFile]) -> None:
        """Report commands in the scripts that may fail in a package's container."""
        for path in wrappers:
            file = files[path]
            text = read_bytes(file.path, path, _LARGE).decode("utf-8", "replace")
            advice = []
            if "--socket-id" in text:
                passes = "$@" in text
                hint = "SCRIPT_ARGS=--socket-id -1 in mlops.env" if passes else "edit the script"
                advice.append(("uses numactl, which needs a capability that containers do not have", hint))
            if re.search(r"\b(mpirun|mpiexec)\b", text):
                advice.append(("starts mpirun itself, in one container", "an MPIJob needs a spec of its own"))
            if re.search(r"\b(tar -?x|unzip|git apply|wget|curl)\b", text):
                advice.append(("unpacks, fetches or patches files", "write to OUTPUT_DIR: its folder is read-only"))
            for message, hint in advice:
                problem = Problem(
                    file.entry.problem("").file, file.entry.problem("").line, 1, f"{path} {message}", hint
                )
                self.ledger.findings.append(problem)


def _is_download(values: dict[str, str]) -> bool:
    """Whether a spec can have a download with these values."""
    try:
        convert(values, Download)
    except FieldsError:
        return False
    return True


def _started(path: str) -> str:
    """Return the path of the generated script that starts a file of the package."""
    name = path.rpartition("/")[2]
    return f"{_RUN}/{name.removesuffix('.py')}{'' if name.endswith('.sh') else '.sh'}"


def _is_wrapper(path: str) -> bool:
    folder, slash, name = path.partition("/")
    return bool(slash) and folder in _WRAPPER_FOLDERS and "/" not in name and name.endswith(".sh")


def _fits(files: Sequence[ZooFile]) -> bool:
    """Whether files fit into the ConfigMaps of a package; this is an estimate, the build counts exactly."""
    if sum(file.size for file in files) > configmap.CODE_PARTS * configmap.CODE_BYTES * 0.9:
        return False
    for file in files:
        if file.size > configmap.CODE_BYTES:
            return False
        if file.size > _LARGE and len(json.dumps(file.path.read_bytes().decode("utf-8", "replace"))) > configmap.BYTES:
            return False
    return True
