"""Facts that say the same, and facts that only look alike."""

import pytest

from memoryd.facts.ranking import same_claim

TEA = "Ana prefers tea to coffee"
STAGING = "Port 5433 is for staging and 5434 for production"


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ("Ana prefers the tea to the coffee.", True),
        ("ana preferred tea to coffee", True),
        ("Ana prefers coffee to tea", False),
        ("Ana prefers no tea to coffee", False),
        ("Ana prefers tea to cocoa", False),
    ],
)
def test_a_claim_has_its_words_in_their_order(other: str, is_same: bool) -> None:
    assert same_claim(TEA, other) == is_same


def test_swapped_numbers_are_another_claim() -> None:
    assert not same_claim(STAGING, "Port 5434 is for staging and 5433 for production")
