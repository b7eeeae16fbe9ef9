"""The forms of names, where they are easily mistaken."""

from __future__ import annotations

import re

from packager.base.names import IMAGE, IMAGE_PATH, is_key, is_label, is_label_value, is_other_version
from packager.package.options import SIZE


def test_labels_and_keys_have_the_forms_of_kubernetes() -> None:
    for text, is_valid in (
        ("0a", True),
        ("a-b", True),
        ("a-", False),
        ("", False),
        ("a.b", False),
        ("A", False),
        ("a\n", False),
    ):
        assert is_label(text) is is_valid
    assert (is_label("a" * 63), is_label("a" * 64)) == (True, False)
    assert (is_label_value("a" * 63), is_label_value("a" * 64)) == (True, False)
    assert all(map(is_key, ["cpu", "nvidia.com/gpu", "a/B_c.d", "A", "a" * 64 + ".b/c", "a." * 126 + "a/c"]))
    assert not any(map(is_key, ["", "/a", "a/", "A/a", "a..b/c", "a/b/c", "-a", f"{'a.' * 127}/a", "a" * 64]))


def test_image_paths_have_the_oci_form() -> None:
    for text in ("a/b", "a__b", "a---b", "a.b-c"):
        assert re.fullmatch(IMAGE_PATH, text)
        assert re.fullmatch(IMAGE, f"example.com:5000/{text}:1.0")
    for text in ("a..b", "a___b", "a/", "/a", "A", "-a", "a-"):
        assert not re.fullmatch(IMAGE_PATH, text)
        assert not re.fullmatch(IMAGE, f"{text}:1.0")


def test_sizes_of_storage_have_suffixes_of_kubernetes() -> None:
    assert all(re.fullmatch(SIZE.pattern, text) for text in ("1", "1.5", "10k", "10Ki", "10M", "10Gi"))
    assert not any(re.fullmatch(SIZE.pattern, text) for text in ("10K", "10ki", "10gi", "Gi", "-1"))


def test_tag_is_compared_with_a_version_if_it_is_one() -> None:
    for tag in ("1.2.3", "v1.2.3", "1.2", "1.2.3-gpu", "latest", "1", "release-2.0", None):
        assert not is_other_version(tag, "1.2.3")
    for tag in ("1.3.0", "v1.2.4", "1.20", "2.0-rc1", "1.2.30"):
        assert is_other_version(tag, "1.2.3")
    assert not is_other_version("1.0", None)
