"""What the benchmarks against peers share: the words of sizes, the names that the peers' program knows, and that program."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev"]
PEER_NAMES = {"all_reduce": "allreduce", "broadcast": "broadcast", "reduce": "reduce", "all_gather": "allgather",
              "reduce_scatter": "reduce_scatter", "all_to_all": "alltoall", "gather": "gather", "scatter": "scatter", "send_recv": "sendrecv", "barrier": "barrier"}


def size_of(text):
    """Bytes of "64K", "1M", "8"."""
    number, shift = (text[:-1], {"K": 10, "M": 20, "G": 30}[text[-1]]) if text[-1:] in ("K", "M", "G") else (text, 0)
    if not number.isdecimal():
        sys.exit(f"{text!r} is no size; sizes look like 8, 64K or 1M")
    return int(number) << shift


def name_of(size):
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def build(folder, flavours=("openmpi", "mpich")):
    """bench.FLAVOUR in `folder`."""
    for flavour in flavours:
        subprocess.run([f"mpicc.{flavour}", "-O2", "-o", os.path.join(folder, "bench." + flavour), os.path.join(HERE, "mpi_bench.c")], check=True)
