"""The table of a run without data: scikit-learn's copy of the Wisconsin breast cancer data, as a CSV file."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path


def write_sample(folder: Path) -> None:
    """Write the table and its croissant.json, which is beside this program, into a folder."""
    from sklearn.datasets import load_breast_cancer

    patients = load_breast_cancer()
    shutil.copyfile(Path(__file__).with_name("croissant.json"), folder / "croissant.json")
    with (folder / "breast_cancer.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*(name.replace(" ", "_") for name in patients.feature_names), "diagnosis"])
        for values, kind in zip(patients.data.tolist(), patients.target, strict=True):
            writer.writerow([*values, patients.target_names[kind]])
