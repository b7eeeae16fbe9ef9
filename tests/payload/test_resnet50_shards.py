import importlib
from pathlib import Path

import pytest

settings, shards = importlib.import_module("settings"), importlib.import_module("shards")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("train-00001-of-00002", "train-00000-of-00002", "validation-00000-of-00001", "train-labels.txt"):
        (tmp_path / name).touch()
    return tmp_path


def test_shards_are_found_in_a_flat_folder_and_one_per_split(folder: Path) -> None:
    source = shards.find_shards(folder, "train")
    assert source.files == (f"{folder}/train-00000-of-00002", f"{folder}/train-00001-of-00002")
    assert source.kind == "tfrecord"
    assert str(source) == f"data: 2 files train-* in DATASET_DIR={folder}"
    split = folder / "split"
    shard = split / "validation/validation-00000-of-00128"
    shard.parent.mkdir(parents=True)
    shard.touch()
    assert shards.find_shards(split, "validation").files == (str(shard),)
    assert shards.find_shards(split, "train").files == ()


def test_data_is_synthetic_without_shards_and_explained(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    empty = tmp_path / "empty"
    other = tmp_path / "other"
    empty.mkdir()
    other.mkdir()
    (other / "cats.zip").touch()
    by_folder = {folder: shards.find_shards(folder, "train") for folder in (None, missing, empty, other)}
    assert {source.kind for source in by_folder.values()} == {"synthetic"}
    assert [str(source) for source in by_folder.values()] == [
        "*** SYNTHETIC DATA: DATASET_DIR is not set ***",
        f"*** SYNTHETIC DATA: DATASET_DIR={missing} does not exist ***",
        f"*** SYNTHETIC DATA: DATASET_DIR={empty} is empty ***",
        f"*** SYNTHETIC DATA: DATASET_DIR={other} has no file with a name like train-00000-of-01024 ***",
    ]


def test_unreadable_data_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(settings.SettingsError) as caught:
        shards.find_shards(file, "train")
    assert str(caught.value) == f"DATASET_DIR: expected a readable folder, found {file}: Not a directory"


def test_every_record_goes_to_one_rank() -> None:
    for files, size in ((8, 3), (3, 3), (2, 3), (1, 4)):
        records = {(f"file{file}", record) for file in range(files) for record in range(10)}
        dealt = []
        for rank in range(size):
            share = shards.share_of([f"file{file}" for file in range(files)], rank, size)
            records_of_rank = sorted(record for record in records if record[0] in share.files)
            dealt += records_of_rank[share.offset :: share.stride]
        assert sorted(dealt) == sorted(records)
