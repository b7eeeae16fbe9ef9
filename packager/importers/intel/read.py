"""A spec of Intel's Model Zoo -> Draft: a Pod that runs the scripts of the package, or what its manifests say."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from packager.base.errors import SpecError
from packager.base.fields import anchored
from packager.base.names import LETTER_FIRST
from packager.base.problems import Problem, show
from packager.importers.draft import Draft, DraftFile, Sketch, named
from packager.importers.images import put_image
from packager.importers.intel import manifests
from packager.importers.intel.code import ZooFile, collected, plain_path
from packager.importers.intel.pool import KIND, Pool, arguments, items_of, loaded, release_slices
from packager.importers.source import ForeignValue, Ledger, ValueOrigin, decided, invalid, printable, read_bytes
from packager.kubernetes import configmap
from packager.package.layout import KUSTOMIZATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_RUN = "run"
_OVERLAY = "single-node"
_SUFFIX = "_spec.yml"
_K8S = "-k8s"
_SPECS = "tools/docker/specs"
_LONGEST_NAME = 40
_LONGEST_DESCRIPTION = 20_000
_LARGE = 100 << 10
_PARTS = re.compile(
    r"(?P<package>.+?)-(?P<precision>fp32|int8|bf16|bfloat16|fp16)-(?P<mode>training|inference)(?P<k8s>-k8s)?"
)
_UNPRINTABLE = re.compile(r"[^\n\t -~\xa1-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_LEFT_OUT = ("Title", "Download link", "Bare Metal", "Docker", "Kubernetes", "License link", "License")
_WRAPPER_FOLDERS = ("quickstart", "scripts")
# What only names images and Dockerfiles.
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


def read(path: Path, name: str, models: Path | None = None, image: str | None = None) -> Draft:
    """Return the draft of a package.

    Args:
        path: Its spec, in a folder of the zoo's tools/docker/specs.
        name: How messages name it.
        models: The checkout of the zoo; found from the spec's own path when None.
        image: The image, in place of the one of the spec.

    Raises:
        SpecError: It is not such a spec, or names what is not there.
    """
    ledger = Ledger()
    document = loaded(path, name, ledger)
    if "slice_sets" not in document.data:
        message = "expected releases and slice_sets"
        raise invalid(name, KIND, [document.problem((), message, hint="a spec of tools/docker/specs")])
    pool = Pool(path, name, document, ledger)
    slices = release_slices(pool)
    ledger.check(name, KIND)
    root = _checkout(path, models, name)
    reader = _PackageImport(pool, slices, root, image)
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


def _checkout(path: Path, models: Path | None, name: str) -> Path:
    """Return the checkout of the zoo: what is given, or the folder above the spec's tools/docker/specs."""
    if models is not None:
        return models.resolve()
    real = path.resolve()
    for folder in real.parents:
        if real.is_relative_to(folder / _SPECS):
            return folder
    raise SpecError(f"{name} is not in a folder {_SPECS}", hint="--models-dir names the checkout of the zoo")


class _PackageImport:
    """The import of one package."""

    def __init__(self, pool: Pool, slices: list[ForeignValue], root: Path, image: str | None) -> None:
        self.pool = pool
        self.ledger = pool.own.ledger
        self.slices = slices
        self.own = slices[-1]
        self.root = root
        self.image = image
        self.sketch = Sketch()
        self.folder = pool.own.document.name

    def draft(self) -> Sketch:
        """Fill in the sketch; problems and findings are in the ledger."""
        for entry in self.slices:
            for key in _NAMING:
                entry.child(key)
        package = self._names()
        documentation = self.own.child("documentation")
        if documentation and isinstance(documentation.value, list):  # since v2.7: one for each document
            documents = documentation.items()
            for other in documents[1:]:
                other.leave("is not carried over: a package has one README")
            documentation = documents[0] if documents else None
        if documentation and not documentation.is_mapping():
            documentation = None
        replaced = self._replacements(documentation)
        self._titles(package, replaced)
        self._description(documentation, replaced)
        self._left()
        items = items_of(self.slices, "files")
        files = collected(items, self.root)
        if self.ledger.problems:
            return self.sketch
        folder = self._manifests(files)
        if folder is not None:
            for item in items:
                if item.source is self.pool.own:
                    item.leave("is not carried over: what runs is in the image")
            self._image(package, replaced, manifests.image(folder, self.root))
            manifests.put(self.sketch, folder, self.root, self.ledger, self.own)
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

    def _replacements(self, documentation: ForeignValue | None) -> dict[str, ForeignValue]:
        listed = documentation.at("text_replace") if documentation else None
        if documentation is None:
            return {}
        for key in ("name", "uri"):
            documentation.child(key)
        return {entry.key: entry for entry in listed.children() if entry.value is not None} if listed else {}

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
        if self.image is not None:
            put_image(self.sketch, self.image, ValueOrigin("--image", "--image"), self.ledger)
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

    def _description(self, documentation: ForeignValue | None, replaced: dict[str, ForeignValue]) -> None:
        """Put the sections of the README that are true of the new package."""
        listed = documentation.at("docs") if documentation else None
        texts: list[str] = []
        for item in listed.items() if listed else ():
            name, uri = item.at("name"), item.at("uri")
            title = (name.text() if name else None) or ""
            if title in _LEFT_OUT or uri is None:
                item.leave(f"({show(title)}) is not carried over: it is about another package")
                continue
            text = self._section(uri)
            if text is not None:
                texts.append(text)
        whole = "\n\n".join(texts)
        for word, entry in replaced.items():
            if value := entry.text():
                whole = whole.replace(word, value)
        whole = re.sub(r"[^\n\t -~\xa1-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]", " ", whole).replace(
            "\t", "    "
        )
        if len(whole) > _LONGEST_DESCRIPTION and documentation:
            documentation.source.ledger.findings.append(
                documentation.problem(f"the description is cut at {_LONGEST_DESCRIPTION:,} characters", at_key=True)
            )
        whole = whole[:_LONGEST_DESCRIPTION].strip()
        if whole and listed:
            lines = "\n".join(line.rstrip() for line in whole.splitlines())
            self.sketch.put(("description",), lines + "\n", listed.origin)

    def _section(self, uri: ForeignValue) -> str | None:
        """Return a fragment of documentation without comments; None, and a finding, when it is not there."""
        text = (uri.text() or "").removeprefix("models/")
        path = plain_path(self.root, text) if not text.startswith("/") and ".." not in text.split("/") else None
        if path is None or not path.is_file():
            uri.leave("is not found in the checkout")
            return None
        content = read_bytes(path, text, _LARGE).decode("utf-8", "replace")
        return re.sub(r"<!--.*?-->", "", content, flags=re.DOTALL).strip()

    def _left(self) -> None:
        """Report what no package has."""
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
        for item in items_of(self.slices, "downloads"):
            source, destination = item.at("source"), item.at("destination")
            text = (source.text() if source else None) or ""
            target = (destination.text() if destination else None) or ""
            message = f"({printable(text)} to {printable(target)}) is not carried over: the zoo states no digest of it"
            item.leave(message, "put the file into the image or on the dataset's storage")

    def _manifests(self, files: dict[str, ZooFile]) -> str | None:
        """Return the folder of the manifests that come with the package, in the checkout; None without any."""
        for path, file in files.items():
            steps = path.split("/")
            if steps[:2] == ["quickstart", "mlops"] and steps[-1] in KUSTOMIZATIONS:
                below = file.path.relative_to(self.root).as_posix().split("/")
                return "/".join(below[: below.index("mlops") + 1])
        return None

    def _code(self, package: str, files: dict[str, ZooFile]) -> None:
        """Put the files: into ConfigMaps if they fit, else they are in the image."""
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
        """Report what the scripts do that a package's container may not."""
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


def _started(path: str) -> str:
    """Return the script of mlpack's own that starts a file of the package."""
    name = path.rpartition("/")[2]
    return f"{_RUN}/{name.removesuffix('.py')}{'' if name.endswith('.sh') else '.sh'}"


def _is_wrapper(path: str) -> bool:
    folder, slash, name = path.partition("/")
    return bool(slash) and folder in _WRAPPER_FOLDERS and "/" not in name and name.endswith(".sh")


def _fits(files: Sequence[ZooFile]) -> bool:
    """Whether files fit into the ConfigMaps of a package; the build counts again, and exactly."""
    if sum(file.size for file in files) > configmap.CODE_PARTS * configmap.CODE_BYTES * 0.9:
        return False
    for file in files:
        if file.size > configmap.CODE_BYTES:
            return False
        if file.size > _LARGE and len(json.dumps(file.path.read_bytes().decode("utf-8", "replace"))) > configmap.BYTES:
            return False
    return True
