#!/usr/bin/env python3
"""Holds tools/count_tests.py against reports of every kind, among them those of programs that died."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

COUNTER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "count_tests.py"


def gtest(*cases: tuple[str, str]) -> str:
    """A GoogleTest report; each case is (name, passed | failed | skipped | disabled)."""
    inner = {"failed": '<failure message="expected 1" type=""/>', "skipped": '<skipped message="a.cpp:2&#x0A;no such machine"/>'}
    result = {"skipped": "skipped", "disabled": "suppressed"}
    suite = "".join(f'<testcase name="{name}" classname="Suite" status="{"notrun" if how == "disabled" else "run"}" '
                    f'result="{result.get(how, "completed")}">{inner.get(how, "")}</testcase>' for name, how in cases)
    return f'<testsuites><testsuite name="Suite">{suite}</testsuite></testsuites>'


def run_on(tests: list[tuple[str, str, str]], reports: dict[str, str]) -> tuple[int, list[str]]:
    """Counts a folder whose ctest.xml holds `tests` as (name, status, inner XML)."""
    with tempfile.TemporaryDirectory(prefix="peal-count-") as folder:
        cases = "".join(f'<testcase name="{name}" status="{status}">{inner}</testcase>' for name, status, inner in tests)
        pathlib.Path(folder, "ctest.xml").write_text(f"<testsuite>{cases}</testsuite>")
        for name, text in reports.items():
            pathlib.Path(folder, f"{name}.xml").write_text(text)
        done = subprocess.run([sys.executable, COUNTER, folder], capture_output=True, text=True, timeout=30)
        return done.returncode, done.stdout.splitlines()


class CountTests(unittest.TestCase):
    def test_cases_of_programs_and_single_tests_are_added(self):
        code, lines = run_on([("base", "run", ""), ("net", "run", ""), ("script", "run", "")],
                             {"base": gtest(("a", "passed"), ("b", "passed")), "net": gtest(("c", "passed"), ("d", "skipped"), ("e", "disabled"))})
        self.assertEqual(lines[-1], "4 passed, 0 failed, 1 skipped")
        self.assertIn("skipped 1: no such machine", lines)
        self.assertEqual(code, 0)

    def test_failed_cases_are_named_and_counted_once(self):
        code, lines = run_on([("base", "fail", "<failure/>")], {"base": gtest(("a", "passed"), ("b", "failed"))})
        self.assertEqual(lines[-1], "1 passed, 1 failed, 0 skipped")
        self.assertIn("FAILED base: Suite.b", lines)
        self.assertEqual(code, 1)

    def test_a_program_that_died_is_a_failure(self):
        code, lines = run_on([("base", "fail", "<failure/>")], {})
        self.assertEqual(lines[-1], "0 passed, 1 failed, 0 skipped")
        self.assertEqual(code, 1)

    def test_a_program_that_failed_after_its_last_case_is_a_failure(self):
        code, lines = run_on([("base", "fail", "<failure/>")], {"base": gtest(("a", "passed"))})
        self.assertEqual(lines[-1], "1 passed, 1 failed, 0 skipped")
        self.assertEqual(code, 1)

    def test_a_report_that_is_cut_off_is_a_failure(self):
        self.assertEqual(run_on([("base", "run", "")], {"base": '<testsuites><testsuite'})[1][-1], "0 passed, 1 failed, 0 skipped")

    def test_a_program_that_was_not_built_is_a_failure(self):
        code, lines = run_on([("net", "notrun", '<skipped message="Unable to find executable"/>')], {})
        self.assertEqual(lines[-1], "0 passed, 1 failed, 0 skipped")
        self.assertEqual(code, 1)

    def test_skipped_and_disabled_single_tests(self):
        code, lines = run_on([("a", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>'), ("b", "disabled", '<skipped message=""/>')], {})
        self.assertEqual(lines[-1], "0 passed, 0 failed, 2 skipped")
        self.assertEqual(code, 0)

    def test_no_report_at_all_is_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, COUNTER, folder], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout.splitlines()[-1], "0 passed, 1 failed, 0 skipped")


if __name__ == "__main__":
    unittest.main()
