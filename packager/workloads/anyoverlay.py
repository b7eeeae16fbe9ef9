"""The union of the types that an overlay may have in a spec, one for each kind. Tests: modelspec/test_schema.py."""

from packager.workloads.deployment.values import Deployment
from packager.workloads.job.values import Job
from packager.workloads.jobset.values import JobSet
from packager.workloads.leaderworkerset.values import LeaderWorkerSet
from packager.workloads.mpijob.values import MPIJob
from packager.workloads.pod.values import Pod

AnyOverlay = Pod | Job | MPIJob | JobSet | Deployment | LeaderWorkerSet
