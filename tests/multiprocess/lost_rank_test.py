#!/usr/bin/env python3
"""A rank that ends in the middle of a call, and Ctrl-C: the others say who was lost, the launcher gives the code, nothing stays."""
import os
import re
import signal
import time

import harness

LONG = "bench all_reduce -b 256K -e 256K --iters 1000000 --warmup 0"


class LostRank(harness.ToolCase):
    deadline_s = 30

    def start_job(self, transport: str, lost: int, ending: str):
        """Three ranks in an endless benchmark; rank `lost` runs it as a child and ends as `ending` says when that is killed."""
        script = f'if [ $PEAL_RANK = {lost} ]; then "$PEAL" {LONG} --transport {transport} & wait $!; {ending}; fi; ' \
                 f'exec "$PEAL" {LONG} --transport {transport}'
        return self.start("run", "-n", 3, "--", "sh", "-c", script)

    def lose(self, transport: str, ending: str) -> tuple[harness.Done, int]:
        process = self.start_job(transport, 1, ending)
        pids = [self.rank_pid(rank) for rank in range(3)]
        process.stdout.readline()  # rank 0 prints its table when all have met
        time.sleep(0.3)
        os.kill(pids[1], signal.SIGKILL)
        began = time.monotonic()
        done = self.finish(process)
        self.assertLess(time.monotonic() - began, 10)
        self.assert_nothing_left(process.pid)
        for rank in (0, 2):
            said = [line for line in done.err.splitlines() if line.startswith(f"[{rank}] ")]
            self.assertEqual(len(said), 1, done)
            self.assertRegex(said[0], rf"rank 1 \(pid {pids[1]}\b", done)
        last = done.err.splitlines()[-1]
        self.assertRegex(last, r"^peal run: rank \d \(pid \d+\) ended with exit code", done)
        return done, pids[1]

    def test_exit_code_0_in_the_middle(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport):
                self.assertEqual(self.lose(transport, "exit 0")[0].code, 1)

    def test_exit_code_3_in_the_middle(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport):
                done, _ = self.lose(transport, "exit 3")
                self.assertIn(done.code, (1, 3), done)  # who fails first: the rank itself, or one that saw it die

    def test_killed_in_the_middle(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport):
                process = self.start("bench", *LONG.split()[1:], "-n", 3, "--transport", transport)
                victim = self.rank_pid(2)
                process.stdout.readline()
                time.sleep(0.3)
                os.kill(victim, signal.SIGKILL)
                done = self.finish(process)
                self.assertEqual(done.code, 137, done)
                self.assertRegex(done.err, rf"rank 2 \(pid {victim}\) was killed by Killed", done)
                self.assert_nothing_left(process.pid)

    def test_a_rank_that_leaves_before_the_first_call(self):
        for ending, code in (("exit 0", 1), ("exit 3", 3)):
            done = self.peal("run", "-n", 2, "--", "sh", "-c", f'if [ $PEAL_RANK = 1 ]; then {ending}; fi; PEAL_START_TIMEOUT=2 exec "$PEAL" {LONG}')
            self.assertEqual(done.code, code, done)
            self.assertIn("rank 1", done.err)

    def test_ctrl_c_while_a_benchmark_runs(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport=transport):
                process = self.start("bench", *LONG.split()[1:], "-n", 3, "--transport", transport)
                for rank in range(3):
                    self.rank_pid(rank)
                process.stdout.readline()
                process.send_signal(signal.SIGINT)
                began = time.monotonic()
                self.assert_refused(self.finish(process), "signal 2", code=130)
                self.assertLess(time.monotonic() - began, 5)
                self.assert_nothing_left(process.pid)

    def test_a_timeout_ends_a_benchmark(self):
        began = time.monotonic()
        self.assert_refused(self.peal(*LONG.split(), "-n", 2, "--timeout", 1), "within 1 s", "--timeout", code=124)
        self.assertLess(time.monotonic() - began, 8)

    def test_a_launcher_that_is_killed_takes_a_benchmark_along(self):
        process = self.start("bench", *LONG.split()[1:], "-n", 3)
        process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self.assert_nothing_left(process.pid)

    def test_an_error_of_all_ranks_is_said_once(self):
        done = self.peal("bench", "all_reduce", "-n", 3, "-b", "64K", "-e", "64K", "--protocol", "line")
        self.assert_refused(done, "line", code=2)
        self.assertFalse(re.search(r"\n\s+\d+\s+\d+\s+f32", done.out), done)


if __name__ == "__main__":
    harness.main()
