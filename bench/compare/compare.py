#!/usr/bin/env python3
"""Peal against the collective libraries of Debian 12, on this host, two or more ranks in shared memory.

    bench/compare/compare.py                      all_reduce, 2 ranks, 8 B to 256 MiB, nine pairs
    bench/compare/compare.py --pairs 3 --sizes 8,64K,16M

Every repeat runs each library once over all sizes, in turn, so that what the machine does meanwhile meets all of them alike; medians
are compared within one repeat (Peal / best peer) and within one placement of the two cores (a flag exchange of less or more than
120 ns, measured beside every row). All run under the same scheduler class (SCHED_RR where allowed and ranks <= cores), bound to
cores. p50: calls with aligned starts, maximum over ranks, as bench/peers/bench_common.h has it. Needs openmpi-bin, libopenmpi-dev,
mpich and libmpich-dev (installed when root)."""
import argparse
import collections
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGES = ["openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev", "util-linux"]
PEER_NAMES = {"all_reduce": "allreduce", "broadcast": "broadcast", "reduce": "reduce", "all_gather": "allgather",
              "reduce_scatter": "reduce_scatter", "all_to_all": "alltoall", "gather": "gather", "scatter": "scatter", "barrier": "barrier"}
RG = "-genv MPIR_CVAR_%s_POSIX_INTRA_ALGORITHM release_gather"
PEERS = {
    "openmpi vader+cma": "ompi --mca pml ob1 --mca btl self,vader",
    "openmpi vader+coll_sm": "ompi --mca pml ob1 --mca btl self,vader --mca coll_sm_priority 95",
    "openmpi ucx": "ompi --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_TLS=self,sm",
    "mpich": "mpich",
    "mpich release_gather": "mpich " + " ".join(RG % c for c in ("BCAST", "REDUCE", "ALLREDUCE", "BARRIER")) + " -genv MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE 262144",
}


def size_of(text):
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]] if text[-1] in "KMG" else int(text)


def name_of(size):
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def install():
    missing = [p for p in PACKAGES if subprocess.run(["dpkg", "-s", p], capture_output=True).returncode]
    if missing and os.geteuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends"] + missing, check=True, stdout=subprocess.DEVNULL)
    elif missing:
        sys.exit("Missing packages. Type: sudo apt-get install " + " ".join(missing))


def build(folder):
    source = os.path.join(ROOT, "bench/peers/mpi_bench.c")
    for flavour in ("openmpi", "mpich"):
        subprocess.run([f"mpicc.{flavour}", "-O2", "-o", os.path.join(folder, "bench." + flavour), source], check=True)


class Runner:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder
        real_time = arguments.ranks <= os.cpu_count() and subprocess.run(["chrt", "-r", "1", "true"], capture_output=True).returncode == 0
        self.shield = ["chrt", "-r", "1"] if real_time else []
        self.shm = f"/dev/shm/peal-compare-{os.getpid()}"

    def peal(self, collective):
        """{size: (p50 us, line ns)} out of place, and in place under negative sizes."""
        rows = {}
        for size in self.arguments.sizes:
            out = os.path.join(self.folder, "peal.json")
            command = self.shield + [self.arguments.peal, "bench", collective, "-n", str(self.arguments.ranks), "-b", str(size), "-e", str(size),
                                     "--json", out, "--timeout", "120"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            with open(out) as file:
                row = json.load(file)["rows"][0]
            rows[size] = (row["out_of_place"]["p50_us"], row["line_ns"])
            if row["in_place"] and collective == "all_reduce":
                rows[-size] = (row["in_place"]["p50_us"], row["line_ns"])
        return rows

    def peer(self, settings, collective):
        kind, *flags = settings.split()
        crowded = self.arguments.ranks > os.cpu_count()
        names = [PEER_NAMES[collective]] + (["allreduce_inplace"] if collective == "all_reduce" else [])
        table = os.path.join(self.folder, "peer.csv")
        open(table, "w").close()
        if os.path.exists(self.shm):
            os.remove(self.shm)
        ranks = ["-np", str(self.arguments.ranks)]
        if kind == "ompi":
            bind = ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"] if crowded else ["--bind-to", "core", "--map-by", "core"]
            start = ["mpirun.openmpi"] + ranks + bind + flags + [os.path.join(self.folder, "bench.openmpi")]
        else:
            start = ["mpirun.mpich"] + ranks + ([] if crowded else ["-bind-to", "core"]) + flags + [os.path.join(self.folder, "bench.mpich")]
        environment = dict(os.environ, PEERS_SHM=self.shm, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        sizes = ",".join(map(str, self.arguments.sizes))
        try:
            subprocess.run(self.shield + start + ["--colls", ",".join(names), "--sizes", sizes, "--out", table], env=environment, check=True,
                           timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return {}
        finally:
            if os.path.exists(self.shm):
                os.remove(self.shm)
        rows = {}
        with open(table) as file:
            for line in file:
                cells = line.strip().split(",")
                if len(cells) != 14 or cells[12] != "ok":
                    continue
                size = int(cells[4])
                rows[-size if cells[2].endswith("_inplace") else size] = (float(cells[5]), float(cells[13]))
        return rows


def regime(line):
    return "any" if line == 0 else "near" if line < 120 else "far"


def print_table(collective, pairs):
    print(f"\n| {collective} | Peal p50 us | best peer us | ratio (median) | lowest - highest | pairs | placement | best peer |\n|---|---|---|---|---|---|---|---|")
    for size in sorted(pairs, key=lambda s: (s < 0, abs(s))):
        rows = pairs[size]
        ratios = sorted(m / p for m, p, _, _ in rows)
        placements = collections.Counter(r for _, _, _, r in rows)
        peer = collections.Counter(n for _, _, n, _ in rows).most_common(1)[0][0]
        where = " ".join(f"{k} {v}" for k, v in placements.items())
        print(f"| {name_of(abs(size))}{' in place' if size < 0 else ''} | {statistics.median(m for m, _, _, _ in rows):.3g} | "
              f"{statistics.median(p for _, p, _, _ in rows):.3g} | {statistics.median(ratios):.2f} | {ratios[0]:.2f} - {ratios[-1]:.2f} | "
              f"{len(rows)} | {where} | {peer} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collectives", default="all_reduce")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="8,64,1K,64K,1M,16M,256M")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--peers", default=",".join(PEERS), help="comma separated: " + ", ".join(PEERS))
    parser.add_argument("--peal", default=os.path.join(ROOT, "build/release/bin/peal"))
    parser.add_argument("--seconds", type=float, default=0, help="begin no repeat after so many seconds a collective; 0: no limit")
    parser.add_argument("--json", help="write every figure to this file")
    arguments = parser.parse_args()
    arguments.sizes = [size_of(s) for s in arguments.sizes.split(",")]
    if not os.path.exists(arguments.peal):
        sys.exit(f"There is no {arguments.peal}; type ./quickstart first, or give --peal.")
    install()
    folder = tempfile.mkdtemp(prefix="peal-compare-")
    raw = []
    try:
        build(folder)
        runner = Runner(arguments, folder)
        print(f"# {arguments.ranks} ranks, {os.cpu_count()} cores, scheduler {'SCHED_RR' if runner.shield else 'default'}; "
              "ratio = Peal / best peer of the same repeat and placement; below 1 Peal is faster", flush=True)
        for collective in arguments.collectives.split(","):
            pairs = collections.defaultdict(list)
            began = time.monotonic()
            for repeat in range(arguments.pairs + 5):
                if arguments.seconds and time.monotonic() - began > arguments.seconds:
                    print(f"# stopped after {arguments.seconds} s: fewer pairs than asked for", flush=True)
                    break
                if repeat >= arguments.pairs and all(len(v) >= arguments.pairs for v in pairs.values()):
                    break
                ours = runner.peal(collective)
                theirs = {name: runner.peer(PEERS[name], collective) for name in arguments.peers.split(",")}
                raw.append({"collective": collective, "repeat": repeat, "peal": ours, "peers": theirs})
                for size, (mine, line) in ours.items():
                    same = [(rows[size][0], name) for name, rows in theirs.items() if size in rows and regime(rows[size][1]) == regime(line)]
                    if same:
                        best = min(same)
                        pairs[size].append((mine, best[0], best[1], regime(line)))
                print(f"# {collective}: repeat {repeat + 1} done", file=sys.stderr, flush=True)
            print_table(collective, pairs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(raw, file)


if __name__ == "__main__":
    main()
