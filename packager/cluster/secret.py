"""Creates the Secret that contains the values of a package's secrets. Tests: cli/test_secret.py."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError
from packager.base.masking import MASK
from packager.kubernetes.kubectl import messages
from packager.kubernetes.kubectl.client import HANGING_SECONDS
from packager.kubernetes.kubectl.refusals import explained_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.kubernetes.kubectl.client import Kubectl

_MANAGER = "mlpack-secret"


def create(
    kubectl: Kubectl, name: str, values: Mapping[str, str], *, force: bool = False, dry_run: bool = False
) -> None:
    """Create a Secret; kubectl reads the values from stdin, so they are on no command line and in no file.

    Args:
        kubectl: The user's kubectl, set to the namespace.
        name: The Secret's name.
        values: The values, by key.
        force: Whether to replace these keys of an existing Secret; its other keys are kept.
        dry_run: Whether the cluster only validates the Secret.

    Raises:
        ClusterError: The Secret already exists, or the cluster rejects it.
        ToolError: kubectl is missing or did not end.
    """
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "type": "Opaque",
        "data": encoded,
    }
    # A client-side apply copies the values into an annotation; a server-side apply does not.
    verb = ["apply", "--server-side", "--force-conflicts", f"--field-manager={_MANAGER}"] if force else ["create"]
    arguments = [*verb, "--filename=-", "--output=name", *(["--dry-run=server"] if dry_run else [])]
    done = kubectl.run(*arguments, timeout=HANGING_SECONDS, stdin=json.dumps(secret).encode())
    if done.returncode == 0:
        return
    if messages.ALREADY_EXISTS.search(done.stderr):
        raise ClusterError(f"the Secret {name} already exists", hint="--force replaces its keys that the package reads")
    stderr = done.stderr
    for value in sorted((*values.values(), *encoded.values()), key=len, reverse=True):
        stderr = stderr.replace(value, MASK) if len(value) > 3 else stderr
    raise explained_error(stderr)
