#!/usr/bin/env python3
"""What `peal sim` costs over the number of ranks: CPU seconds and peak memory of whole commands, each on one core with a deadline.

    bench/sim/scale.py [--peal build/release/bin/peal] [--only "ring;tree, slow root"] [--most 100000] [--svg bench/sim-scale.svg]

Calls are out of place and in place, as `peal sim` has them, so an all-reduce is simulated twice. ASTRA-sim's and SimGrid's figures are those
that the design gives for ring all-reduce of 1 GiB and all-to-all of 64 MiB a rank (CPU seconds, one core each).
"""
import argparse
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPUS = 8  # of a DGX H100
ECMP = ["--fabric", "fat-tree,levels=3,radix=64,oversubscription=3"]  # no `adaptive`: a hash chooses the cables

#        name            collective     algorithm       bytes    most ranks  further words
CASES = [
    ("ring", "all_reduce", "ring", "1G", 100_000, []),
    ("hierarchical", "all_reduce", "hierarchical", "1G", 100_000, []),
    ("hierarchical, slow rank", "all_reduce", "hierarchical", "1G", 100_000, ["--straggler", "5=2"]),
    ("nvls_tree", "all_reduce", "nvls_tree", "1G", 100_000, []),
    ("tree", "all_reduce", "tree", "1G", 100_000, []),
    ("tree, slow root", "all_reduce", "tree", "1G", 100_000, ["--straggler", "0=2"]),
    ("tree, slow port", "all_reduce", "tree", "1G", 100_000, ["--slow-link", "n0: nic0 port in=0.5"]),
    ("k-nomial tree", "all_reduce", "k_nomial_tree", "1G", 100_000, []),
    ("k-nomial tree, slow root", "all_reduce", "k_nomial_tree", "1G", 100_000, ["--straggler", "0=2"]),
    ("k-nomial tree, slow port", "all_reduce", "k_nomial_tree", "1G", 100_000, ["--slow-link", "n0: nic0 port in=0.5"]),
    ("all-to-all", "all_to_all", "all_pairs", "64M", 100_000, []),
    ("all-to-all along rails", "all_to_all", "hierarchical", "64M", 100_000, []),
    ("grid, slow rank", "all_reduce", "grid", "1G", 100_000, ["--straggler", "5=2"]),
    ("grid, slow port", "all_reduce", "grid", "1G", 100_000, ["--slow-link", "n7: nic3 port in=0.5"]),
    ("all-to-all by grid, slow rank", "all_to_all", "grid", "64M", 100_000, ["--straggler", "5=2"]),
    ("all-to-all by grid, slow port", "all_to_all", "grid", "64M", 100_000, ["--slow-link", "n7: nic3 port in=0.5"]),
    ("ring, unfolded", "all_reduce", "ring", "1G", 4_096, ["--unfolded"]),
    ("all-to-all, unfolded", "all_to_all", "all_pairs", "64M", 1_024, ["--unfolded"]),
    ("tree on ECMP", "all_reduce", "tree", "1G", 16_384, ECMP),
    ("ring on ECMP", "all_reduce", "ring", "1G", 4_096, ECMP),
    ("hierarchical on ECMP", "all_reduce", "hierarchical", "1G", 4_096, ECMP),
    ("grid on ECMP", "all_reduce", "grid", "1G", 16_384, ECMP),
    ("all-to-all by grid on ECMP", "all_to_all", "grid", "64M", 16_384, ECMP),
    ("all-to-all on ECMP", "all_to_all", "all_pairs", "64M", 4_096, ECMP),  # beyond 1,024 with kept rates
]
OTHERS = {
    "ASTRA-sim, ring": [(1_024, 2.2), (4_096, 109)],
    "SimGrid, ring": [(1_024, 6.2), (4_096, 272)],
    "ASTRA-sim, all-to-all": [(1_024, 13.5)],
    "SimGrid, all-to-all": [(256, 4.4)],
}
# What the picture shows; the table has all.
DRAWN = ["ring", "hierarchical", "tree", "tree, slow root", "k-nomial tree", "nvls_tree", "all-to-all", "grid, slow rank", "all-to-all by grid, slow rank",
         "ring, unfolded", "all-to-all, unfolded", "ring on ECMP", "all-to-all on ECMP"]
RANKS = [64, 256, 1_024, 4_096, 16_384, 100_000]


def measure(command: list[str], deadline: float) -> tuple[float, float] | None:
    """CPU seconds and MiB of a command; none where it fails or takes too long."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    end = time.monotonic() + deadline
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            return (usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024) if status == 0 else None
        if time.monotonic() > end:
            process.kill()
            os.wait4(process.pid, 0)
            return None
        time.sleep(0.02)


def draw(path: pathlib.Path, lines: dict[str, list[tuple[int, float]]]) -> None:
    """CPU seconds over ranks, both in powers of ten; those of other simulators with dashes."""
    import math
    left, top, wide, high = 80, 20, 520, 340
    lows, highs = (1.5, -2.0), (5.2, 3.0)

    def place(ranks: float, seconds: float) -> tuple[float, float]:
        x = (math.log10(ranks) - lows[0]) / (highs[0] - lows[0])
        y = (math.log10(max(seconds, 0.01)) - lows[1]) / (highs[1] - lows[1])
        return left + wide * x, top + high * (1 - y)

    colours = ["#1b6ca8", "#c0392b", "#2e8b57", "#76d7c4", "#8e44ad", "#34495e", "#d35400", "#f1948a", "#5dade2", "#7d6608", "#145a32", "#b7950b",
               "#7f8c8d", "#af7ac5", "#e59866", "#4a235a"]
    height = max(top + high + 50, top + 20 * len(lines) + 10)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 830 {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="830" height="{height}" fill="white"/>']
    for power in range(2, 6):
        x, _ = place(10 ** power, 1)
        out.append(f'<path d="M{x:.1f} {top}V{top + high}" stroke="#ddd"/><text x="{x:.1f}" y="{top + high + 16}" text-anchor="middle">{10 ** power:,}</text>')
    for power in range(-2, 4):
        _, y = place(100, 10.0 ** power)
        out.append(f'<path d="M{left} {y:.1f}H{left + wide}" stroke="#ddd"/><text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0 ** power:g} s</text>')
    out.append(f'<text x="{left + wide / 2}" y="{top + high + 36}" text-anchor="middle">ranks</text>')
    out.append(f'<text x="16" y="{top + high / 2}" text-anchor="middle" transform="rotate(-90 16 {top + high / 2})">CPU seconds, one core</text>')
    for number, (name, points) in enumerate(lines.items()):
        colour = colours[number % len(colours)]
        places = [place(*point) for point in points]
        dash = ' stroke-dasharray="4 3"' if name in OTHERS else ""
        out.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        out.extend(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places)
        out.append(f'<path d="M{left + wide + 14} {top + 20 * number + 3}h20" stroke="{colour}" stroke-width="3"{dash}/>'
                   f'<text x="{left + wide + 40}" y="{top + 20 * number + 7}">{name}</text>')
    path.write_text("\n".join(out) + "\n</svg>\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peal", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "peal")
    parser.add_argument("--only", default="", help="names of cases, with semicolons")
    parser.add_argument("--most", type=int, default=100_000, help="ranks")
    parser.add_argument("--deadline", type=float, default=300, help="seconds for each command")
    parser.add_argument("--svg", type=pathlib.Path)
    wanted = parser.parse_args()
    only = [name for name in wanted.only.split(";") if name]
    print("| call | ranks | CPU s | MiB |\n|---|---|---|---|")
    lines: dict[str, list[tuple[int, float]]] = {}
    for name, collective, algorithm, size, most, words in CASES:
        for ranks in RANKS:
            if ranks > min(most, wanted.most) or (only and name not in only):
                continue
            command = [str(wanted.peal), "sim", collective, "--machine", "dgx-h100", "--nodes", str(ranks // GPUS), "--algorithm", algorithm,
                       "--protocol", "staged", "-b", size, "-e", size, *words]
            cost = measure(command, wanted.deadline)
            if cost is None:
                print(f"| {name} | {ranks:,} | more than {wanted.deadline:g} | |", flush=True)
                break
            print(f"| {name} | {ranks:,} | {cost[0]:.2f} | {cost[1]:.0f} |", flush=True)
            lines.setdefault(name, []).append((ranks, cost[0]))
    if wanted.svg:
        draw(wanted.svg, {name: points for name, points in lines.items() if name in DRAWN} | OTHERS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
