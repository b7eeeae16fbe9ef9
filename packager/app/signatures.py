"""Checks the signatures of packages: those in a registry, and those in the file beside an archive.

Tests: cli/test_key.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.app.key import key_content
from packager.base import plainfiles
from packager.base.errors import UsageError, VerificationError, unreadable
from packager.base.values import Value
from packager.publish import keys

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.base.progress import Tell
    from packager.publish.keys import PublicKey
    from packager.publish.signatures import Signature

_ENDING = ".sigstore.json"
_MOST_BUNDLES = 16
_MOST_KEYS = 100


class TrustRequest(Value, frozen=True):
    """The keys that a user trusts.

    Attributes:
        keys: The files of public keys that the command names; if there are any, only these count.
        usual: The files, and the folders with files, that count otherwise.
        is_required: Whether a package needs a signature, also if the command names no key.
    """

    keys: tuple[Path, ...]
    usual: tuple[Path, ...]
    is_required: bool


class Trust(Value, frozen=True):
    """The keys that are trusted.

    Attributes:
        keys: The keys.
        is_required: Whether a package needs a signature by one of them.
    """

    keys: tuple[PublicKey, ...]
    is_required: bool

    @property
    def is_asked(self) -> bool:
        """Whether signatures are of interest."""
        return self.is_required or bool(self.keys)

    def require(self, signatures: Sequence[Signature], shown: str, tell: Tell) -> None:
        """Report signatures, and refuse a package without one by a trusted key.

        Raises:
            VerificationError: A signature is required, and none is by a trusted key.
        """
        for signature in signatures:
            tell(f"signature {signature}")
        if self.is_required and not any(signature.is_trusted for signature in signatures):
            names = " or ".join(key.name for key in self.keys)
            hint = None if signatures else "its publisher signs it with `mlpack push --sign-key KEY`"
            raise VerificationError(f"{shown} is not signed by {names}", hint=hint)


def trust(request: TrustRequest) -> Trust:
    """Return the keys that are trusted.

    Raises:
        UsageError: A file has no public key, or a signature is required and no key is known.
        ToolError: A file cannot be read.
    """
    paths = list(request.keys)
    if not paths:
        for path in request.usual:
            paths += sorted(path.glob("*.pub")) if path.is_dir() else [path]
    if len(paths) > _MOST_KEYS:
        raise UsageError(f"expected at most {_MOST_KEYS} public keys, found {len(paths):,}")
    is_required = request.is_required or bool(request.keys)
    if is_required and not paths:
        hint = "--key FILE names a public key; so do MLPACK_KEYS and files in ~/.config/mlpack/keys"
        raise UsageError("--require-signature needs a public key to trust", hint=hint)
    public = [keys.public(key_content(path), path.name.removesuffix(".pub"), str(path)) for path in paths]
    return Trust(tuple(public), is_required)


def beside(path: Path) -> Path:
    """Return the file beside an archive that has its bundles, one a line."""
    return path.with_name(f"{path.name}{_ENDING}")


def lines(signatures: Sequence[Signature]) -> bytes:
    """Return the content of the file for those bundles that are about the package."""
    bundles = [one.content for one in signatures if one.content and one.problem is None]
    return b"".join(content.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n" for content in bundles)


def bundles_beside(path: Path) -> list[bytes]:
    """Return the bundles in the file beside an archive; none without it. Raises ToolError."""
    from packager.publish.bundle import BUNDLE_BYTES

    file = beside(path)
    try:
        with plainfiles.open_linked(file) as stream:
            content = stream.read(_MOST_BUNDLES * BUNDLE_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(file, error) from None
    return [line for line in content.splitlines()[:_MOST_BUNDLES] if line.strip()]


def check_file(path: Path, trust: Trust, *, tell: Tell) -> None:
    """Check the signatures of a package on disk, which are in the file beside it.

    Args:
        path: The archive; a folder cannot be signed.
        trust: The keys.
        tell: Receives a line about each signature.

    Raises:
        VerificationError: A signature is required, and none is by a trusted key.
        ToolError: A file cannot be read, or signatures cannot be checked.
    """
    if not trust.is_asked:
        return
    if path.is_dir():
        if trust.is_required:
            hint = "mlpack pull --extract checks the signature, and unpacks what is signed"
            raise VerificationError(f"{path} is a folder, and only archives are signed", hint=hint)
        return
    from packager.base.web import digest_of
    from packager.publish.signatures import judge

    file = beside(path)
    try:
        digest = f"sha256:{digest_of(path)}"
    except FileNotFoundError:
        return  # there is no such package, as is reported when it is opened
    except OSError as error:
        raise unreadable(path, error) from None
    signatures = [judge(line, digest, trust.keys) for line in bundles_beside(path)]
    try:
        trust.require(signatures, str(path), tell)
    except VerificationError as error:
        if signatures:
            raise
        raise VerificationError(
            str(error), hint=f"expected its signatures in {file}, as mlpack pull writes them"
        ) from None
