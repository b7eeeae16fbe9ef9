"""Writes the site: `python -m tools.site [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.site import CHECKOUT, build

if __name__ == "__main__":
    build(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else CHECKOUT / "build/site")
