#!/usr/bin/env python3
"""Writes docs/reference/settings.md from the table of src/base/settings.cpp.

    tools/write_settings_reference.py [--check]     --check writes nothing and fails when the page is out of date
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "src" / "base" / "settings.cpp"
PAGE = ROOT / "docs" / "reference" / "settings.md"
STRING = r'"((?:[^"\\]|\\.)*)"'
ROW = re.compile(r"^\s*\{" + r",\s*".join([STRING] * 3) + r",\s*((?:" + STRING + r"\s*)+)\},", re.MULTILINE)


def rows() -> list[tuple[str, str, str, str]]:
    text = TABLE.read_text()
    table = text[text.index("kSettings[] = {"):text.index("\n};")]
    found = []
    for match in ROW.finditer(table):
        name, default, unit, what = match.group(1), match.group(2), match.group(3), "".join(re.findall(STRING, match.group(4)))
        found.append((name, default, unit, what))
    if len(found) != table.count("{") - 1:
        raise ValueError(f"{TABLE}: {table.count('{') - 1} rows stand in the table, {len(found)} could be read.")
    return found


def page() -> str:
    lines = ["# Settings", "", "Every environment variable that Peal reads. Made by `tools/write_settings_reference.py` from `src/base/settings.cpp`.", ""]
    for title, own in (("Peal's own", True), ("Of launchers, read at start-up", False)):
        lines += [f"## {title}", "", "| name | default | unit | what it does |", "|---|---|---|---|"]
        for name, default, unit, what in rows():
            if name.startswith("PEAL_") == own:
                lines.append(f"| `{name}` | {f'`{default}`' if default else 'unset'} | {unit} | {what.replace('|', chr(92) + '|')} |")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1:] == ["--check"]:
        if PAGE.exists() and PAGE.read_text() == page():
            return 0
        print("docs/reference/settings.md is out of date. Run tools/write_settings_reference.py.")
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
