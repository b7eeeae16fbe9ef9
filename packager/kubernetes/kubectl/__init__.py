"""Runs the user's own kubectl, and explains its errors."""

import re

KLOG = re.compile(r'^[EWI]\d{4} (?:[\d:.]+ +\d+ [^]]+\] )?(?:"command failed" err=)?', re.MULTILINE)
"""The prefix of klog before a message: a level, a time, a process id and a line of kubectl's source."""
