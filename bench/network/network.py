#!/usr/bin/env python3
"""Peal between hosts, which are network namespaces of this machine joined by veth pairs and a bridge, against Open MPI, MPICH, Gloo and
Peal's own flat schedules; free or shaped (tc tbf) to a rate, and counting what crosses the links.

    bench/network/network.py                                   2 hosts, 1 and 2 ranks each, 1 Gb/s: ten minutes
    bench/network/network.py --hosts 2 --each 2 --rates 1gbit,10gbit --sizes 64K,1M,16M --collectives all_reduce,broadcast
    bench/network/network.py --hosts 4 --each 1 --rates free --pairs 5 --no-flat

Every repeat runs each library once over all sizes, in turn. Columns: p50 of calls with aligned starts, maximum over ranks (as
bench/peers/bench_common.h has it), median over the repeats; *line*: the least time, which is that of the fewest bytes (with the frames'
headers: 1514 bytes on the wire carry 1448) through the busiest host's link at the shaped rate, over p50; *crossed*: bytes that left all
hosts a call, counted by the kernel on the hosts' interfaces, and how many times the fewest possible these are (headers and
acknowledgements are in it: a factor of 1.05 on a shaped link is none too many); *peer*, *flat*: Peal's p50 / that of the best peer and of
Peal's best flat algorithm, medians of the repeats' ratios; *in a row*: the same of calls one behind the other. All run under the same
scheduler class (SCHED_RR where allowed). A bucket saves up a millisecond while nothing is sent, so that short calls with aligned starts can
be faster than the line, by more where the library aligns its ranks longer; calls in a row find nothing saved up.

Host i has core i modulo the cores of this machine to itself or shares it. MPICH's ranks never yield, so it takes part only where there is a
core a rank. Needs root, iproute2, openmpi-bin, libopenmpi-dev, mpich, libmpich-dev and libgloo-dev. All that it makes is removed at the end,
also after Ctrl-C."""
import argparse
import dataclasses
import importlib.util
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "bench/peers"))
from peers import GLOO_ALGORITHMS, PEER_NAMES, build, gloo_ranks, name_of, size_of  # noqa: E402

FLAT = {"all_reduce": ("ring", "rabenseifner", "recursive_doubling"), "broadcast": ("tree",), "reduce": ("tree",), "all_gather": ("ring", "direct"),
        "reduce_scatter": ("ring", "direct"), "all_to_all": (), "gather": ("direct",), "scatter": ("direct",)}
FRAME = 1514 / 1448  # bytes on the wire a byte of payload, of full frames
PEERS = ("openmpi", "openmpi han", "mpich", *(f"gloo {algorithm}" for algorithm in GLOO_ALGORITHMS))
LIMIT = 150  # seconds that one run of a program may take
COUNTED_FROM = 64 << 10  # smaller calls are all headers


def load_hosts():
    spec = importlib.util.spec_from_file_location("multihost_network", os.path.join(ROOT, "tests/multihost/network.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hosts_module = load_hosts()


class Lab(hosts_module.Network):
    """Hosts whose eth0 sends, and receives, at `rate` (such as "1gbit") or freely ("free")."""

    def __init__(self, hosts, rate):
        super().__init__(hosts)
        self.rate = rate

    def _build(self):
        super()._build()
        if self.rate == "free":
            return
        shape = ["root", "tbf", "rate", self.rate, "burst", str(self.burst()), "limit", str(max(512 << 10, 4 * self.burst()))]
        for i, host in enumerate(self.hosts):
            self.tc("-n", host, "qdisc", "add", "dev", "eth0", *shape)
            if len(self.hosts) > 2:  # several may send to one
                self.tc("-n", f"{self.prefix}s", "qdisc", "add", "dev", f"p{i}n0", *shape)

    @staticmethod
    def tc(*words):
        done = subprocess.run(["tc", *words], capture_output=True, text=True, timeout=20)
        if done.returncode != 0:
            raise RuntimeError(f"tc {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def burst(self):
        """Bytes that a bucket saves up: a millisecond. With a quarter of one the line idles whenever the kernel's timer comes late."""
        return max(128 << 10, int(self.bits() / 8 * 0.001))

    def bits(self):
        value, unit = re.fullmatch(r"([\d.]+)([kmg])bit", self.rate).groups()
        return float(value) * {"k": 1e3, "m": 1e6, "g": 1e9}[unit]

    def sent(self):
        """Bytes that left each host by eth0: of a shaped one as its bucket counts them (a header a frame), of a free one as the device does (one a burst)."""
        if self.rate == "free":
            return super().sent()
        return [json.loads(self.tc("-n", h, "-s", "-j", "qdisc", "show", "dev", "eth0"))[0]["bytes"] for h in self.hosts]

    def run(self, command, environment=None):
        """Runs a command of several hosts' parts [(host, words)] to its end; the first one's text, or None where a part failed."""
        parts = [self.start(host, words, environment) for host, words in command]
        deadline = time.monotonic() + LIMIT
        texts, is_good = [], True
        for part in parts:
            try:
                out, err = part.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(part.pid, signal.SIGKILL)
                out, err = part.communicate(timeout=10)
                is_good = False
            texts.append(out + err)
            is_good = is_good and part.returncode == 0
            self.processes.remove(part)
        if not is_good:
            print("# failed: " + " ".join(command[0][1]) + "\n# " + " | ".join(" / ".join(t.strip().splitlines()[-3:]) for t in texts), file=sys.stderr)
        return texts[0] if is_good else None


def fewest(collective, size, hosts, each):
    """(bytes through the busiest host's link in one direction, bytes that cross in all): a call's least."""
    h = hosts
    if collective == "all_reduce":
        return 2 * (h - 1) / h * size, 2 * (h - 1) * size
    if collective in ("broadcast", "reduce"):
        return size, (h - 1) * size
    if collective in ("all_gather", "reduce_scatter"):
        return (h - 1) / h * size, (h - 1) * size
    if collective == "all_to_all":
        return each * (h - 1) / h * size, each * (h - 1) * size
    return (h - 1) / h * size, (h - 1) / h * size  # gather, scatter


@dataclasses.dataclass
class Point:
    """Microseconds of a call with aligned starts and of one in a row, and what was measured."""
    p50: float
    in_a_row: float
    way: str


class Runner:
    def __init__(self, arguments, folder, lab, each):
        self.arguments, self.folder, self.lab, self.each = arguments, folder, lab, each
        self.count = len(lab.hosts)
        self.ranks = self.count * each
        self.shield = ["chrt", "-r", "1"] if subprocess.run(["chrt", "-r", "1", "true"], capture_output=True).returncode == 0 else []
        self.common = os.memfd_create("peal-network")  # what the peers' ranks align by
        self.key = os.path.join(folder, "job.key")
        with open(os.open(self.key, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(32))
        self.agent = os.path.join(folder, f"agent-{lab.prefix}")
        with open(os.open(self.agent, os.O_CREAT | os.O_WRONLY, 0o700), "w") as file:  # stands for ssh: OPTIONS HOST COMMAND...
            file.write(f'#!/bin/sh\nwhile :; do case "$1" in -*) shift;; *) break;; esac; done\ni=$((${{1##*.}} - 1)); shift\n'
                       f'exec ip netns exec {lab.prefix}h$i taskset -c $((i % {os.cpu_count()})) unshare --uts sh -c "hostname {lab.prefix}h$i; $*"\n')

    def cpus(self, host):
        """Every library's ranks of one host share one core: else a run's figures hang on who happened to meet whom."""
        return ["taskset", "-c", str(host % os.cpu_count())]

    def peal(self, collective, sizes, algorithm="", iterations=0):
        """{size: Point}; broadcast in place, because the others have no other."""
        place = "--in-place" if collective == "broadcast" else "--out-of-place"
        out = os.path.join(self.folder, "peal.json")
        rows = {}
        for size in sizes:
            if os.path.exists(out):
                os.remove(out)
            bench = [self.arguments.peal, "bench", collective, "-b", str(size), "-e", str(size), place, "--json", out, "--timeout", str(LIMIT)]
            bench += (["--algorithm", algorithm] if algorithm else []) + (["--iters", str(iterations), "--warmup", "0"] if iterations else [])
            hosts = ",".join(f"192.168.77.{i + 1}" for i in range(self.count))
            parts = [(i, [*self.shield, *self.cpus(i), self.arguments.peal, "run", "-n", str(self.ranks), "--hosts", hosts, "--host-index", str(i),
                          "--no-bind", "--key-file", self.key, "--", *bench]) for i in range(self.count)]
            if self.lab.run(parts) is None:
                continue
            with open(out) as file:
                row = json.load(file)["rows"][0]
            half = row[place[2:].replace("-", "_")]
            rows[size] = Point(half["p50_us"], half["time_us"], row["algorithm"])
        return rows

    def peer(self, name, collective, sizes, iterations=0):
        table = os.path.join(self.folder, "peer.csv")
        open(table, "w").close()
        os.ftruncate(self.common, 0)
        flavour = name.split()[0]
        words = ["--colls", PEER_NAMES[collective], "--sizes", ",".join(map(str, sizes)), "--out", table, "--budget", "0.2"]
        words += ["--min-iters", str(iterations), "--max-iters", str(iterations)] if iterations else []
        environment = {"PEERS_SHM": f"/proc/{os.getpid()}/fd/{self.common}", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if flavour == "gloo":
            ranks = gloo_ranks(self.folder, self.ranks, "eth0", name.split()[1])
            parts = [(r // self.each, [*self.shield, *self.cpus(r // self.each), *command, *words]) for r, command in enumerate(ranks)]
        else:
            parts = [(0, self.mpi(name, words))]
        self.lab.run(parts, environment)
        rows = {}
        with open(table) as file:
            for size, line in zip(sizes, file):  # a row a size; of fewer bytes than ranks it is a little more than was asked for
                cells = line.strip().split(",")
                if len(cells) == 15 and cells[12] == "ok":
                    rows[size] = Point(float(cells[5]), float(cells[10]), name)
        return rows

    def mpi(self, name, words):
        """What starts the program of an MPI with `words` on all hosts."""
        hosts = ",".join(f"192.168.77.{i + 1}:{self.each}" for i in range(self.count))
        flavour = name.split()[0]
        if flavour == "openmpi":
            start = ["mpirun.openmpi", "--host", hosts, "-np", str(self.ranks), "--oversubscribe", "--bind-to", "none", "--mca", "plm_rsh_agent", self.agent,
                     "--mca", "oob_tcp_if_include", "eth0", "--mca", "btl_tcp_if_include", "eth0", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"]
            start += ["--mca", "mpi_yield_when_idle", "1"] if self.ranks > os.cpu_count() else []
            start += ["--mca", "coll_han_priority", "100"] if "han" in name else []
        else:
            start = ["mpirun.mpich", "-hosts", hosts, "-np", str(self.ranks), "-launcher", "ssh", "-launcher-exec", self.agent, "-iface", "eth0",
                     "-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0"]
        me = [*self.cpus(0), "unshare", "--uts", "sh", "-c", f'hostname {self.lab.hosts[0]}; exec "$@"', "mpirun", *self.shield]
        return [*me, *start, os.path.join(self.folder, "bench." + flavour), *words]

    def crossed(self, collective, size):
        """Bytes that leave all hosts in one call of Peal's choice: what a run of more calls sends more."""
        totals = []
        few, many = 4, 24
        for iterations in (few, many):
            before = sum(self.lab.sent())
            if size not in self.peal(collective, [size], iterations=iterations):
                return None
            totals.append(sum(self.lab.sent()) - before)
        calls = (many + many // 2) - (few + few // 2)  # those with aligned starts, and those in a loop
        return (totals[1] - totals[0]) / calls


def ratio_of(mine, theirs):
    ratios = [a / b for a, b in zip(mine, theirs)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})" if ratios else "-"


def median_of(points):
    return statistics.median(point.p50 for point in points.values())


def measure(runner, collective, arguments):
    """Rows of one table, as they are printed and as data."""
    lab, sizes = runner.lab, arguments.sizes
    ways = {"peal": lambda: runner.peal(collective, sizes)}
    if arguments.flat:
        for algorithm in FLAT[collective]:
            ways["flat " + algorithm] = lambda a=algorithm: runner.peal(collective, [s for s in sizes if a != "recursive_doubling" or s <= 64 << 10], a)
    for name in arguments.peers:
        if name == "mpich" and runner.ranks > os.cpu_count():
            continue
        ways[name] = lambda n=name: runner.peer(n, collective, sizes)
    points = {}  # (way, size) -> Points by repeat
    for repeat in range(arguments.pairs):
        for way, run in ways.items():
            for size, point in run().items():
                points.setdefault((way, size), {})[repeat] = point
    rows = []
    for size in sizes:
        mine = points.get(("peal", size))
        if not mine:
            continue
        chosen = list(mine.values())[-1].way
        row = {"hosts": runner.count, "each": runner.each, "rate": lab.rate, "collective": collective, "bytes": size, "algorithm": chosen,
               "p50_us": median_of(mine), "all": {way: [(point.p50, point.in_a_row) for point in p.values()] for (way, s), p in points.items() if s == size}}
        least_busiest, least_all = fewest(collective, size, runner.count, runner.each)
        line = "-"
        if lab.rate != "free" and size >= COUNTED_FROM:
            row["line"] = least_busiest * FRAME * 8 / lab.bits() / (row["p50_us"] * 1e-6)
            line = f"{100 * row['line']:.0f} %"
        crossed = "-"
        if arguments.count and size >= COUNTED_FROM and runner.count > 1:
            row["crossed"] = runner.crossed(collective, size)
            if row["crossed"]:
                crossed = f"{row['crossed'] / 1e6:.3g} MB, {row['crossed'] / least_all:.2f} of the fewest"

        def against(prefix):
            known = {way: p for (way, s), p in points.items() if s == size and way != "peal" and way.startswith("flat ") == prefix}
            if not known:
                return "-", "-", "-"
            best = min(known, key=lambda way: median_of(known[way]))
            both = [(mine[r], known[best][r]) for r in mine if r in known[best]]
            fastest_in_a_row = [min(p[r].in_a_row for p in known.values() if r in p) for r in mine if r in known[best]]
            in_a_row = ratio_of([own.in_a_row for own, _ in both], fastest_in_a_row)
            return f"{median_of(known[best]):.4g} {best.removeprefix('flat ')}", ratio_of([a.p50 for a, _ in both], [b.p50 for _, b in both]), in_a_row

        peer, peer_ratio, peer_in_a_row = against(False)
        flat, flat_ratio, _ = against(True)
        print(f"| {name_of(size)} | {chosen} | {row['p50_us']:.4g} | {line} | {crossed} | {peer} | {peer_ratio} | {peer_in_a_row} | {flat} | {flat_ratio} |",
              flush=True)
        rows.append(row)
    return rows


def sweep_up():
    """What a run that was killed left behind: namespaces of a process that is no more."""
    for name in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, timeout=20).stdout.split():
        found = re.fullmatch(r"peal(\d+)x\d+(s|h\d+)", name)
        if found and not os.path.exists(f"/proc/{found.group(1)}"):
            subprocess.run(["ip", "netns", "del", name], timeout=20, check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", default="2", help="comma separated")
    parser.add_argument("--each", default="1,2", help="ranks a host, comma separated")
    parser.add_argument("--rates", default="1gbit", help="comma separated: free, 1gbit, 10gbit, ...")
    parser.add_argument("--collectives", default=",".join(FLAT))
    parser.add_argument("--sizes", default="8,64K,1M,16M")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--peers", default="openmpi,mpich", help="comma separated: " + ", ".join(PEERS) + "; or none")
    parser.add_argument("--no-flat", dest="flat", action="store_false", help="leave Peal's flat algorithms out (one rank a host has no others)")
    parser.add_argument("--no-count", dest="count", action="store_false", help="do not count the bytes that cross")
    parser.add_argument("--peal", default=os.path.join(ROOT, "build/release/bin/peal"))
    parser.add_argument("--json", help="write every figure to this file")
    arguments = parser.parse_args()
    arguments.sizes = [size_of(s) for s in arguments.sizes.split(",")]
    arguments.peers = [] if arguments.peers == "none" else arguments.peers.split(",")
    wrong = [c for c in arguments.collectives.split(",") if c not in FLAT]
    if wrong:
        sys.exit(f"{wrong[0]!r} is not measured here; type one or more of: {', '.join(FLAT)}")
    unknown = [name for name in arguments.peers if name not in PEERS]
    if unknown:
        sys.exit(f"{unknown[0]!r} is not known here; type one or more of: {', '.join(PEERS)}")
    if not os.path.exists(arguments.peal):
        sys.exit(f"There is no {arguments.peal}; type ./quickstart first, or give --peal.")
    reason = hosts_module.why_not()
    if reason:
        sys.exit(f"Network namespaces cannot be made here: {reason}")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell had it ignored
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))  # so that all is removed
    sweep_up()
    folder = tempfile.mkdtemp(prefix="peal-network-")
    rows = []
    try:
        build(folder, {name.split()[0] for name in arguments.peers})
        for rate in arguments.rates.split(","):
            for hosts in map(int, arguments.hosts.split(",")):
                for each in map(int, arguments.each.split(",")):
                    with Lab(hosts, rate) as lab:
                        runner = Runner(arguments, folder, lab, each)
                        for collective in arguments.collectives.split(","):
                            print(f"\n| {collective}, {hosts} hosts of {each}, {rate} | algorithm | p50 us | line | crossed | best peer us | Peal / peer | "
                                  "in a row | best flat us | Peal / flat |\n|---|---|---|---|---|---|---|---|---|---|", flush=True)
                            rows += measure(runner, collective, arguments)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(rows, file)


if __name__ == "__main__":
    main()
