"""The keys of mlops.env for the PyTorch model; its other parts need PyTorch, and are tested on a cluster."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.payload.conftest import load_settings


@pytest.fixture(scope="module")
def settings() -> ModuleType:
    return load_settings("resnet50-pytorch")


def test_unset_keys_have_defaults(settings: ModuleType) -> None:
    read = settings.read_settings({"OUTPUT_DIR": "/out", "STEPS": "", "BATCH_SIZE": "8"})
    assert (read.precision, read.steps, read.batch_size, read.learning_rate) == ("fp32", 10, 8, 0.1)
    assert (read.output_dir, read.dataset_dir) == (Path("/out"), None)


def test_all_wrong_keys_are_reported_at_once(settings: ModuleType) -> None:
    wrong = {"PRECISION": "fp8", "STEPS": "0", "IMAGE_SIZE": "1.5", "LEARNING_RATE": "nan"}
    with pytest.raises(settings.SettingsError) as error:
        settings.read_settings(wrong)
    assert str(error.value).splitlines() == [
        "STEPS: expected a whole number from 1 to 1,000,000,000, found '0'",
        "IMAGE_SIZE: expected a whole number from 32 to 2,048, found '1.5'",
        "LEARNING_RATE: expected a number from 1e-09 to 1,000, found 'nan'",
        "PRECISION: expected fp32 or bf16, found 'fp8'",
        "OUTPUT_DIR: expected a folder for checkpoints, found nothing",
    ]


def test_unwritable_folder_is_refused(settings: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(settings.SettingsError, match=r"found .*/file/output: Not a directory"):
        settings.require_writable(tmp_path / "file" / "output")
