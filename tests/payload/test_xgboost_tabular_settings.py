"""The keys of mlops.env for XGBoost; the training itself needs XGBoost, and is tested on a cluster."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.payload.conftest import load_settings


@pytest.fixture(scope="module")
def settings() -> ModuleType:
    return load_settings("xgboost-tabular")


def test_unset_keys_have_defaults(settings: ModuleType) -> None:
    read = settings.read_settings({"OUTPUT_DIR": "/out", "ROUNDS": "", "MAX_DEPTH": "8", "TARGET": " "})
    assert (read.rounds, read.max_depth, read.learning_rate, read.target) == (100, 8, 0.1, "diagnosis")
    assert (read.output_dir, read.dataset_dir) == (Path("/out"), None)


def test_all_wrong_keys_are_reported_at_once(settings: ModuleType) -> None:
    with pytest.raises(settings.SettingsError) as error:
        settings.read_settings({"ROUNDS": "0", "LEARNING_RATE": "nan", "MAX_DEPTH": "x"})
    assert str(error.value).splitlines() == [
        "ROUNDS: expected a whole number from 1 to 1,000,000,000, found '0'",
        "MAX_DEPTH: expected a whole number from 1 to 64, found 'x'",
        "LEARNING_RATE: expected a number from 1e-09 to 1.0, found 'nan'",
        "OUTPUT_DIR: expected a folder for checkpoints and the model, found nothing",
    ]
