"""The keys of mlops.env for the language model; its other parts need PyTorch, and are tested on a cluster."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def settings() -> ModuleType:
    path = Path(__file__).parents[2] / "model_specs/llm-finetune/settings.py"
    spec = importlib.util.spec_from_file_location("llm_finetune_settings", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # a dataclass looks there for its own
    spec.loader.exec_module(module)
    return module


def test_unset_keys_have_defaults(settings: ModuleType) -> None:
    read = settings.read_settings({"OUTPUT_DIR": "/out", "STEPS": "", "BATCH_SIZE": "8", "BASE_MODEL": " "})
    assert (read.steps, read.batch_size, read.learning_rate, read.lora_rank) == (60, 8, 0.001, 0)
    assert (read.output_dir, read.dataset_dir, read.base_model) == (Path("/out"), None, None)


def test_all_wrong_keys_are_reported_at_once(settings: ModuleType, tmp_path: Path) -> None:
    wrong = {"STEPS": "0", "SEQUENCE_LENGTH": "1.5", "LEARNING_RATE": "nan", "BASE_MODEL": str(tmp_path)}
    with pytest.raises(settings.SettingsError) as error:
        settings.read_settings(wrong)
    assert str(error.value).splitlines() == [
        "STEPS: expected a whole number from 1 to 1,000,000,000, found '0'",
        "SEQUENCE_LENGTH: expected a whole number from 8 to 131,072, found '1.5'",
        "LEARNING_RATE: expected a number from 1e-09 to 10.0, found 'nan'",
        "OUTPUT_DIR: expected a folder for checkpoints, found nothing",
        f"BASE_MODEL: expected a folder with config.json, found '{tmp_path}'",
    ]


def test_adapters_are_refused_without_a_base_model(settings: ModuleType) -> None:
    with pytest.raises(settings.SettingsError, match="LORA_RANK: expected 0 without BASE_MODEL"):
        settings.read_settings({"OUTPUT_DIR": "/out", "LORA_RANK": "8"})


def test_models_with_the_same_image_have_the_same_dockerfile() -> None:
    models = Path(__file__).parents[2] / "model_specs"
    names = ("llm-finetune", "resnet50-pytorch")
    dockerfiles = {(models / name / "Dockerfile").read_text(encoding="utf-8") for name in names}
    assert len(dockerfiles) == 1
