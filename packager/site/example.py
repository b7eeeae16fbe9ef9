"""The commented site.yaml that `mlpack site init` writes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from packager.base import atomic
from packager.base.errors import ToolError, reason
from packager.site.read import parsed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_TEXT = """\
# The defaults of a site: what mlpack sets in every package here, unless the command line says otherwise.
# `mlpack site show` prints what is in effect, `mlpack site check` asks the cluster whether it has all that is named.

# Where images are pulled from.
#registry: registry.example.com/team

# The folder that contains the packages, as the pods see it.
#root: /nfs/models

# The user and the groups that pods run as.
#ids: {uid: 1000, gid: 1000, fsGroup: 1000}

# Where results, datasets and checkpoints are: options of storage, with their values.
#storage:
#  output-pvc: {OUTPUT_CLAIM: results}

# The LocalQueue of Kueue, and the secret for pulling images.
#queue: user-queue
#pullSecret: registry

# The nodes that pods run on, and the taints that they tolerate.
#nodeSelector: {pool: train}
#tolerations:
#  - {key: train, operator: Exists, effect: NoSchedule}

# Annotations of all pods, of those that `mlpack verify` allows, or of your own domains.
#annotations: {prometheus.io/scrape: "true"}
#annotationDomains: [example.com]

# Other site options that are on, with their values.
#options:
#  shared-memory: {SHM_SIZE: 8Gi}
"""

QUESTIONS = {
    "registry": "Registry that images are pulled from",
    "root": "Folder that contains the packages, as the pods see it",
    "queue": "LocalQueue of Kueue",
    "pullSecret": "Secret for pulling images",
}
"""The keys that a user may be asked for."""


def text(values: Mapping[str, str]) -> str:
    """Return the text of a new file, with the lines of some of QUESTIONS filled in."""
    new = _TEXT
    for key, value in values.items():
        line = f"{key}: {json.dumps(value)}".replace("\\", r"\\")
        new = re.sub(rf"^#{key}: .*$", line, new, flags=re.MULTILINE)
    return new


def create(path: Path, values: Mapping[str, str], *, force: bool) -> None:
    """Write a new, commented file; the folder is created.

    Raises:
        UsageError: The file exists, and `force` is not set; or a value is invalid.
        ToolError: The file cannot be written.
    """
    content = text(values).encode()
    parsed(path, content)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(f"{path.parent} cannot be created: {reason(error)}") from None
    with atomic.file(path, exists_hint=None if force else "--force replaces it") as stream:
        stream.write(content)
