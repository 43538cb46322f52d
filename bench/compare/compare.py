#!/usr/bin/env python3
"""Peal against the collective libraries of Debian 12, on this host, two or more ranks in shared memory or over loopback TCP.

    bench/compare/compare.py                      every collective, 2 ranks, 8 B to 256 MiB, nine pairs: more than half an hour
    bench/compare/compare.py --quick              every collective at 8 B, 64 KiB and 1 MiB, three pairs: three minutes
    bench/compare/compare.py --collectives all_reduce --sizes 8,64K,16M --pairs 5 --svg ratios.svg
    bench/compare/compare.py --transport tcp --ranks 4
    bench/compare/compare.py --quick --rewrite    inputs that were just written, as in programs
    bench/compare/compare.py --show one.json,two.json --svg ratios.svg      what --json wrote, as one table

Every repeat runs each library once over all sizes, in turn, so that what the machine does meanwhile meets all of them alike. Beside every
point stands a flag exchange between two cores, before and after it: where they lie (bounds: data/constants/host.yaml).
A point during which this changed is dropped. Where ranks are more than cores, two ranks of Peal measure it between the runs. In each
placement the best peer is the one of the lowest median; each of Peal's points is set against that peer's point of the nearest repeat
(Peal / peer). All run under the same scheduler class (SCHED_RR where allowed and ranks <=
cores), bound to cores. A cell is won when the median ratio is at most 1.00 and the upper 95 % bound of the median (by order statistics, so
it needs five pairs) at most 1.05. Out of place, save broadcast, which the others have in place only. p50: calls with aligned starts, maximum
over ranks, as bench/peers/bench_common.h has it. Needs openmpi-bin, libopenmpi-dev, mpich, libmpich-dev and libgloo-dev (installed when
root)."""
import argparse
import collections
import json
import math
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
from peers import GLOO_ALGORITHMS, PACKAGES, PEER_NAMES, build, gloo_ranks, name_of, size_of  # noqa: E402

RG = "-genv MPIR_CVAR_%s_POSIX_INTRA_ALGORITHM release_gather"
PEERS = {
    "openmpi vader+cma": "ompi --mca pml ob1 --mca btl self,vader",
    "openmpi vader+coll_sm": "ompi --mca pml ob1 --mca btl self,vader --mca coll_sm_priority 95",
    "openmpi ucx": "ompi --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_TLS=self,sm",
    "openmpi bound": "ompi --map-by core --bind-to core:overload-allowed --mca pml ob1 --mca btl self,vader",  # vader+cma, also where ranks share cores
    "mpich": "mpich",
    "mpich release_gather": "mpich " + " ".join(RG % c for c in ("BCAST", "REDUCE", "ALLREDUCE", "BARRIER")) + " -genv MPIR_CVAR_COLL_SHM_LIMIT_PER_NODE 262144",
}
TCP_PEERS = {
    "openmpi tcp": "ompi --mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo",
    "mpich tcp": "mpich -genv MPIR_CVAR_NOLOCAL 1 -genv UCX_TLS tcp,self -genv UCX_NET_DEVICES lo",
    **{f"gloo {algorithm}": f"gloo {algorithm}" for algorithm in GLOO_ALGORITHMS},
}
FLAVOURS = {"ompi": "openmpi", "mpich": "mpich", "gloo": "gloo"}
QUICK_PEERS = {"shm": "openmpi vader+cma,openmpi ucx,mpich", "tcp": "openmpi tcp"}  # the others are hardly ever the best
LIMIT = 300  # seconds that one run of a peer may take


def install():
    missing = [p for p in PACKAGES + ["util-linux"] if subprocess.run(["dpkg", "-s", p], capture_output=True).returncode]
    if missing and os.geteuid() == 0:
        waiting = ["-o", "DPkg::Lock::Timeout=300"]  # where another package manager is at work
        subprocess.run(["apt-get", *waiting, "install", "-y", "-qq", "--no-install-recommends", *missing], check=True, stdout=subprocess.DEVNULL)
    elif missing:
        sys.exit("Missing packages. Type: sudo apt-get install " + " ".join(missing))


def cores():
    """Of this host; each may be several CPUs, its threads."""
    groups = set()
    for cpu in os.sched_getaffinity(0):
        with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:
            groups.add(file.read())
    return len(groups)


class Runner:
    def __init__(self, arguments, folder, memory):
        self.arguments, self.folder, self.memory = arguments, folder, memory
        real_time = arguments.ranks <= os.cpu_count() and subprocess.run(["chrt", "-r", "1", "true"], capture_output=True).returncode == 0
        self.shield = ["chrt", "-r", "1"] if real_time else []
        self.crowded = arguments.ranks > os.cpu_count()  # then ranks cannot measure between calls where the cores lie: two ranks of Peal do
        self.unit = "core" if self.crowded or arguments.ranks <= cores() else "hwthread"  # to which a rank of the peers is bound
        self.alike = arguments.alike
        self.rewrite = ["--rewrite"] if arguments.rewrite else []
        self.place = None  # where they lay after the last run, if they are crowded
        self.common = os.memfd_create("peal-compare")  # what the peers' ranks align by: no name, so nothing is left behind, however this ends

    def peal(self, collective):
        """{size: (p50 us, placement)} out of place (of broadcast in place), and in place under negative sizes."""
        rows = {}
        for size in self.sizes(collective):
            row, place = self.placed(lambda: self.peal_row(collective, self.arguments.ranks, size))
            halves = {size: "in_place" if collective == "broadcast" else "out_of_place"}
            if collective == "all_reduce":
                halves[-size] = "in_place"
            for key, half in halves.items():
                rows[key] = (row[half]["p50_us"], place if self.crowded else self.where_between(*row["line_ns"][half]))
        return rows

    def sizes(self, collective):
        return [0] if collective == "barrier" else self.arguments.sizes

    def peal_row(self, collective, ranks, size):
        out = os.path.join(self.folder, "peal.json")
        command = [self.arguments.peal, "bench", collective, "-n", str(ranks), "-b", str(size), "-e", str(size), "--transport", self.arguments.transport,
                   "--json", out, "--timeout", "120"] + self.rewrite
        subprocess.run(self.shield + command, check=True, stdout=subprocess.DEVNULL)
        with open(out) as file:
            return json.load(file)["rows"][0]

    def placed(self, run):
        """What run() gives, and where the cores lay meanwhile if ranks are more than those (None: they were moved); else None, and every point says it."""
        if not self.crowded:
            return run(), None
        before = self.place or self.where()
        found = run()
        self.place = self.where()
        return found, before if before == self.place else None

    def where(self):
        line = self.peal_row("all_reduce", 2, 8)["line_ns"]["out_of_place"]
        return placement(line[1], line[1])

    def where_between(self, before, after):
        return "any" if self.alike else placement(before, after)

    def peer(self, settings, collective):
        """The same of a peer; where ranks are more than cores it starts anew for every size, so that the placement is known."""
        if not self.crowded:
            return self.peer_rows(settings, collective, self.sizes(collective))
        rows = {}
        for size in self.sizes(collective):
            found, place = self.placed(lambda: self.peer_rows(settings, collective, [size]))
            rows.update({key: (p50, place) for key, (p50, _) in found.items()})
        return rows

    def peer_rows(self, settings, collective, sizes):
        kind, *flags = settings.split()
        names = [PEER_NAMES[collective]] + (["allreduce_inplace"] if collective == "all_reduce" else [])
        table = os.path.join(self.folder, "peer.csv")
        open(table, "w").close()
        os.ftruncate(self.common, 0)
        ranks = ["-np", str(self.arguments.ranks)]
        if kind == "gloo":
            starts = [["taskset", "-c", str(rank % os.cpu_count()), *command]
                      for rank, command in enumerate(gloo_ranks(self.folder, self.arguments.ranks, "lo", flags[0]))]
        elif kind == "ompi":
            bind = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if self.crowded else []
            if self.unit == "hwthread":
                bind += ["--use-hwthread-cpus"]
            if "--bind-to" not in flags:
                bind += ["--bind-to", "none"] if self.crowded else ["--bind-to", self.unit, "--map-by", self.unit]
            starts = [["mpirun.openmpi"] + ranks + bind + flags + [os.path.join(self.folder, "bench.openmpi")]]
        else:
            starts = [["mpirun.mpich"] + ranks + ([] if self.crowded else ["-bind-to", self.unit]) + flags + [os.path.join(self.folder, "bench.mpich")]]
        environment = dict(os.environ, PEERS_SHM=f"/proc/{os.getpid()}/fd/{self.common}", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                           OMPI_MCA_btl_vader_backing_directory=self.memory)
        what = ["--colls", ",".join(names), "--sizes", ",".join(map(str, sizes)), "--out", table] + self.rewrite
        if not run_together([self.shield + start + what for start in starts], environment):
            return {}
        rows = {}
        with open(table) as file:
            for line in file:
                cells = line.strip().split(",")
                if len(cells) != 15 or cells[12] != "ok":
                    continue
                size = int(cells[4])
                rows[-size if cells[2].endswith("_inplace") else size] = (float(cells[5]), self.where_between(float(cells[13]), float(cells[14])))
        return rows


def remove(folder):
    """Also where ranks of a peer whose launcher was killed still write into it."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(0.1)


def run_together(commands, environment):
    """True when all ended well in time."""
    parts = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]
    deadline = time.monotonic() + LIMIT
    try:
        return all([part.wait(timeout=max(0.1, deadline - time.monotonic())) == 0 for part in parts])
    except subprocess.TimeoutExpired:
        return False
    finally:
        for part in parts:
            part.kill()
            part.wait()


def bound_of(key):
    """A bound between placements, from where Peal itself has it."""
    with open(os.path.join(ROOT, "data/constants/host.yaml")) as file:
        return float(re.search(rf"^  {key}: ([0-9.]+)", file.read(), re.MULTILINE).group(1))


SIBLINGS_BELOW, NEAR_BELOW = bound_of("siblings_below_ns"), bound_of("near_below_ns")


def placement(before, after):
    """Where the two cores lay while a point was measured; None when they were moved."""
    names = ["any" if line == 0 else "siblings" if line < SIBLINGS_BELOW else "near" if line < NEAR_BELOW else "far" for line in (before, after)]
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


def upper_bound(ratios):
    """The upper 95 % bound of the median of sorted ratios: the smallest of them that the median exceeds with at most 5 %. None: too few."""
    n = len(ratios)
    below = 0.0
    for k in range(n):
        below += math.comb(n, k) / 2**n  # P(at most k of n lie below the median)
        if below >= 0.95:
            return ratios[k]
    return None


def is_won(ratios):
    bound = upper_bound(ratios)
    return statistics.median(ratios) <= 1.0 and bound is not None and bound <= 1.05


def print_matrix(raw):
    """A line a collective, a column a size: the median ratio in the placement with the most pairs and then in the others, pairs in brackets."""
    sizes = sorted({abs(size) for row in raw for size in row["peal"] if size != 0})
    print("\n| | " + " | ".join(name_of(size) for size in sizes) + " |\n|---|" + "---|" * len(sizes))
    for collective in PEER_NAMES:
        found = pairs_of([row for row in raw if row["collective"] == collective])
        for sign, suffix in ((1, ""), (-1, " in place")):
            columns = [sign * size for size in sizes] if 0 not in found else [0]
            if not any(size in found for size in columns):
                continue
            cells = [" / ".join(("**%.2f**" if (m := statistics.median(ratios)) > 1 else "%.2f") % m + f" {where} ({len(ratios)})"
                                for where, (_, _, _, ratios) in sorted(found.get(size, {}).items(), key=lambda item: -len(item[1][3])))
                     for size in columns]
            print(f"| {collective}{suffix} | " + " | ".join(cells) + " |")
            if 0 in found:
                break


def print_summary(raw):
    """Of every cell, in the placement that has the most pairs."""
    cells = {}
    for collective in dict.fromkeys(row["collective"] for row in raw):
        for size, where in pairs_of([row for row in raw if row["collective"] == collective]).items():
            ratios = max((entry[3] for entry in where.values()), key=len)
            cells[collective, size] = ratios
    if not cells:
        return
    medians = [statistics.median(ratios) for ratios in cells.values()]
    lost = [f"{collective} {name_of(abs(size))}{' in place' if size < 0 else ''} ({statistics.median(ratios):.2f})"
            for (collective, size), ratios in cells.items() if not is_won(ratios)]
    mean = math.exp(statistics.fmean(math.log(m) for m in medians))
    print(f"\n{len(cells) - len(lost)} of {len(cells)} cells won; geometric mean of the ratios {mean:.2f}: {1 / mean:.2f} times as fast as the best peer")
    if lost:
        print("not won (or with too few pairs to say so): " + ", ".join(lost))


def plot(raw, path):
    """Every ratio as a dot, the medians joined, one line of panels; 1.0 is the best peer."""
    collectives = list(dict.fromkeys(row["collective"] for row in raw))
    width, height, left, low, high = 190, 220, 50, 0.125, 4.0
    colours = {"near": "#0072b2", "far": "#d55e00", "siblings": "#009e73", "any": "#555555"}

    def y_of(ratio):
        return 30 + height * (math.log2(high) - math.log2(min(high, max(low, ratio)))) / (math.log2(high) - math.log2(low))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + len(collectives) * (width + 15)}" height="{height + 110}" font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="white"/>']
    for tick in (0.125, 0.25, 0.5, 1, 2, 4):
        out.append(f'<text x="{left - 8}" y="{y_of(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for i, collective in enumerate(collectives):
        x0 = left + i * (width + 15)
        found = pairs_of([row for row in raw if row["collective"] == collective])
        sizes = sorted(size for size in found if size >= 0)
        out.append(f'<rect x="{x0}" y="30" width="{width}" height="{height}" fill="none" stroke="#999"/>'
                   f'<line x1="{x0}" x2="{x0 + width}" y1="{y_of(1):.1f}" y2="{y_of(1):.1f}" stroke="#999" stroke-dasharray="4 3"/>'
                   f'<text x="{x0 + width / 2}" y="20" text-anchor="middle" font-weight="bold">{collective}</text>')
        for at, size in enumerate(sizes):
            x = x0 + width * (at + 0.5) / len(sizes)
            out.append(f'<text transform="translate({x + 4:.1f},{height + 40}) rotate(60)">{name_of(size)}</text>')
            for place, (_, _, _, ratios) in found[size].items():
                colour = colours[place]
                out += [f'<circle cx="{x:.1f}" cy="{y_of(r):.1f}" r="2" fill="{colour}" fill-opacity="0.35"/>' for r in ratios]
                out.append(f'<rect x="{x - 6:.1f}" y="{y_of(statistics.median(ratios)) - 1.5:.1f}" width="12" height="3" fill="{colour}"/>')
    for i, (place, colour) in enumerate(list(colours.items())[:3]):
        out.append(f'<text x="{left + 90 * i}" y="{height + 100}" fill="{colour}">{place}</text>')
    out.append(f'<text x="{left + 300}" y="{height + 100}">Peal / best peer; bars are medians, below 1 Peal is faster</text></svg>')
    with open(path, "w") as file:
        file.write("\n".join(out) + "\n")


def print_table(collective, raw):
    print(f"\n| {collective} | placement | Peal p50 us | best peer us | ratio (median) | lowest - highest | 95 % bound | pairs | best peer |\n|---|---|---|---|---|---|---|---|---|")
    found = pairs_of(raw)
    for size in sorted(found, key=lambda s: (s < 0, abs(s))):
        for where, (best, theirs, mine, ratios) in sorted(found[size].items(), key=lambda item: -len(item[1][3])):
            bound = upper_bound(ratios)
            print(f"| {name_of(abs(size))}{' in place' if size < 0 else ''} | {where} | {statistics.median(mine):.3g} | {theirs:.3g} | "
                  f"{statistics.median(ratios):.2f} | {ratios[0]:.2f} - {ratios[-1]:.2f} | {'-' if bound is None else f'{bound:.2f}'} | {len(ratios)} | {best} |", flush=True)


def read(path):
    try:
        with open(path) as file:
            return [as_read(row) for row in json.load(file)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sys.exit(f"{path} is no file that --json has written ({error}); name one that is, or measure with --json FILE.")


def check_alike(raw, inputs=None):
    """Ratios of inputs that were just written and of others do not belong in one table. `inputs`: of the run that goes on."""
    known = {row["inputs"] for row in raw if "inputs" in row} | ({inputs} if inputs else set())
    if len(known) > 1:
        sys.exit("Some of these figures are of inputs that were written before each call (--rewrite), others of inputs that stayed as they were; give files of one kind.")


def show(arguments):
    raw = [row for path in arguments.show.split(",") for row in read(path)]
    check_alike(raw)
    print_matrix(raw)
    print_summary(raw)
    if arguments.svg:
        plot(raw, arguments.svg)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collectives", default=",".join(PEER_NAMES))
    parser.add_argument("--quick", action="store_true", help="8 B, 64 KiB and 1 MiB, three pairs, the peers that are usually best")
    parser.add_argument("--transport", choices=("shm", "tcp"), default="shm")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", default=None, help="default: 8,1K,64K,1M,16M,256M")
    parser.add_argument("--rewrite", action="store_true", help="inputs are written anew before each timed call, as programs do; else they lie in the caches of whoever read them last")
    parser.add_argument("--alike", action="store_true", help="all cores lie alike (one mesh): an exchange near a bound of the placements tells nothing")
    parser.add_argument("--pairs", type=int, default=None, help="in one placement, for every size")
    parser.add_argument("--peers", default=None, help="comma separated: " + ", ".join([*PEERS, *TCP_PEERS]))
    parser.add_argument("--peal", default=os.path.join(ROOT, "build/release/bin/peal"))
    parser.add_argument("--seconds", type=float, default=0, help="begin no repeat after so many seconds a collective; 0: until there are enough pairs")
    parser.add_argument("--json", help="write every figure to this file")
    parser.add_argument("--svg", help="draw the ratios into this file")
    parser.add_argument("--show", help="measure nothing: print, and draw, what earlier runs wrote with --json; comma separated")
    parser.add_argument("--add-to", help="go on from the figures that an earlier run on this machine wrote with --json")
    arguments = parser.parse_args()
    if arguments.show:
        return show(arguments)
    arguments.pairs = arguments.pairs or (3 if arguments.quick else 9)
    arguments.sizes = [size_of(s) for s in (arguments.sizes or ("8,64K,1M" if arguments.quick else "8,1K,64K,1M,16M,256M")).split(",")]
    known = PEERS if arguments.transport == "shm" else TCP_PEERS
    arguments.peers = arguments.peers or (QUICK_PEERS[arguments.transport] if arguments.quick else ",".join(known))
    for chosen, offered in ((arguments.peers, known), (arguments.collectives, PEER_NAMES)):
        unknown = [name for name in chosen.split(",") if name not in offered]
        if unknown:
            sys.exit(f"{unknown[0]!r} is not known here; type one or more of: {', '.join(offered)}")
    if not os.path.exists(arguments.peal):
        sys.exit(f"There is no {arguments.peal}; type ./quickstart first, or give --peal.")
    install()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))  # so that the folder goes too
    folder = tempfile.mkdtemp(prefix="peal-compare-")
    memory = tempfile.mkdtemp(prefix="peal-compare-", dir="/dev/shm")  # for what Open MPI, killed where it stands still, would leave there
    inputs = "written" if arguments.rewrite else "kept"
    raw, earlier = [], read(arguments.add_to) if arguments.add_to else []
    check_alike(earlier, inputs)
    try:
        build(folder, {FLAVOURS[known[name].split()[0]] for name in arguments.peers.split(",")})
        runner = Runner(arguments, folder, memory)
        print(f"# {arguments.ranks} ranks, {os.cpu_count()} cores, scheduler {'SCHED_RR' if runner.shield else 'default'}; "
              f"ratio = Peal / best peer of the same placement; below 1 Peal is faster{'; inputs are written before each call' if runner.rewrite else ''}", flush=True)
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
                theirs = {name: runner.peer(known[name], collective) for name in arguments.peers.split(",")}
                done.append({"collective": collective, "repeat": repeat, "inputs": inputs, "peal": ours, "peers": theirs})
                print(f"# {collective}: repeat {repeat + 1} done", file=sys.stderr, flush=True)
            print_table(collective, done)
            raw += done
        print_summary(raw)
        if arguments.svg:
            plot(raw, arguments.svg)
    finally:
        remove(folder)
        remove(memory)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(raw, file)


if __name__ == "__main__":
    main()
