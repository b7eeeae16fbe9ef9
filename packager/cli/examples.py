"""Examples of each command, which its --help and docs/commands.md show. Tests: cli/test_verbs.py."""

TEXT = """
build: mlpack build llm-finetune  # the package of a bundled model, in this folder
build: mlpack build ./my-model --format dir --set environment.STEPS=100  # of your own model, as a folder
build: mlpack build --all --specs models -d packages  # of every model in a folder
configure: mlpack configure hello-mpi --registry registry.example.com/team --uid 1000  # registry and user
configure: mlpack configure hello-mpi --storage output-pvc --set OUTPUT_CLAIM=results  # results on a claim
configure: mlpack configure hello-mpi --check  # what is still to be set
lock: mlpack lock hello-mpi  # write the digests
lock: mlpack lock hello-mpi --check  # compare them
site init: mlpack site init  # write ~/.config/mlpack/site.yaml
site show: mlpack site show  # what is in effect, and which line says so
options: mlpack options hello-mpi  # which options fit it, and which of them it has
diff: mlpack diff hello-mpi  # what you edited
diff: mlpack diff hello-mpi -o patch > edits.patch  # as a patch for `git apply`
upgrade: mlpack upgrade hello-mpi hello-mpi-2.tar.gz --dry-run  # show what an upgrade changes
upgrade: mlpack upgrade hello-mpi oci://registry.example.com/team/hello-mpi:2.0  # upgrade from a registry
overlay: mlpack overlay vendor/hello-mpi --to mine  # mine/multi-node and mine/single-node
overlay: mlpack overlay vendor/hello-mpi --to mine --dry-run  # what a newer build in vendor/hello-mpi changes
doctor: mlpack doctor hello-mpi --overlay multi-node -n team  # will it run in this namespace?
deploy: mlpack deploy hello-mpi  # apply it, and wait for its end
deploy: mlpack deploy hello-mpi --overlay single-node --follow --results runs  # print its log, and record the run
deploy: mlpack deploy hello-mpi --dry-run=server  # ask the cluster, and apply nothing
run: mlpack run llm-finetune-cpu  # its overlays in order: train, then serve
run: mlpack run ./mnist --task download,train  # two tasks of an MLCube
dev: mlpack dev ./my-model --set environment.STEPS=100  # each saved file runs in seconds, in the same pods
dev: mlpack dev ./my-model --stop  # delete the pods
status: mlpack status hello-mpi --watch  # until it has ended
logs: mlpack logs hello-mpi --follow  # of the main pod
logs: mlpack logs hello-mpi --all --tail 20  # the last lines of all pods
results: mlpack results hello-mpi results  # copy the results into a folder
workspace push: mlpack workspace push hello-mpi data --folder DATASET_DIR  # copy data to the storage
workspace ls: mlpack workspace ls hello-mpi  # what is on the storage
workspace pull: mlpack workspace pull hello-mpi results  # copy from the storage
delete: mlpack delete hello-mpi --dry-run  # list what would be deleted
delete: mlpack delete hello-mpi --keep-results  # keep claims and their data
status: mlpack status --all-namespaces  # what is deployed, by whom, of which build
task export: mlpack task export train.tar.gz --to service  # a template and a definition of a package
task schema: mlpack task schema train  # which values a definition takes, as JSON Schema
task create: mlpack task create train --set epochs=3  # a job from a definition
task create: mlpack task create train -f values.yaml --dry-run  # its manifests, without creating it
task status: mlpack task status JOB --watch  # until it has ended
task logs: mlpack task logs JOB --follow  # as it is written
task cancel: mlpack task cancel JOB  # end it, and keep its record
task rerun: mlpack task rerun JOB  # a new job with the same values
task delete: mlpack task delete JOB  # remove it with its record
task list: mlpack task list -o name  # the names of your jobs
task templates show: mlpack task templates show train -o yaml  # one template
task templates apply: mlpack task templates apply -f template.yaml  # register or change it
task templates delete: mlpack task templates delete train  # remove it
task definitions show: mlpack task definitions show train -o yaml  # one definition
task definitions apply: mlpack task definitions apply -f definition.yaml  # register or change it
task definitions delete: mlpack task definitions delete train  # remove it
serve: mlpack serve --config server.yaml  # the page and the API, on this machine
serve token: mlpack serve token NAME  # make a token; it is shown once
serve backup: mlpack serve backup backup.sqlite  # copy the database while the server runs
serve migrate: mlpack serve migrate  # bring the database to this version
serve check: mlpack serve check  # what the server could do with this configuration
operator status: mlpack operator status mpi  # what it serves, whether it runs, how it is installed
push: mlpack push hello-mpi.tar.gz oci://registry.example.com/team/hello-mpi:1.0  # with a tag
pull: mlpack pull oci://registry.example.com/team/hello-mpi:1.0 --extract  # as a folder
inspect: mlpack inspect oci://registry.example.com/team/hello-mpi:1.0 -o images  # its images alone
key new: mlpack key new prod  # write prod.key and prod.pub
bundle: mlpack bundle oci://registry.example.com/team/hello-mpi:1.0  # with its images, in one file
load: mlpack load hello-mpi.bundle.tar --registry registry.site.example  # on the other side
image build: mlpack image build hello-mpi -- --no-cache  # with an option of the builder
image push: mlpack image push hello-mpi --registry registry.example.com/team  # to another registry
list: mlpack list  # bundled models
list: mlpack list --specs models -o name  # with yours, the names alone
show: mlpack show llm-finetune  # variants, overlays, parameters
init: mlpack init my-model --kind JobSet  # a model that several nodes run
import kubeflow: mlpack import kubeflow job.yaml  # each job in a file
import kubeflow: mlpack import kubeflow --from-cluster pytorchjob/digits  # a job in the cluster
import jobset: mlpack import jobset jobset.yaml  # each JobSet in a file
import mxjob: mlpack import mxjob job.yaml  # a job of an MXNet operator
import mlcube: mlpack import mlcube ./mnist --claim workspace  # with a claim that exists
import intel: mlpack import intel models/tools/docker/specs -o zoo  # every spec of a checkout
lint: mlpack lint my-model/spec.yaml  # all problems, with line and column
render: mlpack render llm-finetune multi-node | kubectl diff -f -  # what would change in the cluster
schema: mlpack schema > spec.schema.json  # for an editor
verify: mlpack verify -v hello-mpi.tar.gz  # all checks, with what was checked
verify: mlpack verify hello-mpi --expect sha256:…  # is it the package that its sender meant?
version: mlpack version -o json  # for programs
completion: source <(mlpack completion bash)  # in ~/.bashrc
"""
"""A line for each example: the full name of the command, a command line, and what it is for."""


def examples(name: str) -> list[tuple[str, str]]:
    """Return the examples of a command: command lines, each with what it is for."""
    lines = [line.removeprefix(f"{name}: ") for line in TEXT.splitlines() if line.startswith(f"{name}: ")]
    return [(command, purpose) for command, _, purpose in (line.rpartition("  # ") for line in lines)]


def as_text(name: str) -> str:
    """Return the examples of the command `name` for its --help; empty without any."""
    lines = [f"  {command}\n      {purpose}" for command, purpose in examples(name)]
    return "\b\nExamples:\n" + "\n".join(lines) if lines else ""  # \b keeps the lines as they are
