#!/usr/bin/env python3
"""Kills and stops random ranks of running jobs and counts what the others say.

    tests/faults/drill.py --kills 200 --stops 50

Four ranks call collectives without end (tests/faults/drill_rank.cpp), over shared memory and over TCP. One of them is killed
(SIGKILL) or stopped (SIGSTOP) at a random moment. Every other rank must end by itself with the right error, naming the right rank:
rank_dead within 2 s of a kill, rank_stopped within 5 s of a stop (and half a second for the machine). Afterwards nothing may be
left: no process, no file in /dev/shm, no Unix name, no listening socket of ours. Prints a table; exit code 0 when all is right."""
import argparse
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../multiprocess"))
from harness import processes_with  # noqa: E402

RANK_DEAD, RANK_STOPPED = 4, 5
MARK = f"drill-{os.getpid()}-{time.monotonic_ns()}"  # in the environment of every rank, so that only our own count as left behind
LIMIT = {"kill": 2.5, "stop": 5.5}
CODE = {"kill": RANK_DEAD, "stop": RANK_STOPPED}


def shared_files_of(pid):
    """The named shared memory that a rank has open or mapped: /dev/shm belongs to the whole machine, so names alone say nothing of whose it is."""
    try:
        with open(f"/proc/{pid}/maps") as maps:
            held = {line.split(maxsplit=5)[5].strip() for line in maps if "/dev/shm/" in line}
        held |= {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    except OSError:  # it has ended, or closed the descriptor meanwhile: its files of the moment before are not known
        return set()
    return {path for path in held if path.startswith("/dev/shm/")}


def leftovers(tag, held):
    """What a run left behind: Unix names and files that carry its tag, and files that its ranks held."""
    with open("/proc/net/unix") as sockets:
        found = [line.split()[-1] for line in sockets if tag in line]
    named = {"/dev/shm/" + name for name in os.listdir("/dev/shm") if tag in name}
    return found + sorted(named | {path for path in held if os.path.exists(path)})


class Rank:
    def __init__(self, program, rank, ranks, transport, root):
        environment = dict(os.environ, PEAL_RANK=str(rank), PEAL_SIZE=str(ranks), PEAL_ROOT="unix:" + root, PEAL_TRANSPORT=transport,
                           PEAL_JOB="d1", PEAL_TEST_MARK=MARK)
        self.process = subprocess.Popen([program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        start_new_session=True)
        self.lines, self.ended_at = [], None
        self.ready = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if line.startswith("ready"):
                self.ready.set()
        self.ended_at = time.monotonic()
        self.ready.set()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join(5)


def one(arguments, how, transport, number):
    root = f"peal-drill-{os.getpid()}-{number}"
    ranks = [Rank(arguments.rank, r, arguments.ranks, transport, root) for r in range(arguments.ranks)]
    problems, held = [], set()
    try:
        for r, rank in enumerate(ranks):
            if not rank.ready.wait(60) or rank.ended_at:
                return [f"rank {r} did not start: {rank.lines}"], 0.0
        time.sleep(random.random() * 0.3)
        victim = random.randrange(arguments.ranks)
        held = set().union(*(shared_files_of(rank.process.pid) for rank in ranks))
        began = time.monotonic()
        os.kill(ranks[victim].process.pid, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
        slowest = 0.0
        for r, rank in enumerate(ranks):
            if r == victim:
                continue
            rank.reader.join(max(0.1, began + 15 - time.monotonic()))
            if rank.ended_at is None:
                problems.append(f"rank {r} hangs")
                continue
            slowest = max(slowest, rank.ended_at - began)
            told = [re.match(r"fault (-?\d+) (\d+) (-?\d+) (\S*) \| (.*)", line) for line in rank.lines]
            told = [m for m in told if m]
            if not told:
                problems.append(f"rank {r} said {rank.lines[-1:]} and exit code {rank.process.poll()}")
                continue
            # Numbers of ranks in the text are those of the whole job; the first that is named is the culprit.
            named = re.search(r"rank (\d+) \(pid (\d+)", told[0][5])
            if int(told[0][2]) != CODE[how] or not named or (int(named[1]), int(named[2])) != (victim, ranks[victim].process.pid):
                problems.append(f"rank {r} says code {told[0][2]}, it was rank {victim}: {told[0][5]}")
        if slowest > LIMIT[how]:
            problems.append(f"the last rank knew after {slowest:.2f} s")
    finally:
        for rank in ranks:
            rank.end()
    problems += ["left behind: " + thing for thing in leftovers(root, held)]
    return problems, slowest


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--stops", type=int, default=50)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--transports", default="shm,tcp")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rank", default=os.path.join(here, "../../build/release/bin/drill_rank"))
    arguments = parser.parse_args()
    if not os.path.exists(arguments.rank):
        sys.exit(f"{arguments.rank} is not there: build it with ./check --quick, or name it with --rank PATH")
    random.seed(arguments.seed)
    transports = arguments.transports.split(",")
    failed, number = 0, 0
    print(f"{'fault':>6} {'over':>5} {'runs':>5} {'right':>6} {'wrong':>6} {'median s':>9} {'slowest s':>10}")
    for how, count in (("kill", arguments.kills), ("stop", arguments.stops)):
        for index, transport in enumerate(transports):
            runs = count // len(transports) + (index < count % len(transports))
            times, wrong = [], 0
            for _ in range(runs):
                number += 1
                problems, slowest = one(arguments, how, transport, number)
                times.append(slowest)
                if problems:
                    wrong += 1
                    print(f"# {how} {transport} run {number}: " + "; ".join(problems), flush=True)
            if not runs:
                continue
            failed += wrong
            times.sort()
            print(f"{how:>6} {transport:>5} {runs:>5} {runs - wrong:>6} {wrong:>6} {times[len(times) // 2]:>9.2f} {times[-1]:>10.2f}", flush=True)
    # With a process its Unix names: a name lives as long as somebody holds its socket.
    left = [f"process {pid}" for pid in processes_with(MARK)]
    print(f"left behind: {len(left)} {' '.join(left)}".rstrip())
    print("all right" if not failed and not left else f"{failed} runs wrong")
    return 1 if failed or left else 0


if __name__ == "__main__":
    sys.exit(main())
