#!/usr/bin/env python3
"""Creation of communicators at several numbers of ranks: build/release/bin/bench_creation under `peal run`, with a deadline.

    bench/creation/creation.py [--bin build/release/bin] [--ranks 2,8,128] [--groups 100] [--times-only]
"""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--ranks", default="2,8,32,128")
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--deadline", type=float, default=300, help="seconds for each number of ranks")
    parser.add_argument("--times-only", action="store_true")
    wanted = parser.parse_args()
    print("load average before the start:", " ".join(f"{load:.1f}" for load in os.getloadavg()), flush=True)
    for ranks in wanted.ranks.split(","):
        command = [wanted.bin / "peal", "run", "-n", ranks, "--timeout", str(wanted.deadline), "--", wanted.bin / "bench_creation",
                   "--groups", str(wanted.groups), "--started", str(time.monotonic_ns())]
        if wanted.times_only:
            command.append("--times-only")
        run = subprocess.Popen(command)
        try:
            code = run.wait(timeout=wanted.deadline + 15)
        except BaseException:
            run.send_signal(signal.SIGTERM)  # the launcher ends its ranks
            run.wait()
            raise
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
