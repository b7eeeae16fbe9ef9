"""The keys of mlops.env for the language model; its other parts need PyTorch, and are tested on a cluster."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.payload.conftest import load_settings


@pytest.fixture(scope="module")
def settings() -> ModuleType:
    return load_settings("llm-finetune")


def test_unset_keys_have_defaults(settings: ModuleType) -> None:
    read = settings.read_settings({"OUTPUT_DIR": "/out", "STEPS": "", "BATCH_SIZE": "8", "BASE_MODEL": " "})
    assert (read.steps, read.batch_size, read.learning_rate, read.lora_rank) == (60, 8, 0.001, 0)
    assert (read.output_dir, read.dataset_dir, read.base_model) == (Path("/out"), None, None)


@pytest.mark.parametrize(("value", "folder"), [(None, "/out"), (" ", "/out"), ("/checkpoints", "/checkpoints")])
def test_checkpoints_are_in_a_folder_of_their_own_if_one_is_set(
    settings: ModuleType, value: str | None, folder: str
) -> None:
    added = {} if value is None else {"CHECKPOINT_DIR": value}
    assert settings.read_settings({"OUTPUT_DIR": "/out", **added}).checkpoint_dir == Path(folder)


def test_all_wrong_keys_are_reported_at_once(settings: ModuleType, tmp_path: Path) -> None:
    wrong = {"STEPS": "0", "SEQUENCE_LENGTH": "1.5", "LEARNING_RATE": "nan", "BASE_MODEL": str(tmp_path)}
    with pytest.raises(settings.SettingsError) as error:
        settings.read_settings(wrong)
    assert str(error.value).splitlines() == [
        "STEPS: expected a whole number from 1 to 1,000,000,000, found '0'",
        "SEQUENCE_LENGTH: expected a whole number from 8 to 131,072, found '1.5'",
        "LEARNING_RATE: expected a number from 1e-09 to 10.0, found 'nan'",
        "OUTPUT_DIR: expected a folder for the model and checkpoints, found nothing",
        f"BASE_MODEL: expected a folder with config.json, found '{tmp_path}'",
    ]


def test_adapters_are_refused_without_a_base_model(settings: ModuleType) -> None:
    with pytest.raises(settings.SettingsError, match="LORA_RANK: expected 0 without BASE_MODEL"):
        settings.read_settings({"OUTPUT_DIR": "/out", "LORA_RANK": "8"})


@pytest.mark.parametrize("file", ["Dockerfile", "ranks.py"])
def test_pytorch_models_have_the_same_file(file: str, specs: Path) -> None:
    """A package contains only files of its own model's folder."""
    contents = {(specs / model / file).read_text(encoding="utf-8") for model in ("llm-finetune", "resnet50-pytorch")}
    assert len(contents) == 1
