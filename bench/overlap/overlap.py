#!/usr/bin/env python3
"""How much of an asynchronous all-reduce hides behind computation on the same cores.

    bench/overlap/overlap.py                 two ranks, 1 KiB to 16 MiB, five rounds: about two minutes
    bench/overlap/overlap.py --quick

Each rank starts an all-reduce, computes for as long as the all-reduce takes alone (arithmetic that stays in registers), and waits. Hidden is
(communication alone + computation alone - both at once) / communication alone: 100 % when the call costs nothing any more, below 0 when
together they take longer than one after the other. On the host the copying and adding of an all-reduce is done by the very cores that
compute, so only waiting can be hidden; what stays to be hidden shrinks as the message grows. Ways: Peal with its progress thread (thread)
or with test() between slices of the computation (poll); Open MPI and MPICH with nothing between MPI_Iallreduce and MPI_Wait (none) or with
MPI_Test between slices (poll). Gloo has no non-blocking form. Rounds go through all ways in turn; the table has their medians."""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MPI = {"openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"], "mpich": ["mpirun.mpich"]}


def run(command, environment=None):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=dict(os.environ, **(environment or {})), check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    # `peal run` writes the rank before each line.
    return [line[line.index("overlap,"):].split(",")[1:] for line in done.stdout.splitlines() if "overlap," in line]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="1024,65536,1048576,16777216", help="bytes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=40, help="calls a size and round")
    parser.add_argument("--slices", type=int, default=20, help="of the computation")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release/bin"))
    parser.add_argument("--quick", action="store_true", help="one round of few calls")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.repeats = 1, 9
    for name in ("peal", "bench_overlap"):
        if not os.path.exists(os.path.join(arguments.build, name)):
            sys.exit(f"There is no {name} in {arguments.build}; build it with ./check --quick, or give --build.")
    words = [str(arguments.repeats), str(arguments.slices)] + arguments.sizes.split(",")
    folder = tempfile.mkdtemp(prefix="peal-overlap-")
    ways = {}
    try:
        for how in ("thread", "poll"):
            ways["peal", how] = ([os.path.join(arguments.build, "peal"), "run", "-n", str(arguments.ranks), "--timeout", "100", "--",
                                  os.path.join(arguments.build, "bench_overlap"), how] + words, None)
        for flavour, start in MPI.items():
            if not shutil.which("mpicc." + flavour):
                print(f"# {flavour} is not installed; left out", file=sys.stderr)
                continue
            program = os.path.join(folder, flavour)
            subprocess.run(["mpicc." + flavour, "-O2", "-o", program, os.path.join(HERE, "mpi_overlap.c")], check=True)
            for how in ("none", "poll"):
                ways[flavour, how] = (start + ["-np", str(arguments.ranks), program, how] + words,
                                      {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        found = {}
        for number in range(arguments.rounds):
            for way, (command, environment) in ways.items():
                for _, size, *figures in run(command, environment):
                    found.setdefault((int(size), way), []).append([float(x) for x in figures])
            print(f"# round {number + 1} of {arguments.rounds} done", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("| bytes | library | how | all-reduce alone us | computation us | both us | hidden (median) | lowest - highest |")
    print("|---|---|---|---|---|---|---|---|")
    for size in map(int, arguments.sizes.split(",")):
        for way in ways:
            rows = found.get((size, way))
            if not rows:
                continue
            hidden = [(alone + computing - both) / alone for alone, computing, both in rows]
            alone, computing, both = (statistics.median(column) for column in zip(*rows))
            print(f"| {size} | {way[0]} | {way[1]} | {alone:.4g} | {computing:.4g} | {both:.4g} | {statistics.median(hidden):.0%} | {min(hidden):.0%} - {max(hidden):.0%} |")


if __name__ == "__main__":
    main()
