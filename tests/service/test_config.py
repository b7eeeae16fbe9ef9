from __future__ import annotations

import re

import pytest

from packager.base.errors import MlpackError
from packager.base.values import as_plain
from packager.service import config
from tests.test_docs import CHECKOUT


@pytest.mark.parametrize(
    ("listen", "address"), [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:8080", ("::1", 8080)), ("h:0", ("h", 0))]
)
def test_address_splits_host_and_port(listen: str, address: tuple[str, int]) -> None:
    assert config.address(listen) == address


@pytest.mark.parametrize("listen", ["80", "h:x", "h:70000"])
def test_address_refuses_faulty_text(listen: str) -> None:
    with pytest.raises(MlpackError, match="expected HOST:PORT"):
        config.address(listen)


def test_documentation_lists_each_limit_with_its_default() -> None:
    text = (CHECKOUT / "docs/service/api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z_]+)` \| ([0-9,]+) \|", text, re.MULTILINE)
    documented = {key: int(value.replace(",", "")) for key, value in rows}
    assert documented == as_plain(config.LimitsConfig())
