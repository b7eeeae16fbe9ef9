"""Tests of the messages about invalid usage, which the command line prints before it asks a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

PACKAGE = "hello-mpi"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("deploy", PACKAGE, "--follow", "--no-wait"), "--follow and --no-wait cannot be combined"),
        (("deploy", PACKAGE, "--timeout", ""), "expected a duration such as 90s, 1h30m or 7d, found ''"),
        (
            ("deploy", PACKAGE, "--timeout", "8761h"),
            "expected at most 365d, found '8761h'",
        ),
        (("deploy", PACKAGE, "--timeout", "\u0665m"), "expected a duration such as 90s, 1h30m or 7d, found '\u0665m'"),
        (("deploy", PACKAGE, "--overlay", "many"), "many"),
        (("logs", PACKAGE, "--worker", "0", "--all"), "--worker and --all cannot be combined"),
        (("configure", PACKAGE, "--set", "1=2"), "expected KEY=VALUE, with a key of letters, digits and '_'"),
        (("configure", PACKAGE, "--set", "A=" + "x" * 70_000), "expected a value of one line, of at most 32 KiB"),
        (("configure", PACKAGE, "--uid", "5", "-d", "there"), "hello-mpi is a folder, which is edited in place"),
        (("configure", PACKAGE, "--with", "queue"), "an option has no value; nothing was changed"),
        (
            ("verify", PACKAGE, "--context", "c"),
            "--context, --namespace and --kubeconfig say which cluster --server asks",
        ),
    ],
)
def test_verbs_refuse_invalid_option_combinations_and_values(
    mlpack: Callable[..., Outcome], package: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert package.name == PACKAGE
    done = mlpack(*arguments)
    assert done.code == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("verb", "flag", "value"),
    [
        ("deploy", "--namespace", "-x"),
        ("logs", "--context", "--all"),
        ("doctor", "--kubectl", "-x"),
        ("history", "--namespace", ""),
    ],
)
def test_option_value_cannot_be_option_of_kubectl(
    mlpack: Callable[..., Outcome], verb: str, flag: str, value: str
) -> None:
    done = mlpack(verb, PACKAGE, f"{flag}={value}")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == f"error: {flag}: expected a name, found {value!r}\n"


def test_proposed_commands_quote_paths(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    hostile = tmp_path / "a b" / "$(id)"
    done = mlpack("init", "trial", "-d", hostile)
    assert done.stderr == f"build it with: mlpack build '{hostile}/trial'\n"
    assert mlpack("build", PACKAGE, "--format", "dir", "-d", "a b/$(id)").code == 0
    done = mlpack("configure", "a b/$(id)/hello-mpi", "--uid", "5")
    assert done.stderr.splitlines()[-1] == "next: mlpack doctor 'a b/$(id)/hello-mpi'"
    env = tmp_path / "a b/$(id)/hello-mpi/quickstart/k8s/mlops/single-node/mlops.env"
    env.write_text(
        env.read_text(encoding="utf-8").replace("MODEL_DIR=ROOT/hello-mpi", "MODEL_DIR=/x"), encoding="utf-8"
    )
    done = mlpack("configure", "a b/$(id)/hello-mpi", "--root", "/a b/$(X)/e", "--overlay", "single-node")
    assert done.code == 2
    assert done.stderr.splitlines()[-1] == "hint: --set 'MODEL_DIR=/a b/$(X)/e/hello-mpi'"
