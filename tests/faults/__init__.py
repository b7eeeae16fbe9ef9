"""Parts of the cluster killed, kept down and frozen at random moments, while packages are deployed, copied and deleted.

    python -m tests.faults --faults 200 --trials 50 [--seed S] [--write docs/faults.md]

Each trial is a namespace with objects of somebody else's in it, and a package whose end is known from its script. What
`mlpack` says of it is held against what the cluster knows once it is whole again:

    deploy    0 only if the workload has succeeded; "has failed" only if it has failed; "has already run" only if it has
    status    the same, asked after a deploy that said only that it has run already
    results   0 only if every file is there, whole, once the script has written them
    delete    0 only if nothing of the package is left
    all       the objects of others are still there; no verb outlasts its own --timeout, or gives up before it; and
              "does not answer" only if what does not answer was away

It needs the cluster of `tests/testbed`, and nothing else may run there meanwhile.
"""
