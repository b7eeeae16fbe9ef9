#!/usr/bin/env python3
"""Prints the file that the pod has fetched."""

import os
import sys
from pathlib import Path

sys.stdout.write(Path(os.environ["OUTPUT_DIR"], "data/text").read_text(encoding="utf-8"))
