"""The kinds of overlay.

A new kind is one module here, one folder in `packager/templates/kinds/`, and one entry in `AnyOverlay`: the
spec's types, its schema, its documentation and the templates all follow from that union.
"""

from __future__ import annotations

from packager.kinds.mpijob import MPIJob
from packager.kinds.pod import Pod

AnyOverlay = Pod | MPIJob
