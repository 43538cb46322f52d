#!/usr/bin/env python3
"""Counts what ran: every GoogleTest case once, every other ctest test once.

    tools/count_tests.py FOLDER

FOLDER holds ctest.xml (ctest --output-junit) and NAME.xml (--gtest_output) for each GoogleTest
program that came to its end; the multi-process tests write the same form.
Prints what failed, why tests were skipped, and as last line "N passed, N failed, N skipped"; exits with 1 when anything failed.
"""
import collections
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


class Count:
    def __init__(self):
        self.passed = 0
        self.failed: list[str] = []
        self.skipped: list[tuple[str, str]] = []


def count_cases(count: Count, program: str, report: ElementTree.Element) -> int:
    """Adds the cases of one GoogleTest program; returns how many failed."""
    failed = 0
    for case in report.iter("testcase"):
        name = f"{program}: {case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.find("failure") is not None:
            count.failed.append(name)
            failed += 1
        elif skipped is not None:
            where, _, reason = skipped.get("message", "").partition("\n")  # GoogleTest names the place in the source first
            count.skipped.append((name, " ".join((reason or where).split())))
        elif case.get("result") == "completed":
            count.passed += 1
    return failed


def count_folder(folder: pathlib.Path) -> Count:
    count = Count()
    for test in ElementTree.parse(folder / "ctest.xml").getroot().iter("testcase"):
        name = test.get("name", "?")
        status = test.get("status")
        skipped = test.find("skipped")
        message = skipped.get("message", "") if skipped is not None else ""
        if status == "disabled" or (status == "notrun" and message.startswith("SKIP_")):
            count.skipped.append((name, message))
            continue
        report = folder / f"{name}.xml"
        failed_cases = 0
        if report.exists():
            try:
                failed_cases = count_cases(count, name, ElementTree.parse(report).getroot())
            except ElementTree.ParseError as error:
                count.failed.append(f"{name}: its report cannot be read ({error})")
                failed_cases = 1
        elif status == "run":
            count.passed += 1
        # A program that crashed, ran out of time, was not built or failed after its last case: one failure more.
        if status != "run" and failed_cases == 0:
            count.failed.append(f"{name}: {message or 'ended before its report (crash, deadline, or leak at exit)'}")
    return count


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    try:
        count = count_folder(folder)
    except (OSError, ElementTree.ParseError) as error:
        print(f"count_tests: {folder}/ctest.xml cannot be read: {error}", file=sys.stderr)
        print("0 passed, 1 failed, 0 skipped")
        return 1
    for reason, times in collections.Counter(reason for _, reason in count.skipped).items():
        print(f"skipped {times}: {reason or 'no reason given'}")
    for name in count.failed:
        print(f"FAILED {name}")
    print(f"{count.passed} passed, {len(count.failed)} failed, {len(count.skipped)} skipped")
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
