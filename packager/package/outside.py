"""An overlay of one's own outside of its package: the files that people edit, beside a package that stays as it came.

    mine/multi-node/            what `kubectl apply -k` takes
      kustomization.yaml        the overlay's own, with paths into the package
      mlops.env, *.yaml         the overlay's values, manifests, patches and wiring
      values/                   the values of the options, in place of those in the package
      site/NAME/                components of one's own
      options/NAME/             components of options that the package was built without, or that have or read values
      mlpack-overlay.json       the package that it is of, and the lines that it was written with

Its kustomization is no layer on the package's overlay, but takes its place: kustomize fills in the values of mlops.env
before an outer layer could change them.

mlpack opens it as a package: a temporary folder with the package's files, in which these files are in their places. The
paths in the kustomization, and the values of the options, are all that differs.

Tests: package/test_outside.py.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base import jsonio, paths, workfolder
from packager.base.errors import VerificationError, unreadable
from packager.base.paths import argument
from packager.base.values import Value
from packager.package import layout
from packager.package.tree import link

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILE = "mlpack-overlay.json"
"""The file by which a folder is an overlay outside of its package."""

_MAX_BYTES = 4 << 20
_ADDED_HERE, _ADDED_THERE = "./site/", "../../../site/"

OPTIONS = "options"
"""The folder of the components of options."""

_VALUES = "values"
_LISTED = f"  - ./{_VALUES}\n"
_SITE = f"  - ../../{layout.SITE}\n"
"""The line by which the patches of an option read the values themselves."""

_WITH_VALUES = f"\ncomponents:\n  - ../../../{_VALUES}\n"

_COMPONENT = """\
# Puts the values of the options in the place of those in the package, before the options read them.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
configMapGenerator: [{{name: {name}-site, behavior: replace, envs: [site.env]}}]
generatorOptions: {{disableNameSuffixHash: true}}
"""


class OutsideOverlay(Value, frozen=True):
    """An overlay outside of its package."""

    folder: Path
    package: Path  # the folder of the package
    name: str  # of the package's overlay whose place it takes
    framework: str  # the folder of the components in the package
    digest: str  # of the package that it was written for
    version: str | None
    delivered: Mapping[str, str]  # the texts that it was written with, by their paths in the package

    def place(self, path: str) -> Path:
        """Return the file that is in the place of the file `path` of the package."""
        parent, name = posixpath.split(path)
        if parent == layout.overlay(self.name):
            return self.folder / name
        if path == layout.site_env(self._common):
            return self.folder / _VALUES / name
        if layout.is_added(path):
            return self.folder / layout.SITE / path.removeprefix(f"{layout.ADDED}/")
        if path.startswith(f"{self._common}/") and self._is_own_component(path.split("/")[5]):
            return self.folder / OPTIONS / path.removeprefix(f"{self._common}/")
        return self.package / path

    @property
    def _common(self) -> str:
        return layout.common(self.framework)

    def _is_own_component(self, name: str) -> bool:
        """Whether a component is in this folder: the package lacks it, or it has values or reads those of the site."""
        component = self.package / self._common / name
        return (component / layout.PLACEMENT).is_file() or not component.is_dir() or (component / "patch").is_dir()

    @property
    def _relative(self) -> str:
        return posixpath.relpath(self.package.resolve(), self.folder.resolve())

    def is_own(self, path: str) -> bool:
        """Whether a file of the package is replaced by one of this folder."""
        return self.place(path) != self.package / path

    def written(self, path: str, content: bytes) -> bytes:
        """Return the content that the file in the place of `path` has, for this content in the package."""
        text = content.decode(errors="surrogateescape")
        if path == layout.kustomization(self.name):
            text = re.sub(rf"{re.escape(self._there)}([\w-]+)", lambda it: self._component(it[1]), text)
            text = text.replace(_ADDED_THERE, _ADDED_HERE)
            # One line more, and two lines of the comment above in one: all other lines keep their numbers.
            text = re.sub(r"(?m)^(#.*\S)\n# (\S.*\ncomponents:\n)", r"\1  \2", text, count=1)
            text = text.replace("\ncomponents:\n", f"\ncomponents:\n{_LISTED}", 1)
        elif self._reads_site(path) and _SITE in text:
            text = text.replace(_SITE, self._site, 1).replace("\ncomponents:\n", _WITH_VALUES, 1)
        return text.encode(errors="surrogateescape")

    def read(self, path: str, content: bytes) -> bytes:
        """Return the content in the package of the file in the place of `path`: the reverse of `written`."""
        text = content.decode(errors="surrogateescape")
        if path == layout.kustomization(self.name):
            if _LISTED in text:
                text = text.replace(_LISTED, "", 1)
                text = re.sub(r"(?m)^(#.*\S)  (\S.*\ncomponents:\n)", r"\1\n# \2", text, count=1)
            for here in (f"{self._relative}/{self._common}/", f"./{OPTIONS}/"):
                text = text.replace(here, self._there)
            text = text.replace(f"./{_VALUES}", f"{self._there}{layout.SITE}").replace(_ADDED_HERE, _ADDED_THERE)
        elif self._reads_site(path) and self._site in text:
            text = text.replace(self._site, _SITE, 1).replace(_WITH_VALUES, "\ncomponents:\n", 1)
        return text.encode(errors="surrogateescape")

    @property
    def _there(self) -> str:
        return f"../../../{self._common.removeprefix(f'{layout.QUICKSTART}/')}/"

    def _component(self, name: str) -> str:
        """Return the path of a component, or of the values, in the kustomization of this folder."""
        if name == layout.SITE:
            return f"./{_VALUES}"
        return f"./{OPTIONS}/{name}" if self._is_own_component(name) else f"{self._relative}/{self._common}/{name}"

    def _reads_site(self, path: str) -> bool:
        return path.startswith(f"{self._common}/") and path.endswith(f"/patch/{layout.KUSTOMIZATION}")

    @property
    def _site(self) -> str:
        """The line of `_SITE` in a file of this folder."""
        return f"  - {posixpath.normpath(f'../../../{self._relative}')}/{self._common}/{layout.SITE}\n"

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the paths in the package, and the contents there, of the files in this folder."""
        for file in sorted(self.folder.rglob("*")):
            place = path = file.relative_to(self.folder).as_posix()
            if path == f"{_VALUES}/{layout.SITE}.env":
                path = layout.site_env(self._common)
            elif path.startswith(f"{OPTIONS}/") and path.endswith((".yaml", ".env")):
                path = f"{self._common}/{path.removeprefix(f'{OPTIONS}/')}"
            elif "/" not in path and path.endswith((".yaml", ".env")):
                path = f"{layout.overlay(self.name)}/{path}"
            elif not layout.is_added(path := f"{layout.QUICKSTART}/{path}"):
                continue
            yield path, self.read(path, paths.read(self.folder, place, str(file), _MAX_BYTES))

    def extras(self, name: str) -> Iterator[tuple[Path, bytes]]:
        """Yield the files that have no place in the package `name`: the component with the values, and FILE."""
        yield self.folder / _VALUES / layout.KUSTOMIZATION, _COMPONENT.format(name=name).encode()
        about = {"package": self._relative, "overlay": self.name, "framework": self.framework, "digest": self.digest}
        content = {**about, "version": self.version, "delivered": dict(sorted(self.delivered.items()))}
        yield self.folder / FILE, json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"

    def mismatch(self, digest: str, version: str | None) -> VerificationError:
        """Return the error about another build of the package than that which the overlay was written for."""
        had, has = (
            " ".join(filter(None, (v, f"({d[7:19]})"))) for v, d in ((self.version, self.digest), (version, digest))
        )
        return VerificationError(
            f"{self.folder} was written for {had} of its package, and {self.package} is {has}",
            hint=self.carry_over,
        )

    @property
    def carry_over(self) -> str:
        """The command that carries the overlay over to the package as it is now."""
        return f"mlpack overlay {argument(self.package)} --to {argument(self.folder.parent)} carries it over"


def find(folder: Path) -> OutsideOverlay | None:
    """Return the overlay in a folder; None if the folder is no overlay outside of its package, or a package."""
    if not paths.is_file(folder / FILE) or paths.exists(folder / layout.INVENTORY):
        return None
    try:
        content = jsonio.read_object(paths.read(folder, FILE, str(folder / FILE), _MAX_BYTES))
        texts = [content[key] for key in ("package", "overlay", "framework", "digest")]
        delivered = {str(path): str(text) for path, text in content["delivered"].items()}
    except (KeyError, ValueError, AttributeError):
        raise VerificationError(f"{folder / FILE} is not a file that `mlpack overlay` writes") from None
    relative, name, framework, digest = map(str, texts)
    package, resolved = Path(os.path.normpath(folder / relative)), folder.resolve() / relative
    package = package if package.resolve() == resolved.resolve() else resolved.resolve()
    return OutsideOverlay(folder, package, name, framework, digest, content.get("version"), delivered)


@contextmanager
def view(overlay: OutsideOverlay, sealed: Mapping[str, Any]) -> Iterator[Path]:
    """Yield a temporary folder with the package and its inventory, in which the overlay has its place."""
    own = {path: content for path, content in overlay.files() if overlay.is_own(path)}
    with workfolder.temporary() as work:
        try:
            for path in (*sealed["files"], layout.INVENTORY):
                if not overlay.is_own(path):
                    with suppress(FileNotFoundError):
                        link(overlay.package / path, work / path)
            for path, content in own.items():
                (work / path).parent.mkdir(parents=True, exist_ok=True)
                (work / path).write_bytes(content)
                (work / path).chmod(0o644)
        except OSError as error:
            raise unreadable(overlay.package, error) from None
        yield work
