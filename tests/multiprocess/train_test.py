#!/usr/bin/env python3
"""`peal train`: real processes, cut in every way, against the serial run; checkpoints; Ctrl-C; bad input."""
import json
import re
import signal
import time
import unittest

import harness

SMALL = ("--arithmetic", "plain", "--layers", "4", "--hidden", "16", "--seq", "16", "--steps", "2")


class Train(harness.ToolCase):
    deadline_s = 60

    def train(self, *words, env=None):
        return self.peal("train", *SMALL, *words, env=env)

    def test_cuts_over_2_4_and_8_processes_are_equal_to_the_serial_run(self):
        for words in ("--dp 2", "--tp 2 --sequence-parallel", "--pp 2 --pipeline zero-bubble", "--cp 2 --dp 2 --zero 3",
                      "--dp 2 --pp 2 --zero 1 --vpp 2", "--dp 2 --tp 2 --pp 2", "--dp 4 --tp 2 --zero 2 --sequence-parallel",
                      "--experts 4 --dp 4 --ep 2 --pp 2 --zero 1",
                      "--tie-embeddings --dp 2 --pp 2"):
            with self.subTest(words):
                done = self.assert_right(self.train(*words.split(), "--check", "--json", "-"))
                report = json.loads(done.out)
                self.assertEqual(report["schema"], "peal.train/1")
                self.assertEqual([step["step"] for step in report["steps"]], [1, 2])
                self.assertTrue(report["check"]["holds"])
                self.assertEqual(report["check"]["compared"], 2 * report["parameters"])
                self.assertLess(report["check"]["gradient"], report["check"]["tolerance"])

    def test_who_asked_for_plain_loops_is_not_told_what_to_install(self):
        for arithmetic in ("plain", "auto"):
            for more in ((), ("--async",)):
                done = self.assert_right(self.peal("train", "--arithmetic", arithmetic, "--layers", 1, "--steps", 1, *more))
                fell_back = arithmetic == "auto" and "arithmetic: plain loops" in done.out
                self.assertEqual("install libtorch-dev" in done.out, fell_back, done.out)

    def test_the_last_step_is_shown(self):
        done = self.assert_right(self.peal("train", *SMALL[:-1], 45))
        self.assertRegex(done.out, r"\n +44 .*\n +45 ")

    def test_over_sockets_it_is_the_same(self):
        done = self.assert_right(self.train("--dp", 2, "--pp", 2, "--check", env={"PEAL_TRANSPORT": "tcp"}))
        self.assertIn("the same", done.out)

    def test_a_checkpoint_goes_on_with_another_layout(self):
        whole = json.loads(self.assert_right(self.peal("train", *SMALL[:-1], 4, "--global-batch", 8, "--json", "-")).out)
        self.assert_right(self.train("--tp", 2, "--pp", 2, "--global-batch", 8, "--save", "m.peal"))
        rest = json.loads(self.assert_right(self.train("--dp", 2, "--zero", 3, "--global-batch", 8, "--resume", "m.peal", "--json", "-")).out)
        for found, wanted in zip(rest["steps"], whole["steps"][2:], strict=True):
            self.assertEqual(found["step"], wanted["step"])
            self.assertAlmostEqual(found["loss"], wanted["loss"], places=4)
        self.assertEqual([path.name for path in self.folder.iterdir()], ["m.peal"])
        self.assert_refused(self.train("--heads", 2, "--resume", "m.peal"), "another model", "--heads 4", code=2)
        (self.folder / "cut.peal").write_bytes((self.folder / "m.peal").read_bytes()[:-1])
        self.assert_refused(self.train("--dp", 2, "--resume", "cut.peal"), "cut off", "take another", code=1)

    def test_ctrl_c_saves_ends_and_leaves_nothing(self):
        process = self.start("train", *SMALL[:-1], 1000000, "--dp", 2, "--save", "m.peal", "--save-every", 1)
        give_up = time.monotonic() + 30
        while not (self.folder / "m.peal").exists() and time.monotonic() < give_up:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        done = self.finish(process)
        self.assertEqual(done.code, 130, done)
        self.assertRegex(done.out, r"stopped as asked after step \d+")
        self.assert_nothing_left(done.pid)
        steps = int(re.search(r"after step (\d+)", done.out)[1])
        self.assertIn(f"\nsteps {steps}\n", (self.folder / "m.peal").read_bytes()[:200].decode(errors="replace"))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["m.peal"])

    def test_asynchronous_workers_learn_and_keep_their_bound(self):
        done = self.assert_right(self.peal("train", *SMALL[:-1], 15, "--dp", 3, "--async", "--staleness", 1, "--straggler", 2, "--lr", 0.003))
        lead = int(re.search(r"largest lead over the slowest worker: (\d+) steps \(1 allowed\)", done.out)[1])
        self.assertLessEqual(lead, 1)
        first, last = map(float, re.search(r"learns from: ([\d.]+) at first, ([\d.]+) at the end", done.out).groups())
        self.assertLess(last, first - 0.3)

    def test_what_cannot_be_is_refused_before_ranks_start(self):
        for words, needles in (("--tp 3", ("4 attention heads", "--tp 2")), ("--pp 7", ("--pp 6",)), ("--zero 4", ("0, 1, 2 or 3",)), ("--bucket 0", ("--bucket 25M",)),
                               ("--global-batch 3 --dp 2", ("--global-batch",)), ("--hidden 30", ("--heads 4", "--hidden 28")),
                               ("--pipeline round", ("gpipe", "zero-bubble")), ("--async --tp 2", ("--dp 1",)),
                               ("--staleness 2", ("--async",)), ("--arithmetic abacus", ("torch or plain",)),
                               ("--save-every 2", ("--save FILE",)),
                               ("--dp 2 --ep 2", ("--experts 2",)), ("--tie-embeddings --dp 2 --zero 3", ("--zero 1",)), ("--experts 4 --chosen 5", ("--chosen 1 to 4",)),
                               ("--experts 3 --dp 2 --ep 2", ("--ep 1",)), ("--resume none.peal", ("none.peal",)), ("--save no/m.peal", ("no/m.peal",)),
                               ("--resume .", ("cannot read",)), ("--save .", ("is a folder",)), ("--resume /dev/zero", ("no checkpoint", "peal-checkpoint 1")),
                               ("--global-batch -1", ("give 1 or more",)), ("--micro-batch 2000000000", ("--micro-batch 2000000000", "give at most")),
                               ("--save-every -1 --save m.peal", ("--save-every -1",)), ("--lr nan", ("--lr nan", "give 0 to 1")), ("--ffn -5", ("--ffn -5: give 1",)),
                               ("--async --dp 2 --staleness -4", ("give 0 or more",)),
                               ("--hidden 1000000", ("GB at least", "smaller --hidden")), ("--layers 100000000", ("GB at least", "fewer --layers"))):
            with self.subTest(words):
                given = words.split()
                small = [word for option in zip(SMALL[::2], SMALL[1::2]) if option[0] not in given for word in option]
                self.assert_refused(self.peal("train", *small, *given), *needles, code=2)


if __name__ == "__main__":
    harness.main()
