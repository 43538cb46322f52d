#!/usr/bin/env python3
"""Counts the instructions of calls under callgrind and holds them against bench/budgets/budgets.json.

    bench/budgets/check_budgets.py build/release/bin/bench_call_budget             compare
    bench/budgets/check_budgets.py build/release/bin/bench_call_budget --update    write what was counted as the new budgets

The program runs twice with different numbers of calls; the difference, divided by the difference of the numbers, is what one call costs
once everything is warm. Instruction counts do not depend on the load of the machine. They do depend on the compiler: budgets hold for the
one that they name, and elsewhere nothing is compared. A count may exceed its budget by 5 % (processors differ in which copies the C library
picks). Needs valgrind.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

BUDGETS = pathlib.Path(__file__).with_name("budgets.json")
FEW, MANY = 100, 1100
TOLERANCE = 1.05
WORTH_LOWERING = 0.90
SKIPPED = 77


def count(program, calls):
    """{function: instructions} of one run."""
    with tempfile.TemporaryDirectory(prefix="peal-budgets-") as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", "--toggle-collect=budget_*", f"--callgrind-out-file={out}", program, str(calls)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        listing = subprocess.run(
            ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(out)], capture_output=True, text=True, timeout=120, check=True
        ).stdout
    found = re.findall(r"^ *([\d,]+) .*?:budget_(\w+)", listing, re.MULTILINE)
    return {name: int(number.replace(",", "")) for number, name in found}


def instructions_a_call(program):
    few, many = count(program, FEW), count(program, MANY)
    return {name: round((many[name] - few.get(name, 0)) / (MANY - FEW)) for name in sorted(many)}


def write_report(path, verdicts):
    """In GoogleTest's form, which tools/count_tests.py reads: one case a budget."""
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", name="Budgets")
    for name, complaint in verdicts.items():
        case = ElementTree.SubElement(suite, "testcase", name=name, classname="Budgets", result="completed")
        if complaint:
            ElementTree.SubElement(case, "failure", message=complaint)
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def compare(counted, budgets):
    """{name: complaint, or None}; prints the table."""
    verdicts = {}
    print(f"{'one call, warm':34} {'instructions':>12} {'budget':>8}")
    for name in sorted(set(counted) | set(budgets)):
        now, limit = counted.get(name), budgets.get(name)
        note = ""
        verdicts[name] = None
        if now is None or limit is None:
            verdicts[name] = "is counted but has no budget" if limit is None else "has a budget but is not counted"
        elif now > limit * TOLERANCE:
            verdicts[name] = f"takes {now} instructions, its budget is {limit}"
        elif now < limit * WORTH_LOWERING:
            note = "  (the budget can be lowered: --update)"
        print(f"{name:34} {now if now is not None else '-':>12} {limit if limit is not None else '-':>8}{note}")
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--compiler", default="", help="what built the program, as CMake names it: 'GNU 12.2.0'")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--report", type=pathlib.Path)
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: instructions were not counted (apt-get install valgrind)")
        return SKIPPED
    known = json.loads(BUDGETS.read_text(encoding="utf-8")) if BUDGETS.exists() else {"compiler": options.compiler, "instructions": {}}
    compiler = options.compiler or known["compiler"]
    if options.update:
        text = json.dumps({"compiler": compiler, "instructions": instructions_a_call(options.program)}, indent=2)
        BUDGETS.write_text(text + "\n", encoding="utf-8")
        print(f"wrote {BUDGETS}")
        return 0
    if compiler.split(".")[0] != known["compiler"].split(".")[0]:
        print(f"the budgets are those of {known['compiler']}, this build is by {compiler}: nothing was compared")
        return SKIPPED
    verdicts = compare(instructions_a_call(options.program), known["instructions"])
    complaints = [f"{name} {complaint}" for name, complaint in verdicts.items() if complaint]
    for complaint in complaints:
        print(f"over budget: {complaint}; make it cheaper, or say why it must cost more and run with --update")
    if options.report:
        write_report(options.report, verdicts)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
