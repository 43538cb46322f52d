#!/usr/bin/env python3
"""Are folded and unfolded simulations equal to 1e-9? Every algorithm at many ranks, on several fabrics, also with one slow rank or wire.

    bench/sim/folded_equals_whole.py [--peal build/release/bin/peal] [--nodes 1,4,16,64,128] [--bytes 16M] [--deadline 120]
                                     [--only k_nomial_tree,binary_tree]

Exits with 1 where two times differ. Where the whole itself comes out at least as differently when one rank is slower by 1e-12 (messages that
share wires unevenly for hundreds of steps: each step makes a small difference larger), no two ways of working it out can agree: that is
said and counted apart. What does not end before its deadline unfolded is said and passed over.
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALGORITHMS = {
    "all_reduce": ["ring", "bidirectional_ring", "multi_ring", "k_nomial_tree", "binary_tree", "double_binary_tree", "hierarchical", "grid",
                   "rabenseifner", "recursive_doubling", "two_shot", "one_shot", "star"],
    "reduce_scatter": ["ring", "recursive_halving", "pat", "hierarchical", "direct"],
    "all_gather": ["ring", "recursive_doubling", "bruck", "pat", "hierarchical", "direct", "star"],
    "broadcast": ["ring", "k_nomial_tree", "binary_tree", "double_binary_tree", "hierarchical", "leader_chain", "direct"],
    "reduce": ["ring", "k_nomial_tree", "binary_tree", "double_binary_tree", "hierarchical", "leader_chain"],
    "all_to_all": ["all_pairs", "pairwise", "bruck", "hierarchical", "grid"],
    "barrier": ["dissemination", "tree", "hierarchical", "star"],
}
FABRICS = ["ideal", "fat-tree,levels=2,radix=64,oversubscription=3,adaptive=true", "fat-tree,levels=3,radix=32,adaptive=true",
           "rail-optimised,radix=64,adaptive=true", "dragonfly,radix=64,adaptive=true"]
# The last two are at the root of trees, which everybody waits for.
FAULTS = [[], ["--straggler", "5=2"], ["--slow-link", "n1: nic4 port out=0.5"], ["--straggler", "0=2"], ["--slow-link", "n0: nic0 port in=0.5"]]


def answer(command: list[str], deadline: float) -> dict | str:
    """What a command with `--json -` says; a sentence where it refuses or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=deadline)
    except subprocess.TimeoutExpired:
        return f"not within {deadline:g} s"
    return json.loads(done.stdout) if done.returncode == 0 else (done.stderr.strip().splitlines() or ["failed"])[-1]


def simulated(command: list[str], deadline: float) -> dict | str:
    """The only row of `peal sim`'s answer."""
    said = answer(command, deadline)
    return said if isinstance(said, str) else said["rows"][0]


def is_unstable(command: list[str], deadline: float, kind: str, whole: float, difference: float) -> bool:
    """Does the whole change by as much when one rank, of several that are tried, is slower by as little as 1e-12?"""
    for rank in (0, 3, 7):
        row = simulated(command + ["--unfolded", "--straggler", f"{rank}=1.000000000001"], deadline)
        if not isinstance(row, str) and abs(row[kind]["time_us"] - whole) >= difference:
            return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peal", default=str(ROOT / "build" / "release" / "bin" / "peal"))
    parser.add_argument("--nodes", default="1,4,16,64,128")
    parser.add_argument("--fabrics", default=";".join(FABRICS))
    parser.add_argument("--bytes", default="16M")
    parser.add_argument("--only", default="", help="algorithms, with commas")
    parser.add_argument("--deadline", type=float, default=120, help="seconds for each command")
    wanted = parser.parse_args()
    only = [name for name in wanted.only.split(",") if name]
    compared = differ = unstable = folded = 0
    worst = 0.0
    for nodes in wanted.nodes.split(","):
        for fabric in wanted.fabrics.split(";") if int(nodes) > 1 else [""]:
            for collective, algorithms in ALGORITHMS.items():
                for algorithm in (name for name in algorithms if not only or name in only):
                    for fault in (each for each in FAULTS if int(nodes) > 1 or "--slow-link" not in each):
                        command = [wanted.peal, "sim", collective, "--machine", "dgx-h100", "--nodes", nodes, "--algorithm", algorithm, "--protocol",
                                   "staged", "-b", wanted.bytes, "-e", wanted.bytes, "--json", "-", *fault] + (["--fabric", fabric] if fabric else [])
                        rows = [simulated(command + extra, wanted.deadline) for extra in ([], ["--unfolded"])]
                        name = f"{collective} {algorithm} on {int(nodes) * 8} ranks, {fabric or 'one node'}{' ' if fault else ''}{' '.join(fault)}"
                        if any(isinstance(row, str) for row in rows):
                            print(f"passed over: {name}: {next(row for row in rows if isinstance(row, str))}")
                            continue
                        for kind in ("out_of_place", "in_place"):
                            if not rows[0][kind]:
                                continue
                            a, b = rows[0][kind]["time_us"], rows[1][kind]["time_us"]
                            compared += 1
                            if abs(a - b) > 1e-9 * b and is_unstable(command, wanted.deadline, kind, b, abs(a - b)):
                                unstable += 1
                                print(f"unstable: {name}, {kind}: {a!r} and {b!r} us, and as far apart where a rank is slower by 1e-12", flush=True)
                                continue
                            worst = max(worst, abs(a - b) / b)
                            if abs(a - b) > 1e-9 * b:
                                differ += 1
                                print(f"DIFFERS: {name}, {kind}: {a!r} and {b!r} us", flush=True)
                        folded += rows[0]["simulated_ranks"] < int(nodes) * 8
            print(f"{int(nodes) * 8} ranks, {fabric or 'one node'}: {compared} times compared so far, {folded} calls folded, "
                  f"largest difference {worst:.1e}, {differ} differ, {unstable} unstable", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
