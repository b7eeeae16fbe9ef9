"""The keys of mlops.env for models whose other parts need PyTorch, XGBoost or JAX, and are tested on a cluster."""

from pathlib import Path

import pytest

from tests.payload.conftest import load_settings

WHOLE = "expected a whole number from 1 to 1,000,000,000, found '0'"


@pytest.mark.parametrize(
    ("model", "environ", "expected"),
    [
        ("resnet50-pytorch", {"BATCH_SIZE": "8"}, {"precision": "fp32", "steps": 10, "learning_rate": 0.1}),
        ("xgboost-tabular", {"MAX_DEPTH": "8", "TARGET": " "}, {"rounds": 100, "max_depth": 8, "target": "diagnosis"}),
        (
            "llm-finetune",
            {"BASE_MODEL": " "},
            {"steps": 60, "learning_rate": 0.001, "lora_rank": 0, "base_model": None},
        ),
        ("jax-gpt", {"BATCH_SIZE": "8"}, {"steps": 60, "batch_size": 8, "learning_rate": 0.001}),
    ],
)
def test_unset_keys_have_defaults(model: str, environ: dict[str, str], expected: dict[str, object]) -> None:
    read = load_settings(model).read_settings({"OUTPUT_DIR": "/out", "STEPS": "", **environ})
    assert {key: getattr(read, key) for key in expected} == expected
    assert (read.output_dir, read.dataset_dir) == (Path("/out"), None)


@pytest.mark.parametrize(
    ("model", "wrong", "messages"),
    [
        (
            "resnet50-pytorch",
            {"PRECISION": "fp8", "STEPS": "0", "IMAGE_SIZE": "1.5", "LEARNING_RATE": "nan"},
            [
                f"STEPS: {WHOLE}",
                "IMAGE_SIZE: expected a whole number from 32 to 2,048, found '1.5'",
                "LEARNING_RATE: expected a number from 1e-09 to 1,000, found 'nan'",
                "PRECISION: expected fp32 or bf16, found 'fp8'",
                "OUTPUT_DIR: expected a folder for checkpoints, found nothing",
            ],
        ),
        (
            "xgboost-tabular",
            {"ROUNDS": "0", "LEARNING_RATE": "nan", "MAX_DEPTH": "x"},
            [
                f"ROUNDS: {WHOLE}",
                "MAX_DEPTH: expected a whole number from 1 to 64, found 'x'",
                "LEARNING_RATE: expected a number from 1e-09 to 1.0, found 'nan'",
                "OUTPUT_DIR: expected a folder for checkpoints and the model, found nothing",
            ],
        ),
        (
            "llm-finetune",
            {"STEPS": "0", "SEQUENCE_LENGTH": "1.5", "LEARNING_RATE": "nan", "BASE_MODEL": "/nowhere"},
            [
                f"STEPS: {WHOLE}",
                "SEQUENCE_LENGTH: expected a whole number from 8 to 131,072, found '1.5'",
                "LEARNING_RATE: expected a number from 1e-09 to 10.0, found 'nan'",
                "OUTPUT_DIR: expected a folder for the model and checkpoints, found nothing",
                "BASE_MODEL: expected a folder with config.json, found '/nowhere'",
            ],
        ),
        (
            "jax-gpt",
            {"STEPS": "0", "LEARNING_RATE": "inf"},
            [
                f"STEPS: {WHOLE}",
                "LEARNING_RATE: expected a number from 1e-09 to 10.0, found 'inf'",
                "OUTPUT_DIR: expected a folder for checkpoints and the model, found nothing",
            ],
        ),
    ],
)
def test_all_wrong_keys_are_reported_at_once(model: str, wrong: dict[str, str], messages: list[str]) -> None:
    settings = load_settings(model)
    with pytest.raises(settings.SettingsError) as error:
        settings.read_settings(wrong)
    assert str(error.value).splitlines() == messages


def test_checkpoints_are_in_a_folder_of_their_own_if_one_is_set() -> None:
    for value, folder in (("", "/out"), (" ", "/out"), ("/checkpoints", "/checkpoints")):
        read = load_settings("llm-finetune").read_settings({"OUTPUT_DIR": "/out", "CHECKPOINT_DIR": value})
        assert read.checkpoint_dir == Path(folder)


def test_adapters_are_refused_without_a_base_model() -> None:
    settings = load_settings("llm-finetune")
    with pytest.raises(settings.SettingsError, match="LORA_RANK: expected 0 without BASE_MODEL"):
        settings.read_settings({"OUTPUT_DIR": "/out", "LORA_RANK": "8"})


def test_models_have_the_same_files(specs: Path) -> None:
    """A package contains only files of its own model's folder."""
    for file, *models in (
        ("Dockerfile", "llm-finetune", "resnet50-pytorch"),
        ("ranks.py", "llm-finetune", "resnet50-pytorch"),
        ("stopping.py", "jax-gpt", "xgboost-tabular", "cifar10-mxnet"),
        ("tokenizer.py", "jax-gpt", "llm-finetune"),
    ):
        assert len({(specs / model / file).read_bytes() for model in models}) == 1
