"""Defines what is left out of a folder of assets unless it is named: secrets, history and caches."""

from __future__ import annotations

import re

# Without regard to case, as some file systems have it.
_NAMES = (
    r"\.(git|hg|svn|bzr|jj)|cvs"
    r"|\.env([.-].*)?|\.envrc|\.netrc|\.pgpass|\.my\.cnf|\.npmrc|\.pypirc|\.git-credentials|\.htpasswd|\.vault-token"
    r"|\.(ssh|aws|azure|gcloud|kube|docker|gnupg|huggingface|kaggle|config)|id_(rsa|dsa|ecdsa|ed25519)"
    r"|\.[a-z]+_history|\.ds_store|\._.*|thumbs\.db|__pycache__|\.ipynb_checkpoints|\.venv|\.tox|\.direnv"
    r"|\.(cache|mypy_cache|pytest_cache|ruff_cache|idea|vscode|terraform)|\.mlpack-.*"
)


def is_excluded(name: str) -> bool:
    """Whether a file or folder called `name` is left out: .git, .env, .ssh, __pycache__ and the like."""
    return re.fullmatch(_NAMES, name, re.IGNORECASE) is not None
