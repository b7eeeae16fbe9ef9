"""Tests of the storages of a package's pods, of the folder that `--folder` names, and of listings."""

from __future__ import annotations

from typing import Any

import pytest

from packager.base.errors import ClusterError, UsageError
from packager.cluster import file_lists
from packager.cluster.workspace import place, storages
from tests.local_pod import local_pod


def pod(*mounts: tuple[str, str], **volumes: dict[str, Any]) -> dict[str, Any]:
    listed = [{"name": name, "mountPath": path, "readOnly": True} for name, path in mounts]
    return {
        "containers": [{"name": "main", "image": "a:1", "volumeMounts": listed}],
        "volumes": [{"name": name, **volume} for name, volume in volumes.items()],
    }


def claim(name: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name, "readOnly": True}}


SEVERAL = storages(
    pod(
        ("code", "/code"),
        ("data", "/data"),
        ("cube", "/mnt/cube"),
        ("cube", "/mnt/cube/in"),
        ("share", "ROOT/out"),
        ("tmp", "/scratch"),
        data=claim("dataset"),
        cube=claim("cube"),
        share={"nfs": {"server": "s", "path": "/p", "readOnly": True}},
        code={"configMap": {"name": "c"}},
        tmp={"emptyDir": {}},
    )
)
ONE = SEVERAL[1:2]


def test_storages_are_the_outermost_mounts_of_lasting_volumes() -> None:
    assert [(storage.root, storage.words) for storage in SEVERAL] == [
        ("/data", "the claim dataset"),
        ("/mnt/cube", "the claim cube"),
        ("/ROOT/out", "nfs"),
    ]


def test_place_resolves_the_folder_of_the_user() -> None:
    for folder, available, path, words in [
        (None, ONE, "/mnt/cube", "the claim cube"),
        ("chats", ONE, "/mnt/cube/chats", "the claim cube"),
        ("a/b", ONE, "/mnt/cube/a/b", "the claim cube"),
        ("/data/x", SEVERAL, "/data/x", "the claim dataset"),
        ("/data//x/", SEVERAL, "/data/x", "the claim dataset"),
        ("OUTPUT_DIR", SEVERAL, "/ROOT/out", "nfs"),
    ]:
        chosen = place(folder, available, {"OUTPUT_DIR": "ROOT/out"})
        assert (chosen.path, chosen.words) == (path, words)


HINT = "there are: /data (the claim dataset), /mnt/cube (the claim cube), /ROOT/out (nfs)"


def test_place_refuses_a_folder_outside_of_the_lasting_storages() -> None:
    for folder, available, message, hint in [
        (None, SEVERAL, "the package uses several storages: choose one with --folder", HINT),
        ("x", SEVERAL, "--folder: expected an absolute path or a key of mlops.env, found 'x'", HINT),
        ("/tmp", SEVERAL, "/tmp is on no storage that outlives the pods", HINT),
        ("/data/../etc", SEVERAL, "--folder: expected a path without '..', found '/data/../etc'", None),
        ("a\nb", ONE, "--folder: expected a path without '..', found 'a\\nb'", None),
        (
            None,
            (),
            "the package uses no storage that outlives its pods",
            "switch a storage option on: mlpack configure PACKAGE --storage pvc",
        ),
    ]:
        with pytest.raises(UsageError) as refused:
            place(folder, available, {})
        assert (str(refused.value), refused.value.hint) == (message, hint)


def test_missing_folder_on_a_claim_raises_an_error_or_lists_empty() -> None:
    with local_pod() as pod:
        with pytest.raises(ClusterError) as missing:
            pod.remote.entries()
        assert str(missing.value) == f"{pod.data} does not exist on the claim c"
        assert pod.remote.entries(must_exist=False).entries == ()


@pytest.mark.parametrize(
    "line",
    [
        "81a4 5 1 ../../etc/passwd",
        "81a4 5 1 /etc/passwd",
        "81a4 99999999999999999999 1 a",
        "81a4 5 x a",
        "81a4 5",
    ],
)
def test_listing_skips_lines_of_a_hostile_pod(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    monkeypatch.setattr(file_lists, "_LIST", f"printf '%s\\n' '{line}'")
    with local_pod() as pod:
        listing = pod.remote.entries()
    assert (listing.entries, len(listing.skipped)) == ((), 1)


@pytest.mark.parametrize("tools", ["GNU", pytest.param("busybox", marks=pytest.mark.thorough)])
def test_unreadable_and_missing_files_have_a_reason_and_no_digest(tools: str) -> None:
    with local_pod() as pod:
        if tools == "busybox":
            pod.use_busybox()
        pod.put({"a": b"a", "b": b"b"})
        (pod.claim / "data/a").chmod(0)
        seen, unread = pod.remote.digests({"a": 1, "b": 1, "c": 1})
        assert (list(seen), unread) == (["b"], ("a: Permission denied", "c: No such file or directory"))
        (pod.claim / "data").chmod(0)
        with pytest.raises(ClusterError, match=r"/data cannot be read: .*cd: "):
            pod.remote.digests({"a": 1})
