"""docs/hosts.md: every cell names an existing test, and every host has a row."""

from __future__ import annotations

import re
from pathlib import Path

from skillhub.model.hosts import profiles

REPO = Path(__file__).resolve().parents[1]
PAGE = (REPO / "docs/hosts.md").read_text("utf-8")
LEGEND = dict(re.findall(r"^- `([A-Z]\d+)` (\S+)$", PAGE, re.MULTILINE))


def rows(text):
    """Return the cells of each row of a table, without its head."""
    return [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")][1:]


HOSTS, _, REST = PAGE.partition("## Section by section")
ROWS, SECTIONS = rows(HOSTS), rows(REST.partition("\n## ")[0])


def test_every_cell_names_its_test():
    known = [cells for cells in ROWS if "(`" in cells[0]]
    for cells in known:
        for cell in cells[1:]:
            codes = re.findall(r"`([A-Z]\d+)`", cell)
            assert codes, (cells[0], cell)
            assert set(codes) <= set(LEGEND), cell
    for cells in SECTIONS:
        assert set(re.findall(r"`([A-Z]\d+)`", cells[2])) <= set(LEGEND), cells
        assert re.findall(r"`([A-Z]\d+)`", cells[2]), cells
    assert {row for cells in (*ROWS, *SECTIONS) for row in re.findall(r"`([A-Z]\d+)`", "|".join(cells))} == set(
        LEGEND
    )


def test_every_host_has_a_row_and_two_explain_their_absence():
    assert {re.findall(r"\(`(.*)`\)", cells[0])[0] for cells in ROWS if "(`" in cells[0]} == set(profiles()) - {
        "agents"
    }
    assert {cells[0].strip() for cells in SECTIONS} == {row.name for row in profiles().values() if row.id != "agents"}
    assert [cells[0].strip() for cells in ROWS if "(`" not in cells[0]] == ["Aider", "OpenTUI"]
    assert len({len(cells) for cells in ROWS}) == 1


def test_the_tests_of_the_legend_exist():
    for place in LEGEND.values():
        path, _, name = place.partition("::")
        assert re.search(rf"^def {name}\(", (REPO / path).read_text("utf-8"), re.MULTILINE), place
