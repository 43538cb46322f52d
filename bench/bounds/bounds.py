#!/usr/bin/env python3
"""Peal's all_reduce of two ranks against what two cores can do by hand (bench_bounds), with private buffers and with peal::allocate.

    bench/bounds/bounds.py                         64 KiB to 256 MiB, nine rounds: some three minutes
    bench/bounds/bounds.py --sizes 64K,1M --rounds 3

Each round runs the hand-written loops, Peal with private buffers (in and out of place) and Peal with shared ones, over all sizes, in turn, on
cores 0 and 1. Ratios are Peal (p50 of calls with aligned starts) / hand-written loop (mean of calls back to back) of the same round; given are
the median and the range. The flag exchange tells where the two cores lay in a round (data/constants/host.yaml)."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "bench/peers"))
from peers import size_of  # noqa: E402


def by_hand(program, sizes):
    out = subprocess.run([program] + [str(s) for s in sizes], check=True, capture_output=True, text=True, timeout=300).stdout
    return {row["bytes"]: row for row in map(json.loads, out.splitlines())}


def peal(tool, sizes, extra):
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "out.json")
        for size in sizes:
            subprocess.run([tool, "bench", "all_reduce", "-n", "2", "-b", str(size), "-e", str(size), "--json", path] + extra, check=True,
                           stdout=subprocess.DEVNULL, timeout=120)
            with open(path) as file:
                rows[size] = json.load(file)["rows"][0]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="64K,256K,1M,4M,16M,64M,256M", help="bytes, with K or M (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"), help="folder of a release build (default %(default)s)")
    options = parser.parse_args()
    sizes = [size_of(s) for s in options.sizes.split(",")]
    tool, program = (os.path.join(options.build, "bin", name) for name in ("peal", "bench_bounds"))
    for path in (tool, program):
        if not os.path.exists(path):
            sys.exit(f"{path} is not there; build with ./check or give --build")
    cells = {}
    for number in range(options.rounds):
        hand = by_hand(program, sizes)
        private, shared = peal(tool, sizes, []), peal(tool, sizes, ["--zero-copy"])
        for size in sizes:
            for name, bound, mine in (("private buffers", hand[size]["staged"], private[size]["out_of_place"]),
                                      ("peal::allocate, out of place", hand[size]["out_of_place"], shared[size]["out_of_place"]),
                                      ("peal::allocate, in place", hand[size]["in_place"], shared[size]["in_place"])):
                cells.setdefault((name, size), []).append((bound, mine["p50_us"]))
        flags = sorted(row["flag_ns"] for row in hand.values())
        print(f"# round {number + 1} of {options.rounds}: flag exchange {flags[0]:.0f} to {flags[-1]:.0f} ns", file=sys.stderr, flush=True)
    print("| buffers | bytes | by hand us | Peal us | ratio (median) | lowest - highest |\n|---|---|---|---|---|---|")
    for (name, size), pairs in sorted(cells.items(), key=lambda cell: (cell[0][0], cell[0][1])):
        ratios = sorted(mine / bound for bound, mine in pairs)
        bound, mine = (statistics.median(column) for column in zip(*pairs))
        print(f"| {name} | {size} | {bound:.4g} | {mine:.4g} | {statistics.median(ratios):.2f} | {ratios[0]:.2f} - {ratios[-1]:.2f} |")


if __name__ == "__main__":
    main()
