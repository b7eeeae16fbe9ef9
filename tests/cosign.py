"""Checks signatures between mlpack and cosign, in both directions.

python -m tests.cosign

builds cosign from its Go module, which takes some minutes and is cached, starts Debian's registry, and prints a line
for each check. It needs no network after the build.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import kubectls
from tests.publish.real_registry import ANONYMOUS, DEBIAN, serving
from tests.testbed import builds

_PASSWORD = "only for this run"  # noqa: S105 - of keys that are deleted at the end
_OFFLINE = ("--insecure-ignore-tlog=true", "--allow-http-registry")
_SIGN = ("sign", "--yes", "--tlog-upload=false", "--use-signing-config=false", "--allow-http-registry")


class Checks:
    """Runs programs in a folder, and counts checks that fail.

    Attributes:
        failed: The number of failed checks.
    """

    def __init__(self, folder: Path, cosign: Path, host: str) -> None:
        self.failed = 0
        self._folder, self._cosign, self._host = folder, cosign, host
        self._variables = os.environ | {"COSIGN_PASSWORD": _PASSWORD, "MLPACK_KEY_PASSWORD": _PASSWORD}
        self._variables |= {"KUBECTL": str(kubectls.kubectl()), "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}

    def mlpack(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run mlpack."""
        return self._run(sys.executable, "-m", "packager", *arguments)

    def cosign(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run cosign."""
        return self._run(str(self._cosign), *arguments)

    def check(self, title: str, done: subprocess.CompletedProcess[str], *, succeeds: bool = True) -> str:
        """Report whether a program has succeeded or failed as expected, and return its output."""
        is_right = (done.returncode == 0) is succeeds
        print(f"{'ok  ' if is_right else 'FAIL'} {title}")
        if not is_right:
            self.failed += 1
            print(done.stdout, done.stderr)
        return done.stdout.strip()

    def run(self) -> None:
        """Make all checks."""
        self.check("mlpack builds a package", self.mlpack("build", "hello-mpi"))
        for name in ("prod", "other"):
            self.check(f"mlpack makes the key {name}", self.mlpack("key", "new", name))
        self.check("cosign makes a key", self.cosign("generate-key-pair"))
        self._ours()
        self._theirs()
        imported = self.cosign("import-key-pair", "--key", "prod.key", "--output-key-prefix", "imported")
        self.check("cosign refuses to import an encrypted PKCS#8 key", imported, succeeds=False)

    def _ours(self) -> None:
        """Let cosign check signatures of mlpack."""
        reference = f"oci://{self._host}/team/ours:1"
        push = ("push", "hello-mpi.tar.gz", reference, "--no-verify")
        pinned = self.check("mlpack signs", self.mlpack(*push, "--sign-key", "prod.key")).removeprefix("oci://")
        verify = ("verify", *_OFFLINE, pinned, "--key")
        self.check("cosign accepts a signature of mlpack", self.cosign(*verify, "prod.pub"))
        self.check("cosign refuses it by another key", self.cosign(*verify, "other.pub"), succeeds=False)

    def _theirs(self) -> None:
        """Let mlpack check signatures of cosign."""
        reference = f"oci://{self._host}/team/theirs:1"
        pinned = self.check("mlpack pushes", self.mlpack("push", "hello-mpi.tar.gz", reference, "--no-verify"))
        pinned = pinned.removeprefix("oci://")
        self.check("cosign signs", self.cosign(*_SIGN, "--key", "cosign.key", pinned))
        self.check("mlpack accepts a signature of cosign", self.mlpack("inspect", reference, "--key", "cosign.pub"))
        refused = self.mlpack("inspect", reference, "--key", "other.pub")
        self.check("mlpack refuses it by another key", refused, succeeds=False)
        added = self.mlpack("push", "hello-mpi.tar.gz", reference, "--no-verify", "--sign-key", "prod.key")
        self.check("mlpack adds a signature", added)
        for key in ("cosign.pub", "prod.pub"):
            self.check(f"cosign accepts that by {key}", self.cosign("verify", *_OFFLINE, pinned, "--key", key))

    def _run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, cwd=self._folder, env=self._variables, capture_output=True, text=True, check=False, timeout=120
        )


def main() -> int:
    """Make all checks, and return the exit code."""
    builds.build_all((builds.COSIGN,))
    with tempfile.TemporaryDirectory() as name, serving(DEBIAN, ANONYMOUS, Path(name)) as (host, _):
        checks = Checks(Path(name), builds.COSIGN.entry / "cosign", host)
        checks.run()
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
