"""The versions that leveret emulates, and the error for an unknown one."""

from __future__ import annotations

import pytest

from leveret.core.compat import VERSIONS, Compat


def test_an_unknown_version_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'2\.8'.*4\.3, 4\.2, 4\.0, 3\.13, 3\.10"):
        Compat.for_version("2.8")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_is_found_under_its_name(version: str) -> None:
    compat = Compat.for_version(version)

    assert compat.version == version
    assert compat.product_version.startswith(f"{version}.")
