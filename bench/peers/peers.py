"""What the benchmarks against peers share: the words of sizes, the names that the peers' programs know, and these programs."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["openmpi-bin", "libopenmpi-dev", "mpich", "libmpich-dev", "libgloo-dev"]
GLOO_ALGORITHMS = ("ring", "bcube", "halving_doubling")
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
        program = os.path.join(folder, "bench." + flavour)
        if flavour == "gloo":
            command = ["c++", "-std=c++17", "-O2", "-o", program, os.path.join(HERE, "gloo_bench.cpp"), "-lgloo", "-lpthread"]
        else:
            command = [f"mpicc.{flavour}", "-O2", "-o", program, os.path.join(HERE, "mpi_bench.c")]
        subprocess.run(command, check=True)


def gloo_ranks(folder, ranks, interface, algorithm):
    """The command of each rank of bench.gloo, which meet in a new folder of `folder`."""
    store = tempfile.mkdtemp(prefix="gloo-", dir=folder)
    return [[os.path.join(folder, "bench.gloo"), "--rank", str(rank), "--ranks", str(ranks), "--store", store, "--interface", interface,
             "--algorithm", algorithm] for rank in range(ranks)]
