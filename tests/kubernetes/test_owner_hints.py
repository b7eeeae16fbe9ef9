from __future__ import annotations

import string

from packager.kubernetes.owner_hints import HINTS, hint_for_owner
from packager.kubernetes.remedy import Action, Remedy


def test_every_action_has_words_for_owners() -> None:
    assert set(HINTS) == set(Action)


def test_values_of_remedies_stay_single_words_of_command_lines() -> None:
    for action in Action:
        names = [name for _, name, _, _ in string.Formatter().parse(HINTS[action]) if name]
        hint = hint_for_owner(Remedy.of(action, **dict.fromkeys(names, "a; reboot")))
        assert hint.count("'a; reboot'") == len([name for name in names if name != "pods"])
