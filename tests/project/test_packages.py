"""The folders that are packages of a workspace."""

from __future__ import annotations

from collections import Counter

from skillhub.project.project import folders_matching, packages_in
from tests.support.hearing import heard_by


def test_attack_many_patterns_of_a_workspace_read_each_folder_once(tmp_path):
    for number in range(20):
        (tmp_path / f"group{number % 4}" / f"package{number}").mkdir(parents=True)
    read: Counter[object] = Counter()

    def hear(event, args):
        if event == "os.scandir":
            read[args[0]] += 1

    with heard_by(hear):
        found = packages_in(str(tmp_path), [f"*/package{number}*" for number in range(20)])
    assert len(found) == 20
    assert set(read.values()) == {1}


def test_a_pattern_matches_a_hidden_folder_only_by_name(tmp_path):
    for name in (".hidden/a", "shown/a", "Shown/b"):
        (tmp_path / name).mkdir(parents=True)
    patterns = ["*/*", ".*/a", "[s]hown/?", "*.d"]
    assert {pattern: sorted(found) for pattern, found in folders_matching(str(tmp_path), patterns)} == {
        "*/*": ["Shown/b", "shown/a"],
        ".*/a": [".hidden/a"],
        "[s]hown/?": ["shown/a"],
        "*.d": [],
    }
