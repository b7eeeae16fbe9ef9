"""Tests of the errors of `kubectl kustomize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.base.errors import RenderError
from packager.base.process import Finished, Runner
from packager.kubernetes.kubectl.kustomize import kustomize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MEMORY = "kubectl kustomize: the overlay takes more than 256 MiB of memory"


class Failing(Runner):
    """Ends each program with the exit code 2 and a text on stderr."""

    def __init__(self, stderr: str) -> None:
        self._stderr = stderr

    def run(self, argv: Sequence[str], **_: Any) -> Finished:
        assert argv[1] == "kustomize"
        return Finished(2, "", self._stderr)


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        ("fatal error: runtime: out of memory\n\nruntime stack:\n", MEMORY),
        ("runtime: cannot allocate memory\n", MEMORY),
        # The collector of Go 1.26 does not check the memory that it asks for.
        ("SIGSEGV: segmentation violation\nPC=0x43785d m=5 sigcode=1 addr=0x0\n\ngoroutine 0 [idle]:\n", MEMORY),
        (
            "panic: no address\n[signal SIGSEGV: segmentation violation code=0x1]\n",
            "kubectl kustomize: panic: no address [signal SIGSEGV: segmentation violation code=0x1]",
        ),
        ("error: no such file\n", "kubectl kustomize: no such file"),
        ("", "kubectl kustomize: exit code 2"),
    ],
)
def test_errors_of_kubectl_are_reported(tmp_path: Path, stderr: str, message: str) -> None:
    with pytest.raises(RenderError) as error:
        kustomize(tmp_path, runner=Failing(stderr))
    assert str(error.value) == message
