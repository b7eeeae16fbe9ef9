"""Defines the field types of a spec, for validation, the JSON Schema and the documentation.

A type's `title` says what form is accepted, in words that finish the sentence "expected …"; a field's
`description` says what the value is for.

`examples` are valid values: editors offer them, and where a required value is missing or wrong, validation goes
on with the example in its place, so that one run finds every problem.

Tests: modelspec/test_load.py.
"""

from typing import Annotated

from packager.base import envfile, names
from packager.base.values import Fields, Meta, field


def anchored(body: str) -> str:
    r"""Return a pattern that matches `body` and nothing after it.

    `$` alone also matches before a final newline in Python, and JSON Schema's dialect (ECMA 262) has no `\Z`;
    `(?![\s\S])`, "no character follows", is the end of the text in both.
    """
    return rf"^(?:{body})(?![\s\S])"


def form(pattern: str, title: str, *examples: str, longest: int | None = None) -> Meta:
    """Return the form of a text: a pattern that matches all of it, in words, valid values, and the most characters."""
    return Meta(pattern=anchored(pattern), title=title, examples=[*examples] or None, max_length=longest)


LABEL_FORM = "a name of lower-case letters, digits and '-', starting with a letter (at most 40)"

Label = Annotated[str, form(names.LETTER_FIRST, LABEL_FORM, "resnet50", longest=40)]

Tag = Annotated[str, form(names.LABEL, "a word of lower-case letters, digits and '-' (at most 20)", "fp32", longest=20)]

# Narrower than a label's value (apimachinery, IsValidLabelValue), which it becomes.
UseCase = Annotated[
    str,
    form(
        r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?",
        "a word of lower-case letters, digits, '-' and '_' (at most 40)",
        "image_recognition",
        longest=40,
    ),
]

OneLine = Annotated[
    str, form(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]+", "one line of text", "ResNet50 v1.5", longest=200)
]

Text = Annotated[
    str,
    form(
        r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]*",
        "text without control characters",
        "Trains ResNet50 v1.5.",
        longest=20_000,
    ),
]

ASSET_PATH = anchored(r"\.?[A-Za-z0-9_+@][-A-Za-z0-9._+@]*(/\.?[A-Za-z0-9_+@][-A-Za-z0-9._+@]*)*")
"""The form of a path that nothing between the spec and the cluster reads as something else."""

RelativePath = Annotated[
    str,
    form(
        r"[A-Za-z0-9_+@][-A-Za-z0-9._+@]*(/[A-Za-z0-9_+@][-A-Za-z0-9._+@]*)*",
        "a path below the spec's folder, of letters, digits and - . _ + @ between the slashes",
        "train.sh",
        longest=200,
    ),
]

FilePattern = Annotated[
    str,
    form(
        r"\.?[A-Za-z0-9_+@*?][-A-Za-z0-9._+@*?]*(/\.?[A-Za-z0-9_+@*?][-A-Za-z0-9._+@*?]*)*",
        "a path below the spec's folder, of letters, digits and - . _ + @ * ? between the slashes",
        "train.sh",
        longest=200,
    ),
]

AssetPath = Annotated[
    str,
    Meta(
        pattern=ASSET_PATH,
        max_length=200,
        title="a path below the spec's folder, of letters, digits and - . _ + @ between the slashes",
        examples=["data"],
    ),
]

Folder = Annotated[
    str,
    form(
        r"\.|/|/?\.?[A-Za-z0-9_+@][-A-Za-z0-9._+@]*(/\.?[A-Za-z0-9_+@][-A-Za-z0-9._+@]*)*",
        "`.` or a path of letters, digits and - . _ + @ between the slashes",
        ".",
        longest=200,
    ),
]

ImageName = Annotated[
    str,
    form(names.IMAGE_PATH, "an image's repository without its registry, in lower case", "tensorflow-mpi", longest=200),
]
ImageTag = Annotated[str, form(names.TAG, "an image tag of letters, digits and . _ - (at most 128)", "1.0.0")]
Version = Annotated[
    str,
    form(
        names.VERSION,
        "a version such as 1.4.0 or 2.0.0-rc.1 (https://semver.org), without build metadata",
        "1.0.0",
        longest=names.VERSION_LENGTH,
    ),
]
Digest = Annotated[str, form(r"sha256:[0-9a-f]{64}", "sha256: and 64 hexadecimal digits", f"sha256:{'0' * 64}")]
Registry = Annotated[str, form(names.REGISTRY, "a host, optionally with a port and a path", "docker.io", longest=200)]

EnvironmentKey = Annotated[
    str, form(envfile.NAME, "a name of letters, digits and '_', not starting with a digit", longest=100)
]
# A .env line ends at a newline and kustomize drops a carriage return before it (kustomize api/kv, bufio.ScanLines).
EnvironmentText = Annotated[str, form(envfile.VALUE, "one line of text", "value")]
EnvironmentValue = EnvironmentText | int | float | bool

# apimachinery, pkg/api/resource/quantity.go.
QuantityText = Annotated[
    str,
    form(
        r"([0-9]{1,15}(\.[0-9]{0,9})?|\.[0-9]{1,9})([numkMGTPE]|[KMGTPE]i|[eE][0-9]{1,2})?",
        "a Kubernetes quantity such as 500m or 4Gi",
        "500m",
        "4Gi",
    ),
]
WholeQuantity = Annotated[int, Meta(ge=0, title="a Kubernetes quantity such as 500m or 4Gi")]
RealQuantity = Annotated[float, Meta(ge=0, title="a Kubernetes quantity such as 500m or 4Gi")]
Quantity = QuantityText | WholeQuantity | RealQuantity

ResourceName = Annotated[
    str, form(names.KEY, "a resource as Kubernetes names it: cpu, memory, nvidia.com/gpu", longest=120)
]


# Kubernetes allows any text in a command; these are the only control characters that programs expect there.
Word = Annotated[
    str,
    form(
        r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]*",
        "text without control characters",
        "train",
        longest=20_000,
    ),
]


class Resources(Fields, frozen=True):
    """The resources that a container requests from its node (`requests`), and the most that it may use (`limits`)."""

    requests: Annotated[dict[ResourceName, Quantity], Meta(description="What the scheduler reserves for it.")] = {}  # noqa: RUF012 - msgspec copies it
    limits: Annotated[dict[ResourceName, Quantity], Meta(description="The most that the container may use.")] = {}  # noqa: RUF012 - the same


class Parameter(Fields, frozen=True):
    """An environment variable with a description."""

    value: Annotated[EnvironmentValue, Meta(description="The default value.", examples=["20"])]
    description: Annotated[OneLine, Meta(description="What it does, for the README's table of parameters.")] = ""


Sha256 = Annotated[str, Meta(pattern=anchored("[0-9a-f]{64}"), title="a sha256 of 64 hexadecimal digits")]


class Download(Fields, frozen=True):
    """A file that a build fetches into `assets`."""

    url: Annotated[
        str,
        Meta(
            pattern=anchored(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[-A-Za-z0-9._~:/?\[\]@!&'()*+,;=%]*)?"),
            max_length=2000,
            title="an http or https URL without a user and a password",
            description="Where the file is.",
            examples=["https://example.com/weights.npz"],
        ),
    ]
    path: Annotated[RelativePath, Meta(description="Where it is in the package, below `assets`.")]
    sha256: Annotated[
        Sha256 | None,
        Meta(description="The digest of the file. A build refuses a download without one, and prints it."),
    ] = None


class FetchedFile(Fields, frozen=True, kw_only=True):
    """A file that pods fetch before their program starts."""

    address: Annotated[
        str,
        Meta(
            pattern=anchored(
                r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[-A-Za-z0-9._~:/?@!&'*+,;=%]*)?"
                r"|hf://(datasets/)?[A-Za-z0-9._-]+/[A-Za-z0-9._-]+@[A-Za-z0-9._-]+"
                r"(/[A-Za-z0-9_@+-][A-Za-z0-9._@+-]*)*"
                r"|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[-A-Za-z0-9_@+][-A-Za-z0-9._@+]*)+"
                r"|oci://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[a-z0-9][a-z0-9._-]*)+@sha256:[0-9a-f]{64}"
            ),
            max_length=2000,
            title="an http or https URL without a user and a password, hf://OWNER/NAME@COMMIT, "
            "hf://OWNER/NAME@COMMIT/FILE, s3://BUCKET/KEY or oci://HOST/REPOSITORY@sha256:…",
            description="Where it is: a file of a web server, of Hugging Face's hub (without FILE, all files of the "
            "repository; `hf://datasets/` for a dataset), or of an S3 server; or the layers with a title of an "
            "artefact in a registry, as ORAS pushes files. `HF_ENDPOINT`, `AWS_ENDPOINT_URL` and `AWS_REGION` in "
            "`environment` name other servers; the keys for S3 are the secrets `AWS_ACCESS_KEY_ID` and "
            "`AWS_SECRET_ACCESS_KEY`, or those of the pod's role in AWS, where the image or `requirements` has "
            "botocore.",
            examples=["https://example.com/weights.npz"],
        ),
    ] = field(name="from")
    to: Annotated[
        str,
        Meta(
            pattern=anchored(r"[A-Z][A-Z0-9_]*(/[A-Za-z0-9_@+-][A-Za-z0-9._@+-]*)*"),
            max_length=500,
            title="DATASET_DIR, OUTPUT_DIR or CHECKPOINT_DIR, or a path below it",
            description="Where the file is put, or the folder for several: OUTPUT_DIR, DATASET_DIR, or CHECKPOINT_DIR "
            "if `environment` has it, and a path below it. For several files it may be left out. DATASET_DIR is a "
            "volume then, which the program may only read.",
            examples=["OUTPUT_DIR/data/weights.npz"],
        ),
    ]
    sha256: Annotated[
        Sha256 | None,
        Meta(
            description="The digest of the file; no other content is accepted. It may be left out where `from` has a "
            "commit of 40 digits or a digest: then each file has the digest that is listed there."
        ),
    ] = None
    size: Annotated[
        int, Meta(ge=0, le=1 << 50, description="The size in bytes, of all files together: not more is fetched.")
    ]
    secret: Annotated[
        EnvironmentKey | None,
        Meta(
            description="One of `secrets`, sent as a bearer token to the host of `from`, and to no other. For a "
            "registry it may be USER:PASSWORD."
        ),
    ] = None

    @property
    def folder(self) -> str:
        """The variable of the folder in which it is put."""
        return self.to.partition("/")[0]


class Section(Fields, frozen=True):
    """A section of the README of each package."""

    title: Annotated[OneLine, Meta(description="Its heading.", examples=["Dataset"])]
    file: Annotated[
        AssetPath,
        Meta(
            description="A Markdown file. Its headings are moved below that of the section, and the rest stays as "
            "written: relative links begin at the README.",
            examples=["dataset.md"],
        ),
    ]


class Secret(Fields, frozen=True):
    """An environment variable whose value is in a Secret of the namespace, and never in the package."""

    description: Annotated[OneLine, Meta(description="What it is for, in the README.")] = ""


Secrets = Annotated[
    dict[EnvironmentKey, Secret],
    Meta(
        description="Environment variables whose values are secret. Every pod of the workload reads them from the "
        "Secret that SECRET in site.env names, under the same keys. The package contains their names only.",
        examples=[{"HF_TOKEN": {"description": "A token of huggingface.co."}}],
    ),
]

# Written out, not `Parameter | EnvironmentValue`: msgspec does not resolve a nested union.
Environment = Annotated[
    dict[EnvironmentKey, Parameter | EnvironmentText | int | float | bool],
    Meta(description="More keys for mlops.env: KEY: value, or KEY: {value: …, description: …}."),
]


def text(value: EnvironmentValue | Quantity) -> str:
    """Return a number, a boolean or a text as its author wrote it: `yamlio` lets no other spelling be a number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
