#!/usr/bin/env python3
"""Holds tools/write_import_table.py against a tool that understands, refuses and dies."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

WRITER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "write_import_table.py"

FAKE = """#!/bin/sh
case "$3" in
  *good*) if [ "$4" = --json ]; then
            echo '{"devices":[{"kind":"gpu"},{"kind":"gpu"}],"links":[{"kind":"nvlink","count":3}],"warnings":["a:1: odd"]}'
          else
            echo 'good (an invented form)'
          fi ;;
  *bad*) echo "error: $3: the content is of no known form" >&2; exit 2 ;;
  *) kill -SEGV $$ ;;
esac
"""


class TableTest(unittest.TestCase):
    def write(self, names: list[str], *options: str) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory(prefix="peal-table-") as folder:
            peal = pathlib.Path(folder, "peal")
            peal.write_text(FAKE)
            os.chmod(peal, 0o755)
            files = pathlib.Path(folder, "files")
            files.mkdir()
            for name in names:
                (files / name).write_text("x")
            (files / "INDEX.md").write_text("- `good.xml` | two cards | somewhere | MIT\n")
            return subprocess.run([sys.executable, "-B", WRITER, "--peal", peal, *options, files], capture_output=True, text=True, timeout=60)

    def test_a_file_is_counted_by_kind_beside_its_index(self):
        done = self.write(["good.xml"], "--markdown")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| good.xml | an invented form | 2 gpu | 3 nvlink | 1 | two cards |", done.stdout)

    def test_a_refusal_is_shown_and_is_no_crash(self):
        done = self.write(["bad.xml", "good.xml"])
        self.assertEqual(done.returncode, 0)
        self.assertIn("error: bad.xml: the content is of no known form", done.stdout)
        self.assertTrue(done.stdout.endswith("2 files, 1 understood, 1 refused with a sentence, 0 crashed\n"))

    def test_a_crash_fails(self):
        done = self.write(["ugly.xml"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 crashed", done.stdout)

    def test_no_folder_is_said(self):
        done = subprocess.run([sys.executable, "-B", WRITER, "/no/such/folder"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
