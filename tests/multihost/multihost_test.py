"""Jobs over several hosts: `peal run` in two and three network namespaces. Usage: multihost_test.py PATH_OF_PEAL [CLASS]"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import Network, why_not  # noqa: E402

PEAL = ""
REASON = why_not()
LIMIT = 60  # seconds that a job may take


@unittest.skipIf(REASON, f"network namespaces cannot be made here: {REASON}")
class OnHosts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="peal-multihost-")
        self.addCleanup(self.folder.cleanup)
        self.key = self.new_key("job.key")

    def new_key(self, name):
        path = os.path.join(self.folder.name, name)
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(32))
        return path

    def job(self, network, hosts, ranks, program, root=None, environment=None, keys=None, only=None):
        """Starts `peal run` on every host (or those in `only`); the processes, one a host."""
        processes = []
        for index in only if only is not None else range(len(hosts)):
            command = [PEAL, "run", "-n", str(ranks), "--hosts", ",".join(hosts), "--host-index", str(index), "--no-bind"]
            command += ["--key-file", (keys or {}).get(index, self.key)]
            if root:
                command += ["--root", root]
            processes.append(network.start(index, [*command, "--", *program], (environment or {}).get(index)))
        return processes

    def ends(self, processes):
        """[(exit code, stdout, stderr)]"""
        deadline = time.monotonic() + LIMIT
        results = []
        for process in processes:
            try:
                out, err = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.fail("a job did not end in time")
            results.append((process.returncode, out, err))
        return results

    def assert_good(self, results):
        for code, out, err in results:
            self.assertEqual(code, 0, out + err)

    def bench(self, collective="all_reduce", largest="1M"):
        return [PEAL, "bench", collective, "-b", "8", "-e", largest, "-f", "16", "--iters", "5", "--check"]


class MultiHost(OnHosts):
    def test_two_hosts_v4(self):
        with Network(2) as network:
            for collective in ("all_reduce", "all_to_all", "all_gather_v", "broadcast"):
                results = self.ends(self.job(network, ["192.168.77.1", "192.168.77.2"], 4, self.bench(collective)))
                self.assert_good(results)
                self.assertIn(collective, results[0][1])

    def test_algorithms_that_know_hosts_or_run_by_name_only(self):
        forced = {"hierarchical": ("all_reduce", "all_gather"), "bidirectional_ring": ("all_reduce", "reduce_scatter", "all_gather"),
                  "double_binary_tree": ("all_reduce", "broadcast", "reduce"), "bruck": ("all_gather", "all_to_all"),
                  "binary_tree": ("all_reduce",),
                  "pat": ("all_gather", "reduce_scatter")}
        with Network(2) as network:
            for algorithm, collectives in forced.items():
                for collective in collectives:
                    with self.subTest(algorithm=algorithm, collective=collective):
                        program = [*self.bench(collective, "256K"), "--algorithm", algorithm]
                        results = self.ends(self.job(network, ["192.168.77.1", "192.168.77.2"], 4, program))
                        self.assert_good(results)
                        self.assertIn(algorithm, results[0][1])

    def crossing(self, network, hosts, ranks, collective, size):
        """Bytes that leave all hosts in one call: what a run of more calls sends more."""
        sent = []
        few, many = 4, 16
        for iterations in (few, many):
            program = [PEAL, "bench", collective, "-b", str(size), "-e", str(size), "--out-of-place", "--iters", str(iterations), "--warmup", "0"]
            before = sum(network.sent())
            self.assert_good(self.ends(self.job(network, hosts, ranks, program)))
            sent.append(sum(network.sent()) - before)
        return (sent[1] - sent[0]) / ((many + many // 2) - (few + few // 2))  # with aligned starts, and in a loop

    def assert_fewest_cross(self, count, each, expected):
        size = 1 << 20
        with Network(count) as network:
            hosts = [f"192.168.77.{i + 1}" for i in range(count)]
            for collective, blocks in expected.items():
                with self.subTest(collective=collective):
                    # Fewer bytes than there are cannot cross: then the run of few calls sent something twice, and both are run anew.
                    for _ in range(3):
                        crossed = self.crossing(network, hosts, count * each, collective, size) / size
                        if crossed > 0.99 * blocks:
                            break
                    print(f"{collective} on {count} hosts of {each}: {crossed:.3f} times its size crosses, the fewest are {blocks:.3f}", file=sys.stderr)
                    self.assertGreater(crossed, 0.99 * blocks, "less than can be")
                    self.assertLess(crossed, 1.08 * blocks, "headers and acknowledgements are a few per cent")

    def test_each_byte_crosses_between_two_hosts_as_rarely_as_can_be(self):
        self.assert_fewest_cross(2, 2, {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "broadcast": 1, "reduce": 1, "gather": 1 / 2,
                                        "scatter": 1 / 2, "all_to_all": 2})

    def test_each_byte_crosses_between_three_hosts_as_rarely_as_can_be(self):
        self.assert_fewest_cross(3, 2, {"all_reduce": 4, "all_gather": 2, "reduce_scatter": 2, "broadcast": 2, "reduce": 2})

    def test_each_byte_crosses_between_four_hosts_as_rarely_as_can_be(self):
        self.assert_fewest_cross(4, 2, {"all_reduce": 6, "broadcast": 3, "reduce": 3})

    def test_each_byte_crosses_between_three_hosts_of_three_as_rarely_as_can_be(self):
        self.assert_fewest_cross(3, 3, {"broadcast": 2, "reduce": 2})

    def test_two_hosts_v6(self):
        with Network(2) as network:
            hosts = ["fd00:77::1", "fd00:77::2"]
            self.assert_good(self.ends(self.job(network, hosts, 4, self.bench(), root="[fd00:77::1]:29600")))

    def test_three_hosts(self):
        with Network(3) as network:
            hosts = [f"192.168.77.{i}" for i in (1, 2, 3)]
            for ranks in (3, 6):
                self.assert_good(self.ends(self.job(network, hosts, ranks, self.bench(largest="128K"))))
            for algorithm in ("leader_chain", "ring"):
                for collective in ("broadcast", "reduce"):
                    with self.subTest(algorithm=algorithm, collective=collective):
                        self.assert_good(self.ends(self.job(network, hosts, 6, [*self.bench(collective), "--algorithm", algorithm])))

    def test_hosts_that_share_a_rack_are_found(self):
        racks = [0, 1, 0, 1]
        with Network(4, racks=racks) as network:
            hosts = [f"192.168.77.{i + 1}" for i in range(4)]
            for _ in range(3):  # four hosts on a busy machine: a pair may be measured while others compute
                results = self.ends(self.job(network, hosts, 4, [PEAL, "topo", "--measure", "--json", "-"]))
                self.assert_good(results)
                found = json.loads("".join(line.removeprefix("[0] ") for line in results[0][1].splitlines(True)))
                if found["racks"]["rack_of_host"] == racks:
                    break
        self.assertEqual(found["racks"]["rack_of_host"], racks, found)
        self.assertGreater(found["racks"]["between_us"], 300)
        self.assertLess(found["racks"]["within_us"], 300)
        self.assertEqual(len(set(found["hosts"])), 4)

    def test_ranks_that_torchrun_starts_on_two_hosts(self):
        """Its environment alone; MASTER_PORT is held by its agent, as there."""
        with Network(2) as network:
            holder = "import socket, time; s = socket.create_server(('192.168.77.1', 29400)); print('held', flush=True); time.sleep(60)"
            agent = network.start(0, [sys.executable, "-c", holder])
            self.assertEqual(agent.stdout.readline().strip(), "held")
            processes = []
            for rank in range(4):
                environment = {"RANK": rank, "WORLD_SIZE": 4, "LOCAL_RANK": rank % 2, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "192.168.77.1",
                               "MASTER_PORT": 29400, "TORCHELASTIC_RUN_ID": "test", "TORCHELASTIC_RESTART_COUNT": 0, "PEAL_KEY_FILE": self.key}
                processes.append(network.start(rank // 2, self.bench(), {name: str(value) for name, value in environment.items()}))
            results = self.ends(processes)
            self.assert_good(results)
            self.assertIn("all_reduce over 4 ranks", results[0][1])

    def test_rings_go_rack_by_rack(self):
        """Four hosts that come in turn from two racks, as PEAL_RACK and as Slurm says."""
        slurm = {"SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node"}
        hosts = [f"192.168.77.{i + 1}" for i in range(4)]
        racks = {0: {"PEAL_RACK": "spine.left"}, 1: {**slurm, "SLURM_TOPOLOGY_ADDR": "spine.right.node1"},
                 2: {**slurm, "SLURM_TOPOLOGY_ADDR": "spine.left.node2"}, 3: {"PEAL_RACK": "spine.right"}}
        with Network(4) as network:
            for known, wanted in ((racks, ["2 racks are known; rings go through ranks 0, 1, 4, 5, 2, 3, 6, 7"]), ({0: racks[0]}, [])):
                environment = {host: {"PEAL_LOG_LEVEL": "info", **known.get(host, {})} for host in range(4)}
                program = [*self.bench(largest="8"), "--algorithm", "ring"]
                results = self.ends(self.job(network, hosts, 8, program, environment=environment))
                self.assert_good(results)
                said = re.findall(r"\d+ racks are known.*", results[0][2])
                self.assertEqual(said, wanted)

    def test_the_interface_is_chosen_and_explained(self):
        with Network(2) as network:
            info = {"PEAL_LOG_LEVEL": "info"}
            hosts = ["192.168.77.1", "192.168.77.2"]
            results = self.ends(self.job(network, hosts, 4, self.bench(largest="8"), environment={0: info, 1: info}))
            self.assert_good(results)
            for index, (_, _, err) in enumerate(results):
                self.assertIn(f"eth0 (192.168.77.{index + 1})", err)
                self.assertIn("tcp", err)
                self.assertIn("shm", err)
            for wish in ("eth1", None):
                chosen = {i: {**info, "PEAL_INTERFACE": wish or f"192.168.78.{i + 1}"} for i in (0, 1)}
                results = self.ends(self.job(network, hosts, 4, self.bench(largest="8"), environment=chosen))
                self.assert_good(results)
                for index, (_, _, err) in enumerate(results):
                    self.assertIn(f"eth1 (192.168.78.{index + 1})", err)
            nowhere = {i: {"PEAL_INTERFACE": "eth7"} for i in (0, 1)}
            for code, _, err in self.ends(self.job(network, hosts, 4, self.bench(largest="8"), environment=nowhere)):
                self.assertNotEqual(code, 0)
                self.assertIn("eth7", err)

    def rank_pids(self, network, host, program, count):
        """The pids of the ranks on a host, once there are `count` of them in their second second of running."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            pids = []
            for pid in network.pids(host):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        words = file.read().split(b"\0")
                    with open(f"/proc/{pid}/environ", "rb") as file:
                        environment = dict(word.split(b"=", 1) for word in file.read().split(b"\0") if b"=" in word)
                except OSError:
                    continue
                if len(words) > 1 and words[1] == program.encode() and b"PEAL_RANK" in environment:
                    pids.append((int(environment[b"PEAL_RANK"]), pid))
            if len(pids) == count:
                return dict(pids)
            time.sleep(0.05)
        self.fail("the ranks never started")

    def test_a_killed_rank_is_learnt_on_the_other_host_within_two_seconds(self):
        with Network(2) as network:
            hosts = ["192.168.77.1", "192.168.77.2"]
            program = [PEAL, "bench", "all_reduce", "-b", "1M", "-e", "1M", "--iters", "1000000"]
            processes = self.job(network, hosts, 4, program)
            pids = self.rank_pids(network, 1, "bench", 2)
            time.sleep(2.5)
            begin = time.monotonic()
            os.kill(pids[3], signal.SIGKILL)
            out, err = processes[0].communicate(timeout=LIMIT)
            took = time.monotonic() - begin
            self.assertNotEqual(processes[0].returncode, 0)
            self.assertIn(f"rank 3 (pid {pids[3]}", out + err)
            # Two seconds to learn it; peal run may take a moment more to end the ranks.
            self.assertLess(took, 4.0, err)
            print(f"a death on the other host ended this one after {took:.2f} s", file=sys.stderr)
            self.assertNotEqual(self.ends([processes[1]])[0][0], 0)

    def assert_all_hosts_learn(self, count, ranks, victim, how, words, limit):
        """One rank is stopped or killed: `peal run` names it on every host, on the others within `limit` seconds, and leaves nothing."""
        with Network(count) as network:
            hosts = [f"192.168.77.{i + 1}" for i in range(count)]
            program = [PEAL, "bench", "all_reduce", "-b", "1M", "-e", "1M", "--iters", "1000000"]
            processes = self.job(network, hosts, ranks, program)
            each = ranks // count
            pids = {rank: pid for host in range(count) for rank, pid in self.rank_pids(network, host, "bench", each).items()}
            time.sleep(2.5)
            # Nobody comes through a call without the last rank, so that the victim is in one and not between two.
            os.kill(pids[ranks - 1], signal.SIGSTOP)
            time.sleep(0.2)
            begin = time.monotonic()
            os.kill(pids[victim], how)
            os.kill(pids[ranks - 1], signal.SIGCONT)
            home = victim // each
            sentences = set()
            # The host of the victim last: its launcher gives a stopped rank three seconds before it ends it.
            for host in [*(h for h in range(count) if h != home), home]:
                out, err = processes[host].communicate(timeout=LIMIT)
                took = time.monotonic() - begin
                self.assertNotEqual(processes[host].returncode, 0, out + err)
                said = re.findall(rf"rank {victim} \(pid {pids[victim]} on [^)]*\) {words}.*", err)
                self.assertTrue(said, f"on host {host}: {err}")
                sentences.update(said)
                print(f"rank {victim} {how.name}: host {host} of {count} ended after {took:.2f} s", file=sys.stderr)
                if host != home:
                    self.assertLess(took, limit, err)
            self.assertEqual(len(sentences), 1, "every rank on every host reports the same")
            self.assertIn("inside all_reduce of ", *sentences)
            for host in range(count):
                self.assertEqual(network.pids(host), [])

    def test_a_stopped_rank_zero_is_learnt_on_the_other_host(self):
        self.assert_all_hosts_learn(2, 4, 0, signal.SIGSTOP, "is stopped", 5.0)

    def test_a_stopped_rank_zero_is_learnt_on_both_other_hosts(self):
        self.assert_all_hosts_learn(3, 6, 0, signal.SIGSTOP, "is stopped", 5.0)

    def test_a_stopped_deputy_is_learnt_on_both_other_hosts(self):
        self.assert_all_hosts_learn(3, 6, 2, signal.SIGSTOP, "is stopped", 5.0)

    def test_a_killed_rank_zero_is_learnt_on_both_other_hosts(self):
        self.assert_all_hosts_learn(3, 6, 0, signal.SIGKILL, "ended", 4.0)

    def test_without_a_second_star_the_job_starts_and_says_what_is_lost(self):
        with Network(2) as network:
            hosts = ["192.168.77.1", "192.168.77.2"]
            few = ["sh", "-c", 'ulimit -n 100; exec "$@"', "few", *self.bench(largest="8")]
            begin = time.monotonic()
            processes = self.job(network, hosts, 4, self.bench(largest="8"), only=[0]) + self.job(network, hosts, 4, few, only=[1])
            results = self.ends(processes)
            took = time.monotonic() - begin
            self.assert_good(results)
            self.assertRegex(results[0][2], r"warn.*rank 2 \(pid \d+ on [^)]*\) could not become the second hub.*ulimit -n")
            self.assertNotIn("second hub", results[1][2])
            self.assertLess(took, 8, "they waited for a hub that had said that it is none")

    def test_gathers_with_several_roots_are_a_mismatch_on_both_hosts(self):
        with Network(2) as network:
            hosts = ["192.168.77.1", "192.168.77.2"]
            for collective in ("gather", "gather_v"):
                with self.subTest(collective=collective):
                    begin = time.monotonic()
                    processes = []
                    for index in (0, 1):
                        processes += self.job(network, hosts, 2, [*self.bench(collective), "--root", str(index)], only=[index])
                    sentences = set()
                    for code, out, err in self.ends(processes):
                        self.assertNotEqual(code, 0, out + err)
                        said = re.findall(rf"rank \d called {collective} .* with root \d.* while this rank called {collective} .* with root \d", err)
                        self.assertTrue(said, err)
                        sentences.update(said)
                    self.assertEqual(len(sentences), 1, "both report the same")
                    self.assertLess(time.monotonic() - begin, 10)

    def test_nothing_is_left(self):
        with Network(2) as network:
            self.assert_good(self.ends(self.job(network, ["192.168.77.1", "192.168.77.2"], 2, self.bench(largest="8"))))
            for host in (0, 1):
                self.assertEqual(network.pids(host), [])
            made = list(network.made)
        names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, timeout=20, check=False).stdout
        for name in made:
            self.assertNotIn(name, names)


class WaitingForHosts(OnHosts):
    """These wait for nearly all of their time."""

    def test_a_wrong_key_is_refused(self):
        with Network(2) as network:
            short = {"PEAL_START_TIMEOUT": "5"}
            results = self.ends(
                self.job(
                    network,
                    ["192.168.77.1", "192.168.77.2"],
                    4,
                    self.bench(largest="8"),
                    keys={1: self.new_key("other.key")},
                    environment={0: short, 1: short},
                )
            )
            for code, out, err in results:
                self.assertNotEqual(code, 0, out + err)
            self.assertIn("key", results[1][2])

    def ends_alone(self, index):
        """What a host of two says of which the other never comes."""
        with Network(2) as network:
            begin = time.monotonic()
            hosts = ["192.168.77.1", "192.168.77.2"]
            job = self.job(network, hosts, 4, self.bench(largest="8"), only=[index], environment={index: {"PEAL_START_TIMEOUT": "3"}})
            code, out, err = self.ends(job)[0]
            self.assertLess(time.monotonic() - begin, 20)
            self.assertNotEqual(code, 0, out + err)
            return err

    def test_a_host_that_never_comes_is_named(self):
        err = self.ends_alone(0)
        self.assertRegex(err, r"2.*3")  # the ranks of the missing host
        self.assertIn("PEAL_START_TIMEOUT", err)

    def test_no_root_is_named(self):
        self.assertIn("192.168.77.1", self.ends_alone(1))


if __name__ == "__main__":
    PEAL = os.path.abspath(sys.argv.pop(1))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that networks are taken down
    unittest.main(verbosity=2)
