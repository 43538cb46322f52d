#!/usr/bin/env python3
"""Is what Peal chooses without a wish the best that the simulation finds, and how near are predictions? Every algorithm, many GPUs.

    bench/sim/choice.py [--peal build/release/bin/peal] [--machine dgx-h100] [--nodes 64] [--collectives all_reduce,reduce] [--sizes 8K,8M]

A line for each collective and size: what was chosen, its time over the best one's, and of every algorithm the simulated time with the
prediction over it in brackets. The last line has the worst choice. `peal explain --json` says which algorithms there are.
"""
import argparse
import pathlib
import sys

from folded_equals_whole import answer, simulated

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The name of a form alone, where the algorithm's is given to the fastest of several.
ALONE = {(collective, "tree"): "k_nomial_tree" for collective in ("all_reduce", "broadcast", "reduce")}
COLLECTIVES = "all_reduce,all_gather,reduce_scatter,all_to_all,broadcast,reduce,gather,scatter"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peal", default=str(ROOT / "build/release/bin/peal"))
    parser.add_argument("--machine", default="dgx-h100")
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--collectives", default=COLLECTIVES)
    parser.add_argument("--sizes", default="8K,256K,8M,256M")
    parser.add_argument("--deadline", type=float, default=100, help="seconds for each command")
    args = parser.parse_args()
    if not pathlib.Path(args.peal).exists():
        print(f"choice.py: {args.peal} is not there; build it with ./quickstart, or say where it is with --peal", file=sys.stderr)
        return 2
    where = ["--machine", args.machine, "--nodes", str(args.nodes), "--json", "-"]
    worst = (0.0, "nothing was compared")
    for collective in args.collectives.split(","):
        for size in args.sizes.split(","):
            explained = answer([args.peal, "explain", collective, "--bytes", size] + where, args.deadline)
            if isinstance(explained, str):
                print(f"{collective} {size}: {explained}", file=sys.stderr)
                return 1
            times: dict[str, float] = {}
            said = []
            for algorithm in dict.fromkeys(c["algorithm"] for c in explained["candidates"]):
                alone = ALONE.get((collective, algorithm), algorithm)
                row = simulated([args.peal, "sim", collective, "-b", size, "-e", size, "--algorithm", alone] + where, args.deadline)
                if isinstance(row, str):
                    said.append(f"{algorithm} - ({row})")
                    continue
                times[algorithm] = row["out_of_place"]["time_us"]
                said.append(f"{algorithm} {times[algorithm]:.4g} ({row['predicted_us'] / times[algorithm]:.2f})")
            chosen = explained["algorithm"]
            if chosen not in times:
                print(f"{collective} {size}: {chosen}, which was chosen, was not simulated within {args.deadline:.0f} s", flush=True)
                continue
            over = times[chosen] / min(times.values())
            worst = max(worst, (over, f"{collective} of {size}, {chosen}"))
            print(f"{collective} {size}: {chosen}, {over:.2f} of the best | us (predicted / simulated): {', '.join(said)}", flush=True)
    print(f"worst choice: {worst[0]:.2f} of the best ({worst[1]})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
