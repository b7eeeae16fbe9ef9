"""Verifies signatures with the program openssl, for users without the library of the extra `sign`.

Tests: publish/test_signatures.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import process, workfolder
from packager.base.errors import ToolError
from packager.publish.keys import KeyKind

if TYPE_CHECKING:
    from packager.base.runner import Runner
    from packager.publish.keys import PublicKey

_PROGRAM = "openssl"
_SECONDS = 30.0
_OUTPUT_BYTES = 64 << 10


def is_valid(key: PublicKey, signature: bytes, content: bytes, runner: Runner) -> bool:
    """Whether a key has made a signature over some bytes.

    Raises:
        ToolError: There is no openssl, or it fails: then the signature could not be checked.
    """
    if process.find(_PROGRAM) is None:
        raise ToolError(
            "signatures could not be checked: neither the Python package cryptography nor openssl is installed",
            hint="install openssl, or mlpack with its extra 'sign'",
        )
    with workfolder.temporary() as folder:
        files = {"key.pub": key.pem.encode(), "signature": signature, "content": content}
        for name, text in files.items():
            (folder / name).write_bytes(text)
        public, signed, over = (str(folder / name) for name in files)
        argv = [_PROGRAM, "dgst", "-sha256", "-verify", public, "-signature", signed, over]
        if key.kind is KeyKind.ED25519:
            argv = [_PROGRAM, "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", over]
            argv += ["-sigfile", signed]
        done = runner.run(argv, timeout=_SECONDS, max_bytes=_OUTPUT_BYTES, offline=True)
    if done.returncode not in (0, 1):
        raise ToolError(f"signatures could not be checked: openssl has ended with the exit code {done.returncode}")
    return done.returncode == 0
