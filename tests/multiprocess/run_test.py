#!/usr/bin/env python3
"""`peal run`: environment, labels, exit codes, signals, and that nothing outlives it."""
import collections
import os
import pathlib
import platform
import signal
import sys
import time
import unittest

import harness
from harness import options

PREFERRED = r"^prefer( \(many\))?:[0-9]+$"
# Programs that start another one, as numactl and a container's seccomp filter would (numbers of x86-64).
INTERLEAVED = """
import ctypes, os, sys
nodes = ctypes.c_ulong(1)
assert ctypes.CDLL(None).syscall(238, 3, ctypes.byref(nodes), 64) == 0  # set_mempolicy(MPOL_INTERLEAVE)
os.execv(sys.argv[1], sys.argv[1:])
"""
FILTERED = """
import ctypes, os, struct, sys
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 238), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)]  # set_mempolicy: EPERM, else allowed
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


class Run(harness.ToolCase):
    deadline_s = 30

    def sh(self, ranks: int, script: str, *words, **options):
        return self.peal("run", "-n", ranks, *words, "--", "sh", "-c", script, **options)

    def start_sh(self, ranks: int, script: str, *words):
        return self.start("run", "-n", ranks, *words, "--", "sh", "-c", script)

    def wait_for_line(self, process, text: str) -> None:
        line = process.stdout.readline()
        self.assertIn(text, line)

    def test_every_rank_knows_its_place(self):
        done = self.assert_right(self.sh(3, 'echo "$PEAL_RANK $PEAL_SIZE $PEAL_LOCAL_RANK ${PEAL_ROOT%%:*}"'))
        self.assertEqual(sorted(done.out.splitlines()), [f"[{r}] {r} 3 {r} unix" for r in range(3)])

    def test_labels_on_both_streams_and_lines_stay_whole(self):
        done = self.assert_right(self.sh(2, 'for i in 1 2 3 4 5; do printf one; printf " line $i\\n"; echo "err $i" >&2; done'))
        for rank in (0, 1):
            self.assertEqual([l for l in done.out.splitlines() if l.startswith(f"[{rank}] ")], [f"[{rank}] one line {i}" for i in range(1, 6)])
            self.assertEqual([l for l in done.err.splitlines() if l.startswith(f"[{rank}] ")], [f"[{rank}] err {i}" for i in range(1, 6)])

    def test_no_label(self):
        self.assertEqual(self.assert_right(self.sh(2, "echo plain", "--no-label")).out, "plain\nplain\n")

    def test_a_last_line_without_newline_is_kept(self):
        self.assertEqual(self.assert_right(self.sh(1, "printf end")).out.strip(), "[0] end")

    def test_much_output_arrives_whole(self):
        done = self.assert_right(self.sh(2, "seq 1 20000"))
        for rank in (0, 1):
            self.assertEqual([l.split()[1] for l in done.out.splitlines() if l.startswith(f"[{rank}]")], [str(i) for i in range(1, 20001)])

    def test_input_is_empty(self):
        self.assert_right(self.sh(1, "! read line"))

    def test_arguments_pass_unchanged(self):
        done = self.assert_right(self.peal("run", "-n", 1, "--", "printf", "%s|", "a b", "--json", "-n", ""))
        self.assertEqual(done.out.strip(), "[0] a b|--json|-n||")

    def test_all_right_is_silent(self):
        self.assertEqual(self.assert_right(self.peal("run", "-n", 4, "--", "true")).err, "")

    def test_exit_code_of_the_rank_that_failed_first(self):
        done = self.sh(3, "if [ $PEAL_RANK = 1 ]; then exit 7; else sleep 0.5; exit 9; fi")
        self.assert_refused(done, "rank 1", "exit code 7", code=7)

    def test_a_rank_killed_by_a_signal(self):
        done = self.sh(2, "if [ $PEAL_RANK = 1 ]; then kill -9 $$; else sleep 0.5; fi")
        self.assert_refused(done, "rank 1", "killed by Killed", code=137)

    def test_a_rank_that_fails_ends_the_others(self):
        began = time.monotonic()
        self.assert_refused(self.sh(3, "if [ $PEAL_RANK = 2 ]; then exit 4; else exec sleep 300; fi"), "rank 2", code=4)
        self.assertLess(time.monotonic() - began, 10)

    def test_others_that_ignore_term_and_are_stopped_end_too(self):
        script = "case $PEAL_RANK in 0) exit 5;; 1) trap '' TERM; while :; do sleep 0.1; done;; 2) kill -STOP $$;; esac"
        self.assert_refused(self.sh(3, script), "rank 0", code=5)

    def test_timeout(self):
        began = time.monotonic()
        self.assert_refused(self.peal("run", "-n", 2, "--timeout", 0.5, "--", "sleep", 300), "0.5 s", "--timeout", code=124)
        self.assertLess(time.monotonic() - began, 5)

    def test_timeout_of_ranks_that_ignore_term(self):
        self.assert_refused(self.sh(2, "trap '' TERM; while :; do sleep 0.1; done", "--timeout", 0.5), "0.5 s", code=124)

    def test_signals_reach_the_ranks(self):
        for number, name in ((signal.SIGTERM, "TERM"), (signal.SIGINT, "INT"), (signal.SIGHUP, "HUP")):
            process = self.start_sh(1, f"trap 'echo got {name}; exit 0' {name}; echo ready; while :; do sleep 0.05; done")
            self.wait_for_line(process, "ready")
            process.send_signal(number)
            done = self.finish(process)
            self.assertIn(f"got {name}", done.out)
            self.assertEqual(done.code, 128 + number, done)
            self.assertIn(f"peal run: stopped by signal {int(number)}", done.err.splitlines()[-1])
            self.assert_nothing_left(done.pid)

    def test_ctrl_c_ends_ranks_that_do_not_listen(self):
        process = self.start_sh(2, "trap '' INT TERM; echo ready; while :; do sleep 0.05; done")
        self.wait_for_line(process, "ready")
        process.send_signal(signal.SIGINT)
        self.assert_refused(self.finish(process), "signal 2", code=130)
        self.assert_nothing_left(process.pid)

    def test_a_second_ctrl_c_kills_at_once(self):
        process = self.start_sh(1, "trap '' INT TERM; echo ready; while :; do sleep 0.05; done")
        self.wait_for_line(process, "ready")
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        self.assert_refused(self.finish(process), code=130)
        self.assertLess(time.monotonic() - began, 2)

    def test_what_ranks_start_dies_with_them(self):
        for ending in ("exit 0", "exit 3"):
            done = self.sh(2, f"sleep 300 >/dev/null 2>&1 & {ending}")
            self.assertEqual(done.code, int(ending[-1]), done)

    def test_a_grandchild_that_holds_the_output_does_not_hold_the_launcher(self):
        began = time.monotonic()
        self.assert_right(self.sh(1, "sleep 300 & exit 0"))
        self.assertLess(time.monotonic() - began, 5)

    def test_a_launcher_that_is_killed_takes_its_ranks_along(self):
        process = self.start("run", "-n", 3, "--no-label", "--", "sh", "-c", "echo ready; exec sleep 300")
        for _ in range(3):
            self.wait_for_line(process, "ready")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self.assert_nothing_left(process.pid)

    def test_a_program_that_is_not_there(self):
        self.assert_refused(self.peal("run", "-n", 2, "--", "no-such-program"), "no-such-program", "No such file", "check the path", code=2)

    def test_a_program_that_may_not_run(self):
        self.assert_refused(self.peal("run", "-n", 2, "--", self.folder), str(self.folder), "Permission denied")

    def test_ranks_are_bound_to_cores_of_their_own(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one core")
        command = "grep Cpus_allowed_list /proc/self/status | cut -f2"
        out = self.assert_right(self.sh(2, command, "--no-label")).out.split()
        self.assertEqual(len(set(out)), 2, out)
        self.assertTrue(all(word.isdigit() for word in out), out)
        ranks = 2 * len(os.sched_getaffinity(0))
        lines = self.assert_right(self.sh(ranks, f"echo $PEAL_RANK $({command})", "--no-label")).out.splitlines()
        crowded = [core for _, core in sorted(map(str.split, lines), key=lambda words: int(words[0]))]
        self.assertEqual(set(collections.Counter(crowded).values()), {2}, crowded)
        self.assertEqual(crowded[0::2], crowded[1::2], "neighbours share a core")
        free = self.assert_right(self.sh(2, command, "--no-label", "--no-bind")).out.split()
        self.assertEqual(len(set(free)), 1, free)

    def policy_of_a_rank(self, prefix=(), env=None) -> tuple[str, str]:
        """Memory policies of all mappings of a rank, and what the launcher said of memory."""
        script = "sed -E 's/^[0-9a-f]+ //; s/ (file|anon|heap|stack|mapped|kernelpagesize).*//' /proc/self/numa_maps | sort -u"
        done = self.assert_right(self.sh(1, script, "--no-label", env={"PEAL_LOG_LEVEL": "info", **(env or {})}, prefix=prefix))
        return ";".join(done.out.splitlines()), done.err

    def policies_or_skip(self) -> str:
        policy, said = self.policy_of_a_rank()
        if "refuses" in said or not policy:
            self.skipTest(f"no memory policies here: {said}")
        return policy

    def test_memory_is_preferred_in_the_domain_of_the_core(self):
        self.assertRegex(self.policies_or_skip(), PREFERRED)
        job = self.start("run", "-n", 2, "--", options.tool, "bench", "all_reduce", "-b", "4M", "-e", "4M", "--iters", "1000000", "--zero-copy")
        pid = self.rank_pid(1)
        deadline = time.monotonic() + 10
        while "peal-buffer" not in (maps := pathlib.Path(f"/proc/{pid}/numa_maps").read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        job.send_signal(signal.SIGINT)
        job.wait(10)
        heap = () if harness.is_sanitized() else ("heap",)
        for part in (*heap, "stack", "memfd:peal-communicator", "memfd:peal-buffer"):
            lines = [line for line in maps.splitlines() if part in line]
            self.assertTrue(lines, part)
            for line in lines:
                self.assertRegex(line.split(" ", 1)[1].split(f" {'file=/' if 'memfd' in part else ''}{part}")[0], PREFERRED)

    @unittest.skipUnless(platform.machine() == "x86_64", "numbers of x86-64")
    def test_memory_is_left_where_it_is_not_to_be_bound_or_somebody_else_has_bound_it(self):
        self.policies_or_skip()
        self.assertEqual(self.policy_of_a_rank(env={"PEAL_BIND_MEMORY": "0"}), ("default", ""))
        policy, said = self.policy_of_a_rank(prefix=(sys.executable, "-c", INTERLEAVED))
        self.assertRegex(policy, "^interleave:[0-9]+$")
        self.assertIn("a policy is set already", said)
        self.assert_refused(self.sh(1, "true", env={"PEAL_BIND_MEMORY": "perhaps"}), "PEAL_BIND_MEMORY", code=2)

    @unittest.skipUnless(platform.machine() == "x86_64", "numbers of x86-64")
    def test_a_kernel_that_refuses_memory_policies_is_no_failure(self):
        policy, said = self.policy_of_a_rank(prefix=(sys.executable, "-c", FILTERED))
        self.assertIn(policy, ("default", ""))
        self.assertEqual(said.count("the kernel refuses to set a memory policy (Operation not permitted"), 1, said)

    def test_several_hosts_say_what_to_type_on_each(self):
        done = self.peal("run", "-n", 4, "--hosts", "10.0.0.1,10.0.0.2", "--", "true")
        self.assertEqual(done.code, 2, done)
        for index, host in enumerate(("10.0.0.1", "10.0.0.2")):
            self.assertIn(f"on {host}: peal run -n 4 --hosts 10.0.0.1,10.0.0.2 --host-index {index}", done.err)
        self.assert_refused(self.peal("run", "-n", 3, "--hosts", "10.0.0.1,10.0.0.2", "--", "true"), "3 ranks", "multiple of 2", code=2)


if __name__ == "__main__":
    harness.main()
