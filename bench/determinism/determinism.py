#!/usr/bin/env python3
"""Do deterministic calls give the same bits whatever else is chosen, and what does that cost?

    bench/determinism/determinism.py              everything: all_reduce, reduce, reduce_scatter; f64 f32 bf16 f16 f8; 2, 3, 5, 8 ranks: half an hour
    bench/determinism/determinism.py --quick      f32 and bf16 on 2 and 3 ranks, fewer repeats and sizes: two minutes
    bench/determinism/determinism.py --collectives all_reduce --types bf16 --ranks 8 --repeats 10000 --only bits

A cell is a collective, a type and a number of ranks. In each, `peal bench --deterministic --digest` hashes what every rank gets (SHA-256),
of inputs of mixed sign and magnitude whose sums depend on the order, in every configuration of

  transport   shared memory; TCP over loopback; two hosts (half of the ranks each say that they are on another one, so that they meet over
              loopback TCP and algorithms that know hosts are used)
  algorithm   the one that Peal chooses, and by name every one that sums in the canonical order (the others refuse)
  protocol    the one that Peal chooses, and every other one by name, at the smallest size
  chunks      sizes from 64 elements a rank to 1 MiB: other messages, pieces and algorithms. The first elements' inputs are the same in all
              sizes, and so must be their results: that is the SHA-256 that is printed. Results of one size are compared whole, too
  placement   ranks on cores in order, in reverse, and wherever the system puts them
  form        out of place and in place
  repeats     --repeats of what Peal chooses, over shared memory and over TCP; --few of the rest; each is hashed

To know that the inputs can tell, two orders of summation are compared in each cell of three ranks and more without --deterministic: if
they give the same bits, the cell fails. Then the price: p50 of --deterministic against the default, run in turn, median over --pairs.

The exit code is 1 when anything differs, 2 when it cannot be asked. Network traffic stays on loopback."""
import argparse
import collections
import dataclasses
import itertools
import json
import os
import pathlib
import re
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLECTIVES = ("all_reduce", "reduce", "reduce_scatter")
TYPES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "f8_e4m3fn": 1, "f8_e5m2": 1}
# Two orders of summation that a rank count of three or more tells apart.
ORDERS = {"all_reduce": ("ring", "tree"), "reduce": ("ring", "tree"), "reduce_scatter": ("ring", "direct")}
LAUNCHERS = ("PEAL_", "OMPI_", "PMIX_", "TORCHELASTIC_", "MASTER_", "LOCAL_")
HEAD = 64  # elements a rank at the smallest size
SECONDS = 300  # that one run may take


class Failed(Exception):
    """A run that did not end as it should: (exit code, what it said)."""


@dataclasses.dataclass(frozen=True)
class Configuration:
    transport: str  # shm, tcp, hosts
    algorithm: str = ""
    protocol: str = ""
    placement: str = ""  # "": bound in order where there are cores enough; reverse; free

    def __str__(self) -> str:
        return "/".join(filter(None, (self.transport, self.algorithm, self.protocol, self.placement)))


class Tool:
    def __init__(self, path: pathlib.Path, folder: pathlib.Path):
        self.path, self.folder = path, folder
        self.key = folder / "job.key"
        self.key.touch(mode=0o600)
        self.key.write_text(secrets.token_hex(32))
        self.cores = sorted(os.sched_getaffinity(0))

    def run(self, *words) -> str:
        """Standard output; Failed with standard error otherwise. Ends all it started when it takes too long."""
        clean = {k: v for k, v in os.environ.items() if k == "PEAL_DATA_DIR" or not k.startswith(LAUNCHERS) and k not in ("RANK", "WORLD_SIZE")}
        process = subprocess.Popen([str(word) for word in (self.path, *words)], env=clean, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            out, err = process.communicate(timeout=SECONDS + 20)
        except BaseException:  # an interrupt, too, leaves nothing behind: the ranks die with their launcher
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        if process.returncode != 0:
            raise Failed(process.returncode, err.strip().splitlines()[-1] if err.strip() else "it said nothing")
        return out

    def bench(self, where: Configuration, collective: str, ranks: int, *words) -> list[dict]:
        """The rows of peal bench in a configuration."""
        bench = ["bench", collective, *words, "--json", "-"]
        bench += ["--algorithm", where.algorithm] if where.algorithm else []
        bench += ["--protocol", where.protocol] if where.protocol else []
        bench += ["--transport", where.transport] if where.transport != "hosts" else []
        if where.transport != "hosts" and not where.placement:
            return json.loads(self.run(*bench, "-n", ranks, "--timeout", SECONDS))["rows"]
        # Every rank sets itself apart, then becomes peal bench.
        script = ""
        if where.transport == "hosts":
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                port = listener.getsockname()[1]
            script += f"export PEAL_HOST_ID=host$((PEAL_RANK * 2 / PEAL_SIZE)) PEAL_ROOT=127.0.0.1:{port} PEAL_KEY_FILE='{self.key}'; "
        become = f"exec '{self.path}' \"$@\""
        if where.placement == "reverse":
            cores = " ".join(str(core) for core in reversed(self.cores))
            script += f"set -- $((PEAL_RANK % {len(self.cores)} + 1)) \"$@\"; at=$1; shift; core=$(echo {cores} | cut -d ' ' -f $at); "
            become = f"exec taskset -c $core '{self.path}' \"$@\""
        return json.loads(self.run("run", "-n", ranks, "--no-bind", "--no-label", "--timeout", SECONDS, "--", "sh", "-c", script + become, "sh", *bench))["rows"]

    def names(self, collective: str, option: str) -> list[str]:
        """What can be typed behind --algorithm or --protocol: the tool says so when asked for what there is not."""
        try:
            self.run("bench", collective, "-n", 2, option, "?")
        except Failed as failed:
            listed = re.search(r"(?:one of|type):? ([a-z_0-9, ]+?)(?: or ([a-z_0-9]+))?$", failed.args[1])
            if listed:
                return [name for name in re.split(r"[, ]+", " ".join(filter(None, listed.groups()))) if name]
            raise
        raise Failed(0, f"peal bench takes {option} ?")


@dataclasses.dataclass
class Cell:
    collective: str
    dtype: str
    ranks: int
    heads: dict = dataclasses.field(default_factory=lambda: collections.defaultdict(list))  # SHA-256 of the first elements -> configurations
    wholes: dict = dataclasses.field(default_factory=lambda: collections.defaultdict(lambda: collections.defaultdict(list)))  # size -> the same
    configurations: int = 0
    repeats: int = 0
    troubles: list = dataclasses.field(default_factory=list)

    def add(self, where: Configuration, rows: list[dict]) -> None:
        self.configurations += 1
        for row in rows:
            digest = row["digest"]
            name = f"{where} {row['bytes']} B by {row['algorithm']}/{row['protocol']}"
            self.repeats += digest["repeats"]
            self.heads[digest["head"]["sha256"]].append(name)
            self.wholes[row["bytes"]][digest["sha256"]].append(name)
            if digest["differing"] > 0:
                self.troubles.append(f"{digest['differing']} of {digest['repeats']} calls differ from the first: {name}")

    def judge(self) -> None:
        for what, found in [("the first elements", self.heads), *((f"{size} B", digests) for size, digests in self.wholes.items())]:
            if len(found) > 1 and not (what != "the first elements" and len(self.heads) > 1):  # said once
                self.troubles.append(f"{len(found)} different results of {what}: " + "; ".join(
                    f"{digest[:12]} by {len(names)}, as {names[0]}" for digest, names in found.items()))

    @property
    def sha256(self) -> str:
        return next(iter(self.heads)) if len(self.heads) == 1 else f"{len(self.heads)} DIFFERENT"


def configurations_of(tool: Tool, cell: Cell, protocols: list[str], algorithms: list[str]) -> list[tuple[Configuration, bool]]:
    """Each with whether it is asked at the smallest size only."""
    found = [(Configuration(transport, algorithm), False) for transport, algorithm in itertools.product(("shm", "tcp", "hosts"), ["", *algorithms])]
    found += [(Configuration("shm", algorithm, protocol), True) for algorithm, protocol in itertools.product(["", *algorithms], protocols)]
    found += [(Configuration(transport, placement=placement), False) for transport in ("shm", "tcp") for placement in ("reverse", "free")]
    return found


def run_cell(tool: Tool, cell: Cell, names: dict, arguments) -> None:
    smallest = HEAD * TYPES[cell.dtype] * (cell.ranks if cell.collective == "reduce_scatter" else 1)
    largest = arguments.largest // cell.ranks * cell.ranks
    factor = 16
    common = ("--dtype", cell.dtype, "-b", smallest, "-f", factor, "--iters", 1, "--warmup", 0)

    def ask(where: Configuration, last: int, repeats: int) -> None:
        try:
            cell.add(where, tool.bench(where, cell.collective, cell.ranks, *common, "-e", last, "--digest", repeats, "--deterministic"))
        except Failed as failed:
            code, why = failed.args
            # By name, a way that cannot be gone is refused: not canonical, no such protocol here, one host only.
            if not (code == 2 and (where.algorithm or where.protocol)):
                cell.troubles.append(f"{where} ended with {code}: {why}")

    for where, is_small in configurations_of(tool, cell, names["protocols"], names[cell.collective]):
        ask(where, smallest if is_small else largest, arguments.few)
    for transport in ("shm", "tcp"):
        ask(Configuration(transport), smallest * factor, arguments.repeats)
    cell.judge()
    if cell.ranks < 3:
        return  # a + b is b + a
    told = set()
    for algorithm in ORDERS[cell.collective]:
        rows = tool.bench(Configuration("shm", algorithm), cell.collective, cell.ranks, *common, "-e", smallest, "--digest", 1)
        told.add(rows[0]["digest"]["sha256"])
    if len(told) != 2:
        cell.troubles.append(f"{' and '.join(ORDERS[cell.collective])} give the same bits: these inputs cannot tell one order from another")


def price(tool: Tool, collective: str, dtype: str, ranks: int, sizes: list[int], pairs: int) -> list[tuple]:
    """(size, default p50 us, deterministic p50 us, median ratio, lowest, highest, the two algorithms) a size."""
    found = []
    for size in sizes:
        points, ways = {False: [], True: []}, {}
        for pair in range(pairs):
            for deterministic in (False, True) if pair % 2 == 0 else (True, False):
                row = tool.bench(Configuration("shm"), collective, ranks, "--dtype", dtype, "-b", size, "-e", size, "--out-of-place",
                                 *(("--deterministic",) if deterministic else ()))[0]
                points[deterministic].append(row["out_of_place"]["p50_us"])
                ways[deterministic] = f"{row['algorithm']}/{row['protocol']}"
        ratios = [mine / other for other, mine in zip(points[False], points[True])]
        found.append((size, statistics.median(points[False]), statistics.median(points[True]), statistics.median(ratios), min(ratios), max(ratios),
                      ways[False], ways[True]))
    return found


def name_of(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1024 else f"{size} B"


def listed(kind, known):
    def parse(text: str) -> list:
        found = []
        for word in filter(None, text.split(",")):
            try:
                found.append(kind(word))
            except ValueError:
                raise argparse.ArgumentTypeError(f"'{word}' is no number") from None
        wrong = [str(word) for word in found if word not in known]
        if wrong or not found:
            choices = f"{known[0]} to {known[-1]}" if isinstance(known, range) else ", ".join(known)
            raise argparse.ArgumentTypeError(f"'{', '.join(wrong) or text}' is not one of {choices}; separate by commas")
        return found
    return parse


def positive(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number from 1")
    return value


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="defaults of two minutes: f32,bf16, ranks 2,3, 50 repeats, sizes up to 64 KiB, three pairs")
    parser.add_argument("--collectives", type=listed(str, COLLECTIVES), help="default: " + ",".join(COLLECTIVES))
    parser.add_argument("--types", type=listed(str, TYPES), help="default: " + ",".join(TYPES))
    parser.add_argument("--ranks", type=listed(int, range(2, 65)), help="default: 2,3,5,8")
    parser.add_argument("--repeats", type=positive, help="hashed calls a size and form of what Peal chooses (default: 1000)")
    parser.add_argument("--few", type=positive, default=5, help="the same of every other configuration (default: 5)")
    parser.add_argument("--pairs", type=positive, help="runs with and without --deterministic a size of the price (default: 7)")
    parser.add_argument("--price-types", type=listed(str, TYPES), help="default: f32,bf16")
    parser.add_argument("--only", choices=("bits", "price"), help="not both")
    parser.add_argument("--peal", type=pathlib.Path, default=ROOT / "build/release/bin/peal", help="the tool (default: build/release/bin/peal)")
    parser.add_argument("--json", type=pathlib.Path, help="write every figure to this file")
    arguments = parser.parse_args()
    quick = arguments.quick
    arguments.collectives = arguments.collectives or list(COLLECTIVES)
    arguments.types = arguments.types or (["f32", "bf16"] if quick else list(TYPES))
    arguments.ranks = arguments.ranks or ([2, 3] if quick else [2, 3, 5, 8])
    arguments.repeats = arguments.repeats or (50 if quick else 1000)
    arguments.pairs = arguments.pairs or (3 if quick else 7)
    arguments.price_types = arguments.price_types or ["f32", "bf16"]
    arguments.largest = 64 << 10 if quick else 1 << 20
    arguments.price_sizes = [8, 64 << 10] if quick else [8, 1 << 10, 64 << 10, 1 << 20, 16 << 20]
    if not os.access(arguments.peal, os.X_OK):
        parser.error(f"there is no {arguments.peal}: build it with ./check --quick, or give --peal PATH")
    arguments.peal = arguments.peal.resolve()
    if arguments.json and not arguments.json.absolute().parent.is_dir():
        parser.error(f"{arguments.json} lies in no folder that is there")
    return arguments


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def check_bits(tool: Tool, arguments) -> list[Cell]:
    names = {collective: tool.names(collective, "--algorithm") for collective in arguments.collectives}
    names["protocols"] = tool.names("all_reduce", "--protocol")
    cells = [Cell(*which) for which in itertools.product(arguments.collectives, arguments.types, arguments.ranks)]
    print("| collective | type | ranks | configurations | hashed calls | SHA-256 of the first elements |\n|---|---|---|---|---|---|", flush=True)
    for i, cell in enumerate(cells):
        begin = time.monotonic()
        run_cell(tool, cell, names, arguments)
        print(f"| {cell.collective} | {cell.dtype} | {cell.ranks} | {cell.configurations} | {cell.repeats} | {cell.sha256} |", flush=True)
        for trouble in cell.troubles:
            print(f"  {trouble}", flush=True)
        progress(f"[{i + 1}/{len(cells)}] {cell.collective} {cell.dtype}, {cell.ranks} ranks: {time.monotonic() - begin:.1f} s")
    return cells


def print_price(tool: Tool, arguments) -> dict:
    prices = {}
    print("\np50 in us, out of place, shared memory; ratio: deterministic / default, median of the pairs\n\n"
          "| | default | deterministic | ratio | lowest - highest | default runs | deterministic runs |\n|---|---|---|---|---|---|---|", flush=True)
    for collective, dtype, ranks in itertools.product(arguments.collectives, arguments.price_types, sorted({arguments.ranks[0], arguments.ranks[-1]})):
        prices[f"{collective} {dtype} {ranks}"] = rows = price(tool, collective, dtype, ranks, arguments.price_sizes, arguments.pairs)
        for size, default, deterministic, ratio, low, high, *ways in rows:
            print(f"| {collective} {dtype} {ranks} ranks {name_of(size)} | {default:.3g} | {deterministic:.3g} | {ratio:.2f} | {low:.2f} - {high:.2f} | "
                  f"{ways[0]} | {ways[1]} |", flush=True)
        progress(f"price of {collective} {dtype}, {ranks} ranks")
    return prices


def main() -> int:
    arguments = parse_arguments()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="peal-determinism-") as folder:
        tool = Tool(arguments.peal, pathlib.Path(folder))
        try:
            cells = [] if arguments.only == "price" else check_bits(tool, arguments)
            prices = {} if arguments.only == "bits" else print_price(tool, arguments)
        except Failed as failed:
            print(f"determinism: peal ended with {failed.args[0]}: {failed.args[1]}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("determinism: interrupted", file=sys.stderr)
            return 130
        except subprocess.TimeoutExpired as late:
            print(f"determinism: not done after {SECONDS + 20} s: {' '.join(late.cmd)}", file=sys.stderr)
            return 1
    wrong = [cell for cell in cells if cell.troubles]
    if cells:
        print(f"\n{len(cells) - len(wrong)} of {len(cells)} cells give one result each: {sum(cell.configurations for cell in cells)} configurations, "
              f"{sum(cell.repeats for cell in cells)} hashed calls, {time.monotonic() - begin:.0f} s")
    if arguments.json:
        arguments.json.write_text(json.dumps({
            "cells": [{"collective": c.collective, "dtype": c.dtype, "ranks": c.ranks, "configurations": c.configurations, "hashed_calls": c.repeats,
                       "sha256": list(c.heads), "troubles": c.troubles} for c in cells],
            "price": {name: [dict(zip(("bytes", "default_us", "deterministic_us", "ratio", "lowest", "highest", "default", "deterministic"), row))
                             for row in rows] for name, rows in prices.items()}}, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
