from __future__ import annotations

import string

from packager.kubernetes.remedy import Action, Remedy


def test_values_of_remedies_stay_single_words_of_command_lines() -> None:
    for action in Action:
        names = [name for _, name, _, _ in string.Formatter().parse(action.value) if name]
        hint = Remedy.of(action, **dict.fromkeys(names, "a; reboot")).hint
        assert hint.count("'a; reboot'") == len([name for name in names if name != "pods"])
