#!/usr/bin/env python3
"""How often a small all_reduce over TCP takes 5 ms and more, and what the kernel counts meanwhile.

    bench/network/stalls.py                                  loopback and two hosts at 1 Gb/s, 10,000 calls of 8 B, 1 KiB and 64 KiB
    bench/network/stalls.py --rates loopback,free,1gbit --sizes 64K --calls 3000 --scheduler both

Two ranks on two cores. Hosts are the network namespaces of network.py; loopback is that of a namespace too, so that nothing else is counted. A
delayed acknowledgement shows as 40 ms (and as DelayedACKs), a lost packet as RetransSegs or Timeouts; 50 ms once a second under SCHED_RR are
what the kernel sets aside for other tasks. Needs root and iproute2."""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from network import ROOT, Lab, hosts_module, name_of, size_of, sweep_up

BOUNDS = (5, 10, 20, 38, 46, 76, 100)  # ms; 38 to 46 holds a delayed acknowledgement
COUNTERS = ("DelayedACKs", "TCPTimeouts", "TCPLossProbes", "RetransSegs")


def counted(host):
    """The kernel's counters of a namespace."""
    text = subprocess.run(["ip", "netns", "exec", host, "cat", "/proc/net/netstat", "/proc/net/snmp"], capture_output=True, text=True, check=True).stdout
    lines = text.splitlines()
    values = {}
    for names, numbers in zip(lines[::2], lines[1::2]):
        values.update(zip(names.split()[1:], map(int, numbers.split()[1:])))
    return {name: values[name] for name in COUNTERS}


def commands(lab, arguments, key, size, shield):
    """[(host, words)] of all hosts' launchers."""
    hosts = len(lab.hosts)
    rank = [arguments.stalls, "--bytes", str(size), "--calls", str(arguments.calls)]
    if hosts == 1:
        return [(0, ["env", "PEAL_TRANSPORT=tcp", *shield, arguments.peal, "run", "-n", "2", "--", *rank])]
    addresses = ",".join(f"192.168.77.{i + 1}" for i in range(hosts))
    return [(i, [*shield, "taskset", "-c", str(i % os.cpu_count()), arguments.peal, "run", "-n", str(hosts), "--hosts", addresses, "--host-index", str(i),
                 "--no-bind", "--key-file", key, "--", *rank]) for i in range(hosts)]


def histogram(late):
    """How many calls lie between the bounds, in words."""
    parts = []
    for low, high in zip(BOUNDS, (*BOUNDS[1:], float("inf"))):
        count = sum(low <= took < high for _, took in late)
        if count:
            parts.append(f"{count} of {low} ms" + (f" to {high}" if high < float("inf") else " and more"))
    return ", ".join(parts) or "none"


def measure(lab, arguments, key, rate):
    for name, shield in (("SCHED_RR", ["chrt", "-r", "1"]), ("SCHED_OTHER", [])):
        if arguments.scheduler not in ("both", {"SCHED_RR": "rr", "SCHED_OTHER": "other"}[name]):
            continue
        for size in arguments.sizes:
            before = [counted(host) for host in lab.hosts]
            text = lab.run(commands(lab, arguments, key, size, shield))
            after = [counted(host) for host in lab.hosts]
            found = re.search(r"\{.*\}", text or "")
            if not found:
                continue
            row = json.loads(found.group())
            grown = {c: sum(a[c] - b[c] for a, b in zip(after, before)) for c in COUNTERS}
            kernel = ", ".join(f"{value} {counter}" for counter, value in grown.items() if value) or "nothing"
            print(f"| {rate} | {name} | {name_of(size)} | {row['p50_us']:.1f} | {row['p99_us']:.1f} | {row['most_us'] / 1000:.1f} | {row['seconds']:.1f} | "
                  f"{histogram(row['late'])} | {kernel} |", flush=True)
            if arguments.verbose:
                print("# " + " ".join(f"{when:.3f}s:{took:.1f}ms" for when, took in row["late"]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="loopback,1gbit", help="comma separated: loopback, free, 1gbit, ...")
    parser.add_argument("--sizes", default="8,1K,64K")
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--scheduler", choices=("rr", "other", "both"), default="rr")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/release/bin"), help="where peal and bench_stalls are")
    parser.add_argument("--verbose", action="store_true", help="when each late call began")
    arguments = parser.parse_args()
    arguments.sizes = [size_of(s) for s in arguments.sizes.split(",")]
    arguments.peal, arguments.stalls = (os.path.join(arguments.bin, name) for name in ("peal", "bench_stalls"))
    reason = hosts_module.why_not()
    if reason:
        sys.exit(f"Network namespaces cannot be made here: {reason}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))  # so that all is removed
    sweep_up()
    folder = tempfile.mkdtemp(prefix="peal-stalls-")
    key = os.path.join(folder, "job.key")
    try:
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(32))
        print("| way | scheduler | all_reduce of | p50 us | p99 us | most ms | seconds | late | the kernel counted |\n|---|---|---|---|---|---|---|---|---|", flush=True)
        for rate in arguments.rates.split(","):
            with Lab(1 if rate == "loopback" else 2, "free" if rate == "loopback" else rate) as lab:
                measure(lab, arguments, key, rate)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
