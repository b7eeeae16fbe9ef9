"""What the command line says to what cannot be, before it asks any cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome

PACKAGE = "hello-mpi"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("deploy", PACKAGE, "--follow", "--no-wait"), "--follow and --no-wait contradict each other"),
        (("deploy", PACKAGE, "--timeout", "5x"), "'5x' is no duration"),
        (("deploy", PACKAGE, "--overlay", "many"), "many"),
        (("logs", PACKAGE, "--worker", "0", "--all"), "--worker and --all contradict each other"),
        (("configure", PACKAGE, "--set", "1=2"), "expected KEY=VALUE, with a key of letters, digits and '_'"),
        (("configure", PACKAGE, "--set", "A=" + "x" * 70_000), "expected a value of one line, of at most 32 KiB"),
        (("configure", PACKAGE, "--uid", "5", "-d", "there"), "hello-mpi is a folder, and is edited in place"),
        (("configure", PACKAGE, "--with", "queue"), "nothing was changed: an option lacks a value"),
        (
            ("verify", PACKAGE, "--context", "c"),
            "--context, --namespace and --kubeconfig say which cluster --server asks",
        ),
    ],
)
def test_what_cannot_be(mlpack: Callable[..., Outcome], arguments: tuple[str, ...], said: str) -> None:
    assert mlpack("build", PACKAGE, "--format", "dir").code == 0
    done = mlpack(*arguments)
    assert done.code == 2
    assert said in done.stderr
