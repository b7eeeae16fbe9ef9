"""LeaderWorkerSet: groups of a leader and workers that serve one model together (leaderworkerset.x-k8s.io/v1)."""
