#!/usr/bin/env python3
"""Times of calls on a fabric whose hash makes messages meet, with rates of messages worked out at every change and with rates that are kept.

Usage: bench/sim/kept_rates.py [--tool build/release/bin/peal] [--nodes 32,64]        (about a minute)
       bench/sim/kept_rates.py --nodes 128                                          (about three)
"""
import argparse
import json
import pathlib
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FABRICS = [f"fat-tree,levels=3,radix=64{more}" for more in (",seed=3", ",oversubscription=2,seed=5", ",oversubscription=3")]
CALLS = [("all_to_all", "all_pairs", "64M"), ("all_to_all", "hierarchical", "64M"), ("all_reduce", "two_shot", "64M"), ("all_reduce", "tree", "256M")]


def simulate(tool: str, collective: str, algorithm: str, size: str, nodes: int, fabric: str, rates: str) -> tuple[float, float]:
    """Microseconds of the call, and seconds that it took to know them."""
    began = time.monotonic()
    done = subprocess.run([tool, "sim", collective, "--machine", "dgx-h100", "--nodes", str(nodes), "-b", size, "--fabric", fabric, "--algorithm", algorithm,
                           "--rates", rates, "--unfolded", "--json", "-"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{collective} {algorithm} on {nodes} nodes: {done.stderr.strip()}")
    return json.loads(done.stdout)["rows"][0]["out_of_place"]["time_us"], time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default=str(ROOT / "build/release/bin/peal"))
    parser.add_argument("--nodes", default="32,64", help="of 8 GPUs")
    args = parser.parse_args()
    if not pathlib.Path(args.tool).is_file():
        raise SystemExit(f"{args.tool} is not there: build it (./quickstart), or name it with --tool")
    print(f"{'call':<34} {'ranks':>5}  {'fabric':<50} {'exact us':>10} {'s':>6} {'kept us':>10} {'s':>6} {'off':>7}")
    for collective, algorithm, size in CALLS:
        for nodes in (int(word) for word in args.nodes.split(",")):
            for fabric in FABRICS:
                exact, exact_s = simulate(args.tool, collective, algorithm, size, nodes, fabric, "exact")
                kept, kept_s = simulate(args.tool, collective, algorithm, size, nodes, fabric, "kept")
                print(f"{collective + ' ' + algorithm + ' ' + size:<34} {8 * nodes:>5}  {fabric:<50} {exact:10.1f} {exact_s:6.1f} {kept:10.1f} {kept_s:6.1f} "
                      f"{100 * (kept / exact - 1):+6.1f}%", flush=True)


if __name__ == "__main__":
    main()
