"""A Slurm of four hosts on this machine, and jobs of Peal in it. Run by hand, as root, with Debian's packages slurmctld, slurmd, slurm-client
and munge installed (their services need not run); it is no part of ./check. Usage: slurm_drill.py [PATH_OF_PEAL]

Hosts are network namespaces with names of their own; the controller and munged are started here and ended here. What it shows:
  1. the script of `peal topo --export sbatch`, submitted as it is, runs `peal bench` over all hosts;
  2. ranks started by `srun` alone, by hand: PEAL_RANK from SLURM_PROCID;
  3. the racks of topology.conf arrive: with hosts of two racks in turn, rings go rack by rack.
Everything lies in one temporary folder; nothing is left."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import Network, why_not  # noqa: E402

PEAL = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/peal")
HOSTS = 4
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "sinfo")

CONF = """ClusterName=drill
SlurmctldHost=drill0(192.168.77.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/tree
MpiDefault=none
ReturnToService=2
InactiveLimit=0
SlurmdParameters=config_overrides
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""
# Hosts come in turn from two racks.
RACKS = "SwitchName=left Nodes=drill0,drill2\nSwitchName=right Nodes=drill1,drill3\nSwitchName=spine Switches=left,right\n"


class Drill:
    def __init__(self, folder, network):
        self.folder, self.network = folder, network
        cores = len(os.sched_getaffinity(0))
        nodes = "\n".join(f"NodeName=drill{i} NodeAddr=192.168.77.{i + 1} CPUs={cores} Boards=1 Sockets=1 CoresPerSocket={cores} ThreadsPerCore=1 State=UNKNOWN"
                          for i in range(HOSTS))
        (folder / "slurm.conf").write_text(CONF.format(folder=folder, nodes=nodes))
        (folder / "topology.conf").write_text(RACKS)
        # Not to be looked for: /sys of a network namespace has no control groups below it, and none are used here.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"192.168.77.{i + 1} drill{i}\n" for i in range(HOSTS)))
        (folder / "state").mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{os.path.dirname(PEAL)}:{os.environ['PATH']}"}

    def on(self, host, command, log):
        """A daemon on a host with its own name and host table; its output goes into a file."""
        script = f"mount --bind {self.folder}/hosts /etc/hosts && hostname drill{host} && exec {command} > {self.folder}/{log} 2>&1"
        return self.network.start(host, ["unshare", "--uts", "sh", "-c", script], self.environment)

    def run(self, command, limit=120):
        done = self.network.start(0, ["unshare", "--uts", "sh", "-c", f"mount --bind {self.folder}/hosts /etc/hosts && hostname drill0 && {command}"],
                                  self.environment)
        out, err = done.communicate(timeout=limit)
        if done.returncode != 0:
            raise RuntimeError(f"{command}\nexit code {done.returncode}\n{out}{err}")
        return out

    def start(self):
        f = self.folder
        self.on(0, f"munged --foreground --force --socket={f}/munge.socket --key-file={f}/munge.key --pid-file={f}/munge.pid "
                   f"--log-file={f}/munged.log --seed-file={f}/munge.seed", "munged.out")
        self.wait("munged", lambda: (f / "munge.socket").exists())
        self.on(0, "slurmctld -D", "slurmctld.out")
        for host in range(HOSTS):
            (f / f"spool-drill{host}").mkdir()
            self.on(host, f"slurmd -D -N drill{host}", f"slurmd{host}.out")
        self.wait("all hosts to be idle", self.is_idle)

    def is_idle(self):
        try:
            return self.run("sinfo -h -N -o %t").split() == ["idle"] * HOSTS
        except RuntimeError:
            return False

    def wait(self, what, condition, limit=60):
        deadline = time.monotonic() + limit
        while not condition():
            if time.monotonic() > deadline:
                for log in sorted([*self.folder.glob("*.log"), *self.folder.glob("*.out")]):
                    print(f"--- {log.name}\n{log.read_text(errors='replace')[-1500:]}", file=sys.stderr)
                raise RuntimeError(f"waited {limit} s for {what}")
            time.sleep(0.5)

    def submit(self, hosts, ranks, *words, environment=""):
        """The exported script, as it is; what the job has written."""
        script = self.folder / "job.sh"
        export = [PEAL, "topo", "--nodes", str(hosts), "--export", "sbatch", "--ranks", str(ranks)]
        script.write_text(subprocess.run(export, capture_output=True, text=True, check=True, timeout=60).stdout)
        number = self.run(f"cd {self.folder} && {environment} sbatch --wait --parsable {script} {' '.join(words)}; true").split()[0]
        out = self.folder / f"peal-{ranks}-{number}.out"
        self.wait("the output of the job", out.exists, 20)
        left = list(self.folder.glob("*.key"))
        return out.read_text(), [key.name for key in left if key.name != "munge.key"]


def main():
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing or os.geteuid() != 0 or why_not():
        print(f"cannot run here: missing {missing}, user {os.geteuid()}, namespaces: {why_not() or 'fine'}", file=sys.stderr)
        return 2
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="peal-slurm-") as name, Network(HOSTS) as network:
        os.chmod(name, 0o755)
        drill = Drill(pathlib.Path(name), network)
        drill.start()
        bench = [PEAL, "bench", "all_reduce", "-b", "8", "-e", "1M", "-f", "64", "--iters", "5", "--check"]
        out, keys = drill.submit(2, 2 * cores, *bench)
        print(out)
        assert "Out of bounds values : 0" in out and not keys, (out, keys)
        print(f"1. exported script over 2 hosts, {2 * cores} ranks: right; the job's key is gone")
        own = pathlib.Path(name, "by-hand.key")
        own.write_bytes(os.urandom(32))
        own.chmod(0o600)
        by_hand = (f"export PEAL_RANK=$SLURM_PROCID PEAL_SIZE=$SLURM_NTASKS PEAL_LOCAL_RANK=$SLURM_LOCALID PEAL_ROOT=192.168.77.1:29700 "
                   f"PEAL_KEY_FILE={name}/by-hand.key; exec {' '.join(bench)}")
        out = drill.run(f"srun -N 2 -n {2 * cores} --cpu-bind=cores bash -c '{by_hand}' 2>&1")
        assert "Out of bounds values : 0" in out, out
        print(f"2. srun alone over 2 hosts, {2 * cores} ranks with --cpu-bind=cores: right")
        out, _ = drill.submit(HOSTS, HOSTS * cores, *bench, environment="PEAL_LOG_LEVEL=info")
        assert "Out of bounds values : 0" in out, out
        racks = [line for line in out.splitlines() if "racks are known" in line]
        print("3.", *racks)
        ring = [rank for host in (0, 2, 1, 3) for rank in range(host * cores, (host + 1) * cores)]
        assert len(racks) == 1 and f"2 racks are known; rings go through ranks {', '.join(map(str, ring))}" in racks[0], out
    return 0


if __name__ == "__main__":
    sys.exit(main())
