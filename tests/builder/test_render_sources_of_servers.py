"""The script of packages that fetches files, from servers of other projects: moto's S3 and Debian's registry."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.builder.fetching import fetch, files, sha256
from tests.publish import real_registry
from tests.publish.real_registry import BASIC, BEARER, DEBIAN, PASSWORD, USER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.thorough

CONTENT = os.urandom(3_000_000)
KEY = "data+1/train@2.bin"
POLICY = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, Any]]:
    """The variables of a pod with a key for an S3 server, which checks signatures and has an object."""
    from botocore.session import get_session
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    given = {"region_name": "us-east-1", "endpoint_url": f"http://{host}:{port}"}
    given |= {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 5)  # it checks the requests that follow
        iam, s3 = (get_session().create_client(service, **given) for service in ("iam", "s3"))
        iam.create_user(UserName="pod")
        key = iam.create_access_key(UserName="pod")["AccessKey"]
        iam.put_user_policy(UserName="pod", PolicyName="read", PolicyDocument=json.dumps(POLICY))
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key=KEY, Body=CONTENT)
        yield {
            "AWS_ENDPOINT_URL": given["endpoint_url"],
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        }
    server.stop()


@pytest.mark.parametrize("with_clients", [False, True])
def test_object_is_fetched_with_a_signature_that_the_server_checks(
    tmp_path: Path, bucket: dict[str, Any], *, with_clients: bool
) -> None:
    wanted: dict[str, Any] = {"digest": sha256(CONTENT), "size": len(CONTENT), "with_clients": with_clients}
    code, errors = fetch(tmp_path, f"s3://bucket/{KEY}", **wanted, **bucket | {"AWS_SECRET_ACCESS_KEY": "wrong"})
    assert code == 1
    assert errors.endswith("no right to read it (status 403)\n")
    (tmp_path / ".mlpack-data.part").write_bytes(CONTENT[:1_000_000])
    code, errors = fetch(tmp_path, f"s3://bucket/{KEY}", **wanted, **bucket)
    assert code == 0, errors
    assert (tmp_path / "data").read_bytes() == CONTENT


@pytest.mark.parametrize("with_clients", [False, True])
@pytest.mark.parametrize("mode", [BASIC, BEARER])
def test_artefact_that_oras_has_pushed_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, *, with_clients: bool
) -> None:
    from oras.client import OrasClient

    (tmp_path / "registry").mkdir()
    (tmp_path / "model.bin").write_bytes(CONTENT)
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with real_registry.serving(DEBIAN, BASIC, tmp_path / "registry") as (host, (_, certificate)):
        client = OrasClient(tls_verify=certificate, auth_backend="basic")
        client.auth.set_basic_auth(USER, PASSWORD)
        pushed = client.push(f"{host}/team/model:1", files=["model.bin", "config.json"])
    with real_registry.serving(DEBIAN, mode, tmp_path / "registry") as (host, (_, certificate)):
        source = f"oci://{host}/team/model@{pushed.headers['Docker-Content-Digest']}"
        given: dict[str, Any] = {"SSL_CERT_FILE": certificate, "size": 4_000_000, "with_clients": with_clients}
        code, errors = fetch(tmp_path, source, login="LOGIN", LOGIN="user:wrong", **given)
        assert code == 1
        assert errors.splitlines()[-1] == f"sources: {source}: no right to read it (status 401)"
        code, errors = fetch(tmp_path, source, login="LOGIN", LOGIN=f"{USER}:{PASSWORD}", **given)
    assert code == 0, errors
    assert files(tmp_path) == {"model.bin": CONTENT, "config.json": b"{}"}
