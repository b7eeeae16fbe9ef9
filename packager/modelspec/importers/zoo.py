"""Reads a spec of Intel's Model Zoo into a Draft: the workloads of its manifests, or a Pod that runs its scripts.

IntelAI/models, tools/docker/assembler.py: a package is made of slices of a pool of specs, whose files are copied over
each other in order, and whose fragments of Markdown are joined to a README. Only a link in a folder to a plain file of
the same checkout is followed, except to files that a package leaves out, such as `.git/config`.
"""

from __future__ import annotations

import posixpath
import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.errors import SpecError
from packager.base.fields import anchored
from packager.base.names import LETTER_FIRST
from packager.base.problems import Problem, show
from packager.base.values import Value
from packager.modelspec.code import fits
from packager.modelspec.files import SourceFile, read_code, source_file, walk
from packager.modelspec.importers import manifests
from packager.modelspec.importers.draft import LONGEST_NAME, Draft, DraftFile, named, one_line
from packager.modelspec.importers.source import (
    ForeignValue,
    Rule,
    Source,
    invalid,
    plain_path,
    printable,
    read_bytes,
)
from packager.modelspec.load import HEADING, section
from packager.package.layout import KUSTOMIZATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from packager.base.yamlio import Document
    from packager.modelspec.importers.source import Rules

_KIND = "a spec of Intel's Model Zoo"
_SPECS = "tools/docker/specs"
_SUFFIX = "_spec.yml"
_LARGE = 100 << 10
_RUN = "run"
_PARTS = re.compile(r"(?P<package>.+?)-(?P<precision>fp32|int8|bf16|bfloat16|fp16)-(?P<mode>training|inference)(-k8s)?")
# Keys of slices that only name images and Dockerfiles, and those that a package cannot have.
_FIELDS: Rules = MappingProxyType(
    {
        **dict.fromkeys(("add_to_name", "dockerfile_exclusive_name", "dockerfile_subdirectory"), Rule("")),
        **dict.fromkeys(("is_dockerfiles", "upload_images"), Rule("")),
        "partials": Rule("are not carried over: build the image as the zoo does"),
        "runtime": Rule("is not carried over: mlops.env, site.env and mlpack configure have these values"),
    }
)
# Commands in scripts that may fail in a package's container.
_DOUBTFUL = (
    ("--socket-id", "uses numactl, which needs a capability that containers do not have", "edit the script"),
    (r"\b(mpirun|mpiexec)\b", "starts mpirun itself, in one container", "an MPIJob needs a spec of its own"),
    (
        r"\b(tar -?x|unzip|git apply|wget|curl)\b",
        "unpacks, fetches or patches files",
        "write to OUTPUT_DIR: its folder is read-only",
    ),
)
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
# Titles of fragments about how another package is downloaded and run.
_LEFT_OUT = ("title", "download link", "bare metal", "ai kit", "docker", "docker arg", "kubernetes")
_DOC_FOLDERS = ("docs", "documentation", "readme-sections")
_PLAIN_TITLE = r"[A-Za-z0-9][A-Za-z0-9 ,.:()&/'-]{0,99}"
_MOST_SECTIONS = 20
_LONGEST_DESCRIPTION = 20_000
# Controls, and characters that change the direction of text or are never seen.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)


class ZooChoices(Value, frozen=True):
    """The user's choices for an import."""

    image: str | None = None  # in place of the one of the spec
    downloads: bool = False  # whether to put the package's downloads into `downloads`


def spec_files(path: Path, name: str) -> list[tuple[Path, str]]:
    """Return the specs at `path`: the file itself, or those of packages in a folder and its folders."""
    if not path.is_dir():
        return [(path, name)]
    specs = sorted(file for file in path.rglob(f"*{_SUFFIX}") if file.is_file() and not file.is_symlink())
    packages = [file for file in specs if b"PACKAGE_NAME=" in read_bytes(file, str(file))]
    if not packages:
        problem = Problem(name, 0, 0, f"expected files called *{_SUFFIX} with a PACKAGE_NAME, found none")
        raise invalid(name, _KIND, [problem])
    return [(file, f"{name.rstrip('/')}/{file.relative_to(path).as_posix()}") for file in packages]


def read(path: Path, name: str, choices: ZooChoices) -> Draft:
    """Return the draft of a package; `path` is its spec, in a folder of the zoo's tools/docker/specs."""
    draft = Draft(name, _KIND, "intel")
    document = _loaded(path, name, draft)
    if "slice_sets" not in document.data:
        message = "expected releases and slice_sets"
        raise invalid(name, _KIND, [document.problem((), message, hint=f"a spec of {_SPECS}")])
    own = Source(document, draft, path.name)
    slices = _release_slices(_Pool(path, name, own, draft), own.root)
    draft.check()
    _PackageImport(draft, own, slices, _checkout(path, name), choices).put()
    draft.check()
    own.report_unread(_FIELDS)
    return draft


def _checkout(path: Path, name: str) -> tuple[Path, str]:
    """Return the folder of the checkout that contains the spec, and the prefix of its files' paths in messages."""
    real = path.resolve()
    for folder in real.parents:
        if real.is_relative_to(folder / _SPECS):
            above, specs, _ = name.rpartition(f"{_SPECS}/")
            return folder, above if specs else ""
    raise SpecError(f"{name} is not in a folder {_SPECS} of a checkout of the zoo")


def _loaded(path: Path, name: str, draft: Draft) -> Document:
    """Return a spec of the pool; add a finding for a duplicate key, which one of the zoo's specs has."""
    document, problems = yamlio.load(read_bytes(path, name), name)
    duplicates = [problem for problem in problems if problem.kind == yamlio.DUPLICATE_KEY]
    if len(duplicates) < len(problems):
        raise invalid(name, _KIND, problems)
    if not isinstance(document.data, dict):
        raise invalid(name, _KIND, [document.problem((), f"expected a mapping, found {show(document.data)}")])
    draft.findings.extend(
        Problem(name, one.line, one.column, f"{one.message}: the first one counts") for one in duplicates
    )
    return document


class _Pool:
    """The specs of a folder; each is read when a slice of it is needed."""

    def __init__(self, path: Path, name: str, own: Source, draft: Draft) -> None:
        self._draft = draft
        self._above = name[: len(name) - len(path.name)]
        self._sources = {path: own}
        folder = path.parent
        chain = [folder, *folder.parents]
        top = next((chain[index - 1] for index, parent in enumerate(chain) if index and parent.name == "specs"), folder)
        # The zoo keeps specs that it does not build in a separate folder, without the slices that they use.
        tops = [top, top.parent] if top.parent.name == "specs" else [top]
        self._paths = [path, folder / "base_spec.yml", *(spec for top in tops for spec in sorted(top.rglob("*.yml")))]

    def slice_of(self, name: str) -> ForeignValue | None:
        """Return the first slice of a set; None if no file of the folder has the set."""
        for path in self._paths:
            if path not in self._sources:
                if not path.is_file() or path.is_symlink() or f"{name}:".encode() not in path.read_bytes():
                    continue
                shown = f"{self._above}{path.name}" if path.parent == self._paths[0].parent else str(path)
                self._sources[path] = Source(_loaded(path, shown, self._draft), self._draft, path.name)
            if items := self._sources[path].root.items("slice_sets", name):
                for item in items[1:]:
                    item.leave("is not carried over: the first slice of a set is used")
                return items[0] if items[0].is_mapping() else None
        return None


def _release_slices(pool: _Pool, root: ForeignValue) -> list[ForeignValue]:
    """Return the slices of the spec's first release, in order."""
    tags = [tag for release in root.children("releases") for tag in release.items("tag_specs")]
    for other in tags[1:]:
        other.leave("is not carried over: the first release is used")
    names = re.findall(r"\{([^_{}][^{}]*)\}", tags[0].text() or "") if tags else []
    if not names:
        root.refuse("expected releases with names of slice sets in tag_specs", "this file makes no package")
    slices: list[ForeignValue] = []
    for name in dict.fromkeys(names):
        if found := pool.slice_of(name):
            slices.append(found)
        else:
            tags[0].refuse(f"no slice set {show(name)} in the folders of specs")
    return slices


class _PackageImport:
    """The import of one package."""

    def __init__(
        self, draft: Draft, own: Source, slices: list[ForeignValue], zoo: tuple[Path, str], choices: ZooChoices
    ) -> None:
        self.draft = draft
        self.source = own
        self.slices = slices
        self.own = slices[-1]
        self.root, self.shown = zoo
        self.entries: dict[str, ForeignValue] = {}  # that copy files, by the files' paths in the package
        self.choices = choices

    def put(self) -> None:
        """Fill in the draft; problems and findings are in it."""
        self._put_names()
        documentation = self.own.child("documentation")
        listed = documentation.items() if documentation and isinstance(documentation.value, list) else [documentation]
        documents = [entry for entry in listed if entry and entry.is_mapping()]
        words = _replacements(documents[0]) if documents else {}
        self._put_titles(words)
        items = self._items("files")
        files = self._collected(items)
        if self.draft.problems:
            return
        folder = self._manifests(files)
        self._put_documentation(documents, {} if folder else files)
        if folder is not None:
            for item in items:
                if item.source is self.source:
                    item.leave("is not carried over: what runs is in the image")
            self._put_image(words, manifests.image(folder, self.root, self.shown))
            manifests.put(self.draft, folder, self.root, self.shown, self.own)
        else:
            self._put_image(words, None)
            self._put_code(files)
        self._put_downloads()

    def _items(self, key: str) -> list[ForeignValue]:
        """Return the items of a list in all slices, in order."""
        return [item for entry in self.slices for item in entry.items(key)]

    def _put_names(self) -> None:
        values = {(item.text() or "").partition("=")[0]: item for item in self._items("args")}
        entry = values.pop("PACKAGE_NAME", None)
        for item in values.values():
            if item.source is self.source:
                item.leave("is not carried over: it is for the zoo's Dockerfile")
        if entry is None:
            self.own.refuse("expected args with PACKAGE_NAME", "this file makes an image, and no package", at_key=True)
        text = str(entry.value).partition("=")[2] if entry else "package"
        if entry and (not re.fullmatch(anchored(LETTER_FIRST), text) or len(text) > LONGEST_NAME):
            entry.leave(f"becomes {named(text, prefix='package')!r}, found {show(text)}")
            text = named(text, prefix="package")
        origin = entry.origin if entry else "no name"
        self.draft.put(("name",), text, origin)
        if parts := _PARTS.fullmatch(text):
            self.draft.put(("package",), parts["package"], origin)
            self.draft.put(("variants", 0, "precision"), parts["precision"], origin)
            self.draft.put(("variants", 0, "mode"), parts["mode"] + (parts[4] or ""), origin)
        else:
            self.draft.put(("variants", 0), {}, "the name has no precision and no mode")

    def _put_titles(self, words: dict[str, ForeignValue]) -> None:
        title = words.get("<model name>")
        text = one_line((title.text() if title else None) or "") or self.draft.data["name"]
        self.draft.put(("title",), text, title.origin if title else "its name")
        use = words.get("<use case>")
        word = (use.text() if use else None) or ""
        if use and (label := re.sub("[^a-z0-9_-]+", "_", word.lower()).strip("-_")[:LONGEST_NAME]):
            self.draft.put(("use_case",), label, use.origin)
        folder = (self.source.document.name.replace("\\", "/").split("/")[-2:-1] or ["tensorflow"])[0]
        framework = "tensorflow" if folder in ("", ".", "k8s") else named(folder, prefix="framework")
        self.draft.put(("framework",), framework, "the folder of its spec")

    def _put_image(self, words: dict[str, ForeignValue], served: ForeignValue | None) -> None:
        entry = words.get("<docker image>")
        if not self.draft.put_first_image(self.choices.image, [served, entry]):
            reference = f"localhost/model-zoo:{self.draft.data['name']}"
            self.draft.put_image(reference, "the spec names no image")
            message = f"the spec names no image: {reference} is made up"
            self.draft.findings.append(self.own.problem(message, "build it as the zoo does, or name one by --image"))

    def _put_downloads(self) -> None:
        """Put the package's downloads, if the user chooses so; add a finding for each, as the zoo states no digest."""
        number = 0
        for item in self._items("downloads"):
            url = item.string("source").strip()
            target = posixpath.normpath(item.string("destination").strip() or ".")
            message = "is not carried over: the zoo states no digest of it"
            hint = "import it with --downloads, or put the file into the image or on the dataset's storage"
            if not re.match("https?://", url) or target.startswith(("/", "..")):
                message, hint = "is not carried over: expected an http or https URL and a path in the package", ""
            elif self.choices.downloads:
                self.draft.put(("downloads", number, "url"), url, item.origin)
                self.draft.put(("downloads", number, "path"), target, item.origin)
                number += 1
                message = "is fetched into assets, and the zoo states no digest of it"
                hint = "mlpack build prints the one that it sees; scripts look for it in their own folder"
            item.leave(f"({printable(url)} to {printable(target)}) {message}", hint or None)

    def _manifests(self, files: dict[str, SourceFile]) -> str | None:
        """Return the folder in the checkout with the package's manifests; None without any."""
        for path, file in files.items():
            if path.startswith("quickstart/mlops/") and path.rpartition("/")[2] in KUSTOMIZATIONS:
                below = file.path.relative_to(self.root).as_posix().split("/")
                return "/".join(below[: below.index("mlops") + 1])
        return None

    def _put_code(self, files: dict[str, SourceFile]) -> None:
        """Put the files into ConfigMaps if they fit; else only the scripts that start the code in the image."""
        wrappers = [path for path in files if re.fullmatch(r"(quickstart|scripts)/[^/]*\.sh", path)]
        wrappers = wrappers or [path for path in files if re.fullmatch(r"[^/]*\.(py|sh)", path)]
        if not wrappers:
            self.own.refuse("expected a script in quickstart or scripts, found none", at_key=True)
            return
        listed = self.own.child("files")
        origin = listed.origin if listed else "the files of its slices"
        code = [path for path in files if not path.startswith("licenses/")]
        assets, tops = _tops(files), _tops(code)
        if fits([*read_code([files[path] for path in code], {})]):
            assets = [top for top in assets if top not in tops]
        else:
            tops = []
            message = "the code does not fit into ConfigMaps: it runs from the image, which the zoo puts it into"
            self.draft.findings.append(self.own.problem(message, "changing it takes a new image", at_key=True))
            code_dir = f"/workspace/{self.draft.data['name']}"
            self.draft.put(("environment", "CODE_DIR"), code_dir, "where the image has the code")
        self.draft.put(("files",), [*tops, _RUN], origin if tops else "scripts of mlpack's own")
        if assets:
            self.draft.put(("assets",), assets, origin)
        self.draft.files += [DraftFile(path, file.path, file.executable) for path, file in sorted(files.items())]
        names = []
        for path in wrappers:
            start = f"python3 ./{path}" if path.endswith(".py") else f"./{path}"
            script = _SCRIPT.format(path=path, start=start)
            names.append(f"{_RUN}/{posixpath.splitext(posixpath.basename(path))[0]}.sh")
            self.draft.files.append(DraftFile(names[-1], script.encode(), executable=True))
            self._warn(path, files[path])
        place = self.entries[wrappers[0]].origin
        key, scripts = ("scripts", names) if len(names) > 1 else ("script", names[0])
        self.draft.put(("variants", 0, key), scripts, place)
        arguments = {"value": "", "description": "more arguments for the script"}
        self.draft.put(("environment", "SCRIPT_ARGS"), arguments, "what scripts pass on")
        self.draft.put(("overlays", "single-node", "kind"), "Pod", "one container runs the package")

    def _warn(self, path: str, file: SourceFile) -> None:
        text = read_bytes(file.path, path, _LARGE).decode("utf-8", "replace")
        for pattern, message, hint in _DOUBTFUL:
            if re.search(pattern, text):
                is_passed = pattern == "--socket-id" and "$@" in text
                fix = "SCRIPT_ARGS=--socket-id -1 in mlops.env" if is_passed else hint
                problem = self.entries[path].problem("")
                self.draft.findings.append(Problem(problem.file, problem.line, 1, f"{path} {message}", fix))

    def _collected(self, items: Iterable[ForeignValue]) -> dict[str, SourceFile]:
        """Return the files by their paths in the package; add a problem for each item that cannot be copied."""
        files: dict[str, SourceFile] = {}
        for item in items:
            source, destination = item.at("source"), item.at("destination")
            start, target = _relative(source), _relative(destination)
            if source is None or destination is None:
                item.refuse("expected source and destination")
            elif start is not None and target is not None:
                own = self._copied(source, start, target)
                files |= own
                self.entries |= dict.fromkeys(own, source)
        return files

    def _copied(self, source: ForeignValue, start: str, target: str) -> dict[str, SourceFile]:
        """Return the files at and below `start` by their paths in the package; refuse others."""
        top = plain_path(self.root, start)
        if top is None:
            hint = "the zoo cannot make this package either"
            source.refuse(f"{printable(start)!r} not found below {self.root}", hint)
            return {}
        found = list(walk(self.root, start, set()) if top.is_dir() else [source_file(self.root, start)])
        if errors := [file for file in found if isinstance(file, str)]:
            source.refuse(printable(errors[0]))
        files = [file for file in found if not isinstance(file, str)]
        if not top.is_dir():
            return dict(zip([target], files, strict=False))
        return {posixpath.normpath(f"{target}/{file.name.removeprefix(start)}"): file for file in files}

    def _put_documentation(self, documents: list[ForeignValue], files: dict[str, SourceFile]) -> None:
        """Put the description and the sections; add a finding for each fragment that is left out."""
        folder = next(name for name in _DOC_FOLDERS if name not in _tops(files) or name == _DOC_FOLDERS[-1])
        titles: list[str] = []
        for item, title, content in self._fragments(documents):
            text = section(content, title)
            if title.lower() == "description" and "description" not in self.draft.data:
                if len(text) > _LONGEST_DESCRIPTION:
                    item.note(f"is cut at {_LONGEST_DESCRIPTION:,} characters")
                text = text.replace("\t", "    ")[:_LONGEST_DESCRIPTION]
                if text := "\n".join(line.rstrip() for line in text.splitlines()).strip():
                    self.draft.put(("description",), f"{text}\n", item.origin)
            elif text and len(titles) == _MOST_SECTIONS:
                item.leave("is not carried over: the documentation is too long")
            elif text:
                numbered = [title, *(f"{title} ({number})" for number in range(2, _MOST_SECTIONS + 2))]
                unique = next(name for name in numbered if name.lower() not in titles)
                titles.append(unique.lower())
                slug = re.sub("[^a-z0-9]+", "-", unique.lower()).strip("-") or "section"
                name = f"{folder}/{len(titles):02}-{slug}.md"
                self.draft.put(("documentation", len(titles) - 1, "title"), unique, item.origin)
                self.draft.put(("documentation", len(titles) - 1, "file"), name, item.origin)
                self.draft.files.append(DraftFile(name, f"{text}\n".encode()))

    def _fragments(self, documents: list[ForeignValue]) -> Iterator[tuple[ForeignValue, str, str]]:
        """Yield the item, the title and the text of each fragment that applies to the new package."""
        known: set[str] = set()
        for position, document in enumerate(documents):
            document_title = posixpath.splitext(document.string("name"))[0] if position else ""
            for item in document.items("docs"):
                path = item.string("uri").strip().removeprefix("models/")
                title = " ".join(_HIDDEN.sub(" ", item.string("name")).split())[:100]
                content = self._content(path, _replacements(document))
                if not title or content is None:
                    item.leave("is not carried over: expected a name, and a uri in the checkout")
                elif title.lower() in _LEFT_OUT:
                    item.leave(f"({show(printable(title))}) is not carried over: it is about another package")
                elif path in known:
                    item.leave(f"({show(printable(title))}) is a section already")
                else:
                    known.add(path)
                    heading = HEADING.match(content)
                    own_title = " ".join(heading[2].split()) if heading else ""
                    other = document_title if title.lower() == "description" else own_title
                    yield item, other if re.fullmatch(_PLAIN_TITLE, other) else title, content

    def _content(self, text: str, words: dict[str, ForeignValue]) -> str | None:
        """Return the text of a fragment without comments; None if it is not found."""
        is_below = not text.startswith("/") and ".." not in text.split("/")
        path = plain_path(self.root, text) if is_below else None
        if path is None or not path.is_file():
            return None
        content = read_bytes(path, self.shown + text).decode("utf-8-sig", "replace")
        for word, entry in words.items():
            content = content.replace(word, entry.text() or word) if word else content
        content = re.sub(r"<!--.*?-->", "", content.replace("\r\n", "\n"), flags=re.DOTALL)
        return "\n".join(_HIDDEN.sub(" ", line) for line in content.split("\n")).strip("\n")


def _tops(paths: Iterable[str]) -> list[str]:
    """Return the first parts of paths, in order."""
    return sorted({path.partition("/")[0] for path in paths})


def _replacements(document: ForeignValue) -> dict[str, ForeignValue]:
    """Return the words of a document to replace, with the entries of their replacements."""
    for key in ("name", "uri"):
        document.child(key)
    return {entry.key: entry for entry in document.children("text_replace") if entry.value is not None}


def _relative(entry: ForeignValue | None) -> str | None:
    """Return a path below the checkout or the package; None, with a problem, for a path that is not below it."""
    text = (entry.text() or "").strip() if entry else ""
    path = posixpath.normpath(text)
    if entry and (not text or "\x00" in text or "\\" in text or path.startswith(("/", ".."))):
        entry.refuse(f"expected a path below the folder, found {show(printable(text))}")
    elif entry:
        return path
    return None
