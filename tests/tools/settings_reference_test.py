#!/usr/bin/env python3
"""The reference of settings is the one that the table gives, and the source reads no variable past the table."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Settings(unittest.TestCase):
    def test_the_page_follows_the_table(self):
        done = subprocess.run([sys.executable, "-B", ROOT / "tools" / "write_settings_reference.py", "--check"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_only_the_table_reads_the_environment(self):
        for path in sorted((ROOT / "src").rglob("*.[ch]pp")):
            if path.name != "settings.cpp" or path.parent.name != "base":
                self.assertIsNone(re.search(r"\b(?:secure_)?getenv\s*\(", path.read_text()), f"{path.relative_to(ROOT)} reads the environment itself")

    def test_every_setting_that_the_source_asks_for_stands_in_the_table(self):
        names = set(re.findall(r'^\s*\{"([A-Z_0-9]+)"', (ROOT / "src/base/settings.cpp").read_text(), re.MULTILINE))
        self.assertGreater(len(names), 10)
        asked = re.compile(r'\b(?:has_|integer_|bytes_|flag_)?setting\(\s*"([^"]+)"')
        for path in sorted((ROOT / "src").rglob("*.cpp")):
            for name in asked.findall(path.read_text()):
                self.assertTrue(name in names, f"{path.relative_to(ROOT)} asks for {name}, which is not in the table")

    def test_every_setting_of_the_table_is_read_somewhere(self):
        table = ROOT / "src" / "base" / "settings.cpp"
        source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.[ch]pp") if path != table)
        for name in re.findall(r'^\s*\{"([A-Z_0-9]+)"', table.read_text(), re.MULTILINE):
            self.assertTrue(f'"{name}"' in source, f"{name} stands in the table and nobody reads it")


if __name__ == "__main__":
    unittest.main()
