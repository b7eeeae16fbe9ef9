from __future__ import annotations

from packager.kubernetes.containers import MOST, Expander, references


def test_variables_with_values_are_expanded_once() -> None:
    for text, expanded in [
        ("$(A)/x", "1/x"),
        ("$(A)$(B)$(EMPTY)", "11-1"),
        ("$$(A) $(UNKNOWN) $(MISSING) $A ${A} $(A", "$(A) $(UNKNOWN) $(MISSING) $A ${A} $(A"),
        ("$$$(A)", "$1"),
    ]:
        expander = Expander({"A": "1", "UNKNOWN": None})
        expander.add("B", "$(A)-$(A)")
        expander.add("EMPTY", "")
        assert expander.expand(text) == expanded
        assert not expander.is_exceeded


def test_references_are_the_names_in_a_text() -> None:
    assert references("$(A) $$(B) $C $(a.b)") == ["A", "a.b"]


def test_variables_that_double_stay_within_the_limit() -> None:
    expander = Expander({"A0": "x" * 1_000})
    for number in range(1_000):
        expander.add(f"A{number + 1}", f"$(A{number})$(A{number})")
    assert len(expander.expand("$(A5)" * 100_000)) < 2 * MOST
    assert expander.is_exceeded
    assert sum(len(value or "") for value in expander.values.values()) < 2 * MOST
