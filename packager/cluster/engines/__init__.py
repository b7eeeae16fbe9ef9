"""The engines that mlpack can follow, by the kind of their workloads. A new one is a module here and a line below."""

from packager.cluster.engines.base import Engine
from packager.cluster.engines.mpijob import MPIJob
from packager.cluster.engines.pod import Pod

ENGINES: dict[str, Engine] = {engine.kind: engine for engine in (MPIJob(), Pod())}

__all__ = ["ENGINES", "Engine"]
