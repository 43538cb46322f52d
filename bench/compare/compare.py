#!/usr/bin/env python3
"""Peal against the collective libraries of Debian 12, on this host, two or more ranks in shared memory.

    bench/compare/compare.py                      all_reduce, 2 ranks, 8 B to 256 MiB, nine pairs
    bench/compare/compare.py --pairs 3 --sizes 8,64K,16M

Every repeat runs each library once over all sizes, in turn, so that what the machine does meanwhile meets all of them alike. Beside every
point stands a flag exchange between the two cores, before and after it: under 50 ns they are siblings (one core), under 120 near, else far.
A point during which this changed is dropped. In each placement the best peer is the one of the lowest median; each of Peal's points is set
against that peer's point of the nearest repeat (Peal / peer). All run under the same scheduler class (SCHED_RR where allowed and ranks <=
cores), bound to cores. p50: calls with aligned starts, maximum over ranks, as bench/peers/bench_common.h has it. Needs openmpi-bin,
libopenmpi-dev, mpich and libmpich-dev (installed when root)."""
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
        """{size: (p50 us, placement)} out of place, and in place under negative sizes."""
        rows = {}
        for size in self.arguments.sizes:
            out = os.path.join(self.folder, "peal.json")
            command = self.shield + [self.arguments.peal, "bench", collective, "-n", str(self.arguments.ranks), "-b", str(size), "-e", str(size),
                                     "--json", out, "--timeout", "120"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            with open(out) as file:
                row = json.load(file)["rows"][0]
            halves = {size: row["out_of_place"], -size: row["in_place"] if collective == "all_reduce" else None}
            lines = {size: row["line_ns"]["out_of_place"], -size: row["line_ns"]["in_place"]}
            rows.update({s: (h["p50_us"], placement(*lines[s])) for s, h in halves.items() if h})
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
                if len(cells) != 15 or cells[12] != "ok":
                    continue
                size = int(cells[4])
                rows[-size if cells[2].endswith("_inplace") else size] = (float(cells[5]), placement(float(cells[13]), float(cells[14])))
        return rows


def placement(before, after):
    """Where the two cores lay while a point was measured; None when they were moved."""
    names = ["any" if line == 0 else "siblings" if line < 50 else "near" if line < 120 else "far" for line in (before, after)]
    return names[0] if names[0] == names[1] else None


def pairs_of(raw):
    """{size: {placement: (best peer, its median, Peal's p50s, ratios)}} over all repeats of one collective."""
    points = collections.defaultdict(lambda: collections.defaultdict(list))  # (size, placement) -> library -> [(repeat, p50)]
    for repeat, row in enumerate(raw):
        for library, rows in [("Peal", row["peal"]), *row["peers"].items()]:
            for size, (p50, where) in rows.items():
                if where:
                    points[size, where][library].append((repeat, p50))
    found = collections.defaultdict(dict)
    for (size, where), libraries in points.items():
        mine = libraries.pop("Peal", [])
        most = max((len(v) for v in libraries.values()), default=0)
        known = {n: statistics.median(p for _, p in v) for n, v in libraries.items() if 2 * len(v) >= most}
        if not mine or not known:
            continue
        best = min(known, key=known.get)
        ratios = [p50 / min(libraries[best], key=lambda point: abs(point[0] - repeat))[1] for repeat, p50 in mine]
        found[size][where] = (best, known[best], [p for _, p in mine], sorted(ratios))
    return found


def as_read(row):
    """A row of --json, whose sizes have become text on the way."""
    def sizes(points):
        return {int(size): tuple(point) for size, point in points.items()}

    return dict(row, peal=sizes(row["peal"]), peers={name: sizes(points) for name, points in row["peers"].items()})


def print_table(collective, raw):
    print(f"\n| {collective} | placement | Peal p50 us | best peer us | ratio (median) | lowest - highest | pairs | best peer |\n|---|---|---|---|---|---|---|---|")
    found = pairs_of(raw)
    for size in sorted(found, key=lambda s: (s < 0, abs(s))):
        for where, (best, theirs, mine, ratios) in sorted(found[size].items(), key=lambda item: -len(item[1][3])):
            print(f"| {name_of(abs(size))}{' in place' if size < 0 else ''} | {where} | {statistics.median(mine):.3g} | {theirs:.3g} | "
                  f"{statistics.median(ratios):.2f} | {ratios[0]:.2f} - {ratios[-1]:.2f} | {len(ratios)} | {best} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collectives", default="all_reduce")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default="8,64,1K,64K,1M,16M,256M")
    parser.add_argument("--pairs", type=int, default=9, help="in one placement, for every size")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma separated: " + ", ".join(PEERS))
    parser.add_argument("--peal", default=os.path.join(ROOT, "build/release/bin/peal"))
    parser.add_argument("--seconds", type=float, default=0, help="begin no repeat after so many seconds a collective; 0: until there are enough pairs")
    parser.add_argument("--json", help="write every figure to this file")
    parser.add_argument("--add-to", help="go on from the figures that an earlier run on this machine wrote with --json")
    arguments = parser.parse_args()
    arguments.sizes = [size_of(s) for s in arguments.sizes.split(",")]
    if not os.path.exists(arguments.peal):
        sys.exit(f"There is no {arguments.peal}; type ./quickstart first, or give --peal.")
    install()
    folder = tempfile.mkdtemp(prefix="peal-compare-")
    raw, earlier = [], []
    if arguments.add_to:
        with open(arguments.add_to) as file:
            earlier = [as_read(row) for row in json.load(file)]
    try:
        build(folder)
        runner = Runner(arguments, folder)
        print(f"# {arguments.ranks} ranks, {os.cpu_count()} cores, scheduler {'SCHED_RR' if runner.shield else 'default'}; "
              "ratio = Peal / best peer of the same placement; below 1 Peal is faster", flush=True)
        for collective in arguments.collectives.split(","):
            done = [row for row in earlier if row["collective"] == collective]
            began = time.monotonic()
            for repeat in range(len(done), 3 * arguments.pairs):
                if arguments.seconds and time.monotonic() - began > arguments.seconds:
                    print(f"# stopped after {arguments.seconds} s", flush=True)
                    break
                found = pairs_of(done)
                if repeat >= arguments.pairs and all(max(len(r[3]) for r in where.values()) >= arguments.pairs for where in found.values()):
                    break
                ours = runner.peal(collective)
                theirs = {name: runner.peer(PEERS[name], collective) for name in arguments.peers.split(",")}
                done.append({"collective": collective, "repeat": repeat, "peal": ours, "peers": theirs})
                print(f"# {collective}: repeat {repeat + 1} done", file=sys.stderr, flush=True)
            print_table(collective, done)
            raw += done
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(raw, file)


if __name__ == "__main__":
    main()
