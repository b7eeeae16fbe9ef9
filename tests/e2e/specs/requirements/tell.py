#!/usr/bin/env python3
"""Prints a value of a package that is not in the image."""

import importlib
import sys

sys.stdout.write(f"{importlib.import_module('told').VALUE}\n")
