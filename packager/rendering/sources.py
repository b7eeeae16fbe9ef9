"""Sources: the files of an overlay, the places of values, and the files' problems. Tests: verify/test_verify.py."""

from __future__ import annotations

import stat
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from packager.base import envfile, workfolder, yamlio
from packager.base.errors import ToolError, VerificationError, reason
from packager.base.problems import Problem
from packager.package.declared import Declared
from packager.package.tree import IGNORED_NAMES, is_of_tool
from packager.rendering.origins import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packager.base.yamlio import Document
    from packager.package.opened import Reader
    from packager.rendering.origins import Origin

_MAX_BYTES = 1 << 20
"""The limit of a file: that of a ConfigMap in Kubernetes, and more than any manifest needs."""

_ALL_BYTES = 16 << 20
_ALL_YAML = 4 << 20
"""The limits for all reads of an overlay, repeated ones included: ten times what our largest overlay reads."""

_DOCUMENT = 1 << 10
"""The bytes that each read of a YAML file counts for, in addition to its content."""

_MAX_DOCUMENTS = 300
"""The most objects and patches of an overlay: kubectl compares each with each. Ours have 70, with all options."""

_MAX_VALUES = 20_000
"""The most values of all YAML documents and env files of an overlay."""


class EnvFile(NamedTuple):
    """The position and the value of each key of an env file."""

    keys: dict[str, Position]
    values: dict[str, str]


class Sources:
    """The files of one overlay and of all folders that it includes."""

    def __init__(
        self,
        reader: Reader,
        start: str,
        declared: Declared = Declared(),  # noqa: B008 - immutable
        earlier: Sources | None = None,
    ) -> None:
        """Take an empty set of files; what `earlier` has parsed, of the same package, is not parsed again."""
        # the places where parts of manifests are written, in the order in which kustomize applies them
        self.origins: list[Origin] = []
        self.problems: list[Problem] = []  # the problems with the files
        self.notes: list[Problem] = []  # values that are not problems, but may be read differently than written
        # the problems for which kustomize would refuse the overlay, or must not be run
        self.refused: list[Problem] = []
        # the folder of each component, and the position at which it is listed
        self.components: list[tuple[str, Position]] = []
        self.files: dict[str, bytes] = {}  # the contents that were read, by path
        # the keys of env files that fill fields of manifests which take whole numbers, or labels by which the fields
        # are selected
        self.numbers: set[str] = set()
        self.quantities: set[str] = set()  # the keys of env files that fill quantities of resources
        self.image_keys: set[str] = set()  # the keys of env files that have the name, tag and digest of images
        # the entries of `images` in the kustomizations, and their places, as problems without a message
        self.image_entries: list[tuple[dict[str, Any], Problem]] = []
        self.shown = reader.shown  # returns the name of a path in messages
        self.declared = declared  # the values of the package's own spec; env files contain these exactly as intended
        # the start of the overlay, for findings without a more precise position
        self.start = Position(self.shown(start), 1, 1)
        self._root = reader.folder
        self._read = reader.read
        self._bytes = 0
        self._yaml = self._documents = self._values = 0
        self._modes: dict[str, int] = dict(_modes_of_added(reader))
        self._env_files: dict[str, EnvFile] = {}
        self._parsed: dict[str, tuple[bytes, list[Document], list[Problem]]] = {}
        self._parsed_earlier = earlier._parsed if earlier else {}  # noqa: SLF001 - it is of this class

    def is_file(self, path: str) -> bool:
        """Whether the package has a plain file at `path`, without a link on the way."""
        return stat.S_ISREG(self._mode(path))

    def is_folder(self, path: str) -> bool:
        """Whether the package has a folder at `path`, without a link on the way."""
        return stat.S_ISDIR(self._mode(path))

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None, with a problem noted, if it is not a plain file or too large.

        Raises:
            VerificationError: The overlay reads more than the limit.
            ToolError: The file cannot be read, or has changed since it was last read.
        """
        if path not in self.files:
            if not self.is_file(path):
                self.refuse(Problem(self.shown(path), 0, 0, "expected a plain file"))
                return None
            content = self._read(path, _MAX_BYTES)
            if len(content) > _MAX_BYTES:
                message = f"the file is larger than {_MAX_BYTES >> 10:,} KiB, the limit of a Kubernetes object"
                self.refuse(Problem(self.shown(path), 0, 0, message))
                return None
            self.files[path] = content
        self._bytes = self._within(self._bytes + len(self.files[path]), _ALL_BYTES)
        return self.files[path]

    def refuse(self, *problems: Problem) -> None:
        """Note problems for which kustomize would refuse the overlay, or must not be run."""
        self.refused += problems
        self.problems += problems

    def documents(self, path: str) -> list[Document]:
        """Return the YAML documents of a file; none, with a problem noted, if it cannot be read."""
        content = self.read(path)
        if content is None:
            return []
        self._yaml = self._within(self._yaml + len(content) + _DOCUMENT, _ALL_YAML)
        _, documents, problems = self._parsed[path] = self._parsed_once(path, content)
        self.count(documents)
        self.refuse(*problems)
        return documents

    def _parsed_once(self, path: str, content: bytes) -> tuple[bytes, list[Document], list[Problem]]:
        """Return a file's content, documents and problems, parsed here, by the earlier sources, or now."""
        for parsed in (self._parsed.get(path), self._parsed_earlier.get(path)):
            if parsed and parsed[0] == content:
                return parsed
        return (content, *yamlio.load_all(content, self.shown(path)))

    def count(self, documents: Sequence[Document]) -> None:
        """Count objects and patches, and their values. Raises VerificationError if the overlay has too many."""
        self._documents += len(documents)
        if self._documents > _MAX_DOCUMENTS:
            message = f"{self.start.file}: the overlay has more than {_MAX_DOCUMENTS:,} objects and patches"
            raise VerificationError(message)
        self._count_values(sum(size for document in documents for _, size in document.sizes()))

    def _count_values(self, number: int) -> None:
        self._values += number
        if self._values > _MAX_VALUES:
            raise VerificationError(f"{self.start.file}: the overlay has more than {_MAX_VALUES:,} values")

    def env_file(self, path: str) -> EnvFile:
        """Return the content of an env file that was read, else nothing; its problems are noted.

        The file is parsed once: a kustomization may include the same file a thousand times.
        """
        if path not in self._env_files:
            text, name = self.files.get(path, b""), self.shown(path)
            for is_unusual, problem in envfile.problems(text, name, self.declared.environment):
                (self.notes if is_unusual else self.problems).append(problem)
            lines = list(envfile.lines(text))
            keys = {line.key: Position(name, line.number, 1) for line in lines}
            self._count_values(len(keys))
            self._env_files[path] = EnvFile(keys, {line.key: line.value for line in lines})
        return self._env_files[path]

    @contextmanager
    def copied(self) -> Iterator[Path]:
        """Write the files that were read into a temporary folder, yield its path, and remove it at the end."""
        with workfolder.temporary() as folder:
            try:
                for path, content in self.files.items():
                    file = folder / path
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(content)
            except OSError as error:
                raise ToolError(f"the overlay cannot be copied: {reason(error)}", hint="set TMPDIR") from None
            yield folder

    def _within(self, size: int, limit: int) -> int:
        if size > limit:
            message = (
                f"{self.start.file}: the overlay includes more than {limit >> 20} MiB, or the same files repeatedly"
            )
            raise VerificationError(message)
        return size

    def _mode(self, path: str) -> int:
        """Return the mode of the file or folder at `path`; 0 if there is none, or a link is on the way."""
        if path.partition("/")[0] in IGNORED_NAMES or is_of_tool(path):
            return 0
        parts = PurePosixPath(path).parts
        if not all(stat.S_ISDIR(self._mode_at("/".join(parts[:depth]))) for depth in range(len(parts))):
            return 0
        return self._mode_at("/".join(parts))

    def _mode_at(self, path: str) -> int:
        """Return the mode of the file or folder at `path`, whose parents are folders; 0 if there is none.

        Each path is looked up once: an overlay names a hundred files in the same few folders. If a link
        replaces a file later, `read` does not follow it.
        """
        if path not in self._modes:
            place = self._root / path
            try:
                self._modes[path] = (place.lstat() if path else place.stat()).st_mode
            except (OSError, ValueError):  # there is no such path, or the system rejects it
                self._modes[path] = 0
        return self._modes[path]


def _modes_of_added(reader: Reader) -> Iterator[tuple[str, int]]:
    """Yield the modes of files that are not there yet, and of the folders that they are in."""
    for path in reader.added:
        yield path, stat.S_IFREG
        for parent in PurePosixPath(path).parents:
            if not (reader.folder / parent).exists():
                yield str(parent), stat.S_IFDIR
