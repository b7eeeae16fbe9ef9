import importlib
from pathlib import Path
from typing import Any

import pytest

settings = importlib.import_module("settings")


def read(**environ: str) -> Any:
    return settings.read_settings({"OUTPUT_DIR": "/output", **environ})


def test_every_key_has_a_default_and_a_maximum() -> None:
    read_settings = read()
    assert (read_settings.steps, read_settings.batch_size, read_settings.image_size) == (10, 4, 224)
    assert read_settings.output_dir == Path("/output")
    assert read_settings.dataset_dir is None
    assert read(STEPS="", DATASET_DIR="") == read()
    values = {number.key: str(number.highest) for number in settings.NUMBERS}
    read_settings = read(**values)
    for number in settings.NUMBERS:
        assert getattr(read_settings, number.key.lower()) == number.highest
    text = settings.describe_keys()
    for key in (*(number.key for number in settings.NUMBERS), "DATASET_DIR", "OUTPUT_DIR"):
        assert f"  {key} " in text


def test_relative_folder_is_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read(OUTPUT_DIR="ROOT/package/output").output_dir == tmp_path / "ROOT/package/output"


def test_wrong_values_are_reported_with_the_expected_form() -> None:
    for key, value, message in (
        ("STEPS", "ten", "STEPS: expected a whole number from 1 to 1,000,000,000, found 'ten'"),
        ("STEPS", "0", "STEPS: expected a whole number from 1 to 1,000,000,000, found '0'"),
        ("LEARNING_RATE", "nan", "LEARNING_RATE: expected a number from 1e-09 to 1,000,000,000.0, found 'nan'"),
        ("OUTPUT_DIR", "", "OUTPUT_DIR: expected a folder for checkpoints, found nothing"),
    ):
        with pytest.raises(settings.SettingsError) as caught:
            read(**{key: value})
        assert str(caught.value) == message
    for value in ['"20"', "'20'", "20 # for a start"]:
        with pytest.raises(settings.SettingsError, match="is read as it stands: no quotes"):
            read(STEPS=value)
    with pytest.raises(settings.SettingsError) as caught:
        read(STEPS="x", SEED="y", OUTPUT_DIR="")
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["STEPS", "SEED", "OUTPUT_DIR"]
