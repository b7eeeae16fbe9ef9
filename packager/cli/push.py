"""`mlpack push` and `mlpack key new`: push a package to a registry, and make the keys that sign it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from packager.base.errors import missing_extra
from packager.cli.arguments import AcceptOptions, PackagePath, Program, source_date_epoch
from packager.cli.asking import password_of
from packager.cli.commands import group
from packager.cli.console import Output, emit_output, progress, say
from packager.cli.host import host
from packager.cli.registry_arguments import RegistryOptions
from packager.publish.artefact import chosen_annotations
from packager.publish.push import PushedPackage
from packager.publish.push import push as push_package
from packager.publish.reference import parse
from packager.verify import Checks


def push(
    accept: AcceptOptions,
    at: RegistryOptions,
    package: PackagePath,
    reference: Annotated[str, typer.Argument(metavar="REFERENCE", help="Where to push it: oci://HOST/REPOSITORY:TAG.")],
    tag: Annotated[list[str], typer.Option(metavar="TAG", help="One more tag. Repeatable.")] = [],
    annotation: Annotated[
        list[str],
        typer.Option(metavar="KEY=VALUE", help="One more, such as org.opencontainers.image.source=URL. Repeatable."),
    ] = [],
    sign_key: Annotated[list[Path], typer.Option(metavar="FILE", help="Sign it with this key. Repeatable.")] = [],
    platform: Annotated[str, typer.Option(metavar="OS/ARCH", help="The artefact's platform.")] = "linux/amd64",
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Push only what `verify` accepts.")] = True,
    force: Annotated[bool, typer.Option("--force", help="Also move tags that name another artefact.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Send nothing; show the digests, and with -o json also the manifest.")
    ] = False,
    kubectl: Program = "kubectl",
    output: Output = None,
) -> None:
    """Push a package to a registry, and print the reference with the digest.

    An archive is pushed unchanged, a folder is packed first, and its edits travel with it. The tags are set last, after
    the signatures, so no one sees a part of a push. The password of a key is asked for, or read from
    MLPACK_KEY_PASSWORD. Exit code 5 if `verify` would not accept the package, or a tag names another artefact.
    """
    allowed, level = accept.accepted(with_site=False)
    checks = Checks(kubectls=(kubectl,), level=level, allowed=allowed, has_notes=False, runner=host().runner)
    pushed = push_package(
        package,
        parse(reference),
        at.access(),
        checks,
        tell=say,
        progress=progress,
        tags=tuple(tag),
        platform=platform,
        annotations=chosen_annotations(annotation),
        created=source_date_epoch(),
        is_verified=not verify,
        force=force,
        dry_run=dry_run,
        signers=_keys("--sign-key").signers(sign_key, password_of, say) if sign_key else (),
    )
    emit_output(pushed.as_json(), [pushed.pinned], output)
    _explain(pushed)


def _keys(what: str) -> Any:
    """Return the module that needs the packages of the extra `sign`."""
    try:
        from packager.publish import keys
    except ModuleNotFoundError as error:
        raise missing_extra(what, error, "sign") from None
    return keys


def _explain(pushed: PushedPackage) -> None:
    say(f"package {pushed.facts.package} {pushed.facts.digest}")
    layer = pushed.artefact.layer
    say(f"layer {layer.name} {layer.blob.digest}, {layer.blob.size:,} bytes")
    say(*(f"signed by {fingerprint}" for fingerprint in (pushed.signed_by if pushed.sent is not None else ())))
    if pushed.sent is None:
        say("dry run: nothing was sent")
    elif not pushed.is_new:
        say("the registry has it already: nothing was sent")
    if pushed.tags:
        say(f"tag{'s' if len(pushed.tags) > 1 else ''} {', '.join(pushed.tags)}")
    else:
        say("without a tag: only the digest names it")


def new(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The path of both files, without .key and .pub.")],
    no_password: Annotated[
        bool, typer.Option("--no-password", help="Leave the private key unencrypted: anyone who can read it can sign.")
    ] = False,
    output: Output = None,
) -> None:
    """Write a new key pair: NAME.key, which signs, and NAME.pub, which others check signatures with.

    The password of NAME.key is asked for, or read from MLPACK_KEY_PASSWORD. Existing files are never replaced.
    """
    made = _keys("a key pair").new_key(name, lambda: None if no_password else password_of(f"{name}.key", is_new=True))
    emit_output(made.as_json(), [made.private, made.public], output)
    say(f"ECDSA P-256 {made.key.fingerprint}")
    say(f"keep {made.private} secret{'' if made.is_encrypted else ': it is not encrypted'}; publish {made.public}")


KEY = group("Make the keys that sign packages.", new=new)
