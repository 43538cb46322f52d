#!/usr/bin/env python3
"""peal tune: measures real ranks, writes a table, and the table chooses."""
import json

import harness

QUICK = ("tune", "--ranks", "2", "--collectives", "all_reduce,barrier", "--largest", "2K", "--budget", "0.5")


class Tune(harness.ToolCase):
    deadline_s = 120

    def tuned(self, *words):
        table = self.folder / "table.json"
        return table, self.assert_right(self.peal(*QUICK, "--out", table, *words))

    def test_the_table_chooses_and_explain_says_so(self):
        table, done = self.tuned("--check", "--json", "all.json")
        self.assertIn("round 1 done", done.err)
        self.assertRegex(done.out, r"of \d+ cases that were kept out")
        ways = json.loads(table.read_text())["ways"]
        self.assertEqual({way["collective"] for way in ways}, {"all_reduce", "barrier"})
        self.assertEqual({way["ranks"] for way in ways}, {2})
        self.assertEqual(json.loads((self.folder / "all.json").read_text())["schema"], "peal.tune/1")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["all.json", "table.json"])
        # A way that is measured as fastest is taken by a real run, whatever the model thinks.
        text = json.loads(table.read_text())
        for way in text["ways"]:
            if way["collective"] == "all_reduce" and (way["algorithm"], way["protocol"]) == ("ring", "staged"):
                key = "bytes_us_spread_exchange_repeats"
                way[key] = [[size, 0.001, 0, ns, repeats] for size, _, _, ns, repeats in way[key]]
        table.write_text(json.dumps(text))
        env = {"PEAL_TUNING": table}
        for use, chooser in ((env, "measurement"), ({"PEAL_TUNING": "off"}, "model")):
            said = json.loads(self.assert_right(self.peal("explain", "all_reduce", "--bytes", "512", "-n", 2, "--json", "-", env=use)).out)
            self.assertEqual(said["chosen_by"], chooser)
            ran = json.loads(self.assert_right(self.peal("bench", "all_reduce", "-n", 2, "-b", 512, "-e", 512, "--check", "--json", "-", env=use)).out)
            self.assertEqual(ran["rows"][0]["algorithm"] == "ring", chooser == "measurement", ran)
            self.assertEqual(ran["rows"][0]["out_of_place"]["wrong"], 0)

    def test_what_was_measured_before_is_kept(self):
        table, _ = self.tuned()
        before = [way for way in json.loads(table.read_text())["ways"] if way["collective"] == "all_reduce"]
        self.assert_right(self.peal("tune", "--ranks", "2", "--collectives", "barrier", "--budget", "0.1", "--out", table))
        after = [way for way in json.loads(table.read_text())["ways"] if way["collective"] == "all_reduce"]
        self.assertEqual(before, after)

    def test_ranks_start_with_a_table_of_any_size(self):
        table, _ = self.tuned()
        text = json.loads(table.read_text())
        for way in text["ways"]:
            way["bytes_us_spread_exchange_repeats"] = [[8 * (i + 1), 1.25, 0.25, 60, 3] for i in range(2000)]
        table.write_text(json.dumps(text))
        self.assertGreater(table.stat().st_size, 1 << 18, "more than one message of the ranks' meeting carries")
        ran = json.loads(self.assert_right(self.peal("bench", "all_reduce", "-n", 2, "-b", 512, "-e", 512, "--check", "--json", "-", env={"PEAL_TUNING": table})).out)
        self.assertEqual(ran["rows"][0]["out_of_place"]["wrong"], 0)

    def test_a_table_of_another_host_is_moved_aside_and_never_used(self):
        table, _ = self.tuned()
        text = json.loads(table.read_text())
        text["host"] = "another host"
        table.write_text(json.dumps(text))
        said = self.assert_right(self.peal("explain", "all_reduce", "--bytes", "512", "-n", 2, env={"PEAL_TUNING": table})).out
        self.assertIn("measured on another host (another host", said)
        _, done = self.tuned()
        self.assertIn("table.json.old", done.err)
        self.assertEqual(json.loads((self.folder / "table.json.old").read_text())["host"], "another host")

    def test_predictions_are_held_against_calls_that_are_made_now(self):
        table = self.folder / "table.json"
        self.assert_right(self.peal("tune", "--ranks", 2, "--collectives", "all_reduce,all_gather", "--largest", "2K", "--budget", "0.5", "--out", table))
        text = json.loads(table.read_text())
        env = {"PEAL_TUNING": table}
        check = ("validate", "--host", "--transport", "shm", "--collectives", "all_to_all", "--budget", "1", "--json", "cells.json")
        if not text["constants"]:  # one core, or it was moved all the time
            return self.assert_refused(self.peal(*check, env=env), code=2)
        self.assertEqual({c["ranks"] for c in text["constants"]}, {2})
        done = self.peal(*check, "--bound", "99999,99999", env=env)
        cells = json.loads((self.folder / "cells.json").read_text())["cells"]
        self.assertEqual(done.code, 0 if any(cell["predicted_us"] > 0 for cell in cells) else 1)
        self.assertIn("the same call twice differs by", done.out)
        self.assertEqual({cell["collective"] for cell in cells} - {"all_to_all"}, set())

    def test_predictions_of_this_host_bad_input(self):
        for words, needle in ((("-n", 1000), "they take turns"), (("-n", 1), "--ranks 1"), (("--budget", 0), "--budget"), (("--bound", "3"), "15,30"),
                              (("--transport", "ofi"), "shm or tcp"), (("--collectives", "send_recv"), "leave it out"), (("--fit", "x"), "--fit")):
            self.assert_refused(self.peal("validate", "--host", *words), needle, code=2)
        self.assert_refused(self.peal("validate", "--host", env={"PEAL_TUNING": "off"}), "peal tune --ranks 2", code=2)
        self.assert_refused(self.peal("validate"), "peal validate --host", code=2)
        self.assert_refused(self.peal("explain", "all_reduce", "--bytes", 8, "-n", 2, "--cores", "close"), "siblings, near or far", code=2)
        self.assert_refused(self.peal("explain", "all_reduce", "--bytes", 8, "--machine", "dgx-h100", "--cores", "near"), "--cores", code=2)

    def test_bad_input(self):
        for words, needle in ((("--budget", "0"), "--budget"), (("--ranks", "1"), "--ranks"), (("--ranks", "x"), "--ranks"), (("--largest", "3"), "--largest"),
                              (("--collectives", "send_recv"), "leave it out"), (("--collectives", "all_reduced"), "all_reduced"), (("--transport", "x"), "transport"),
                              (("--out", ""), "--out")):
            self.assert_refused(self.peal("tune", *words), needle, code=2)
        broken = self.folder / "broken.json"
        broken.write_text("{}")
        for words in (("explain", "all_reduce", "--bytes", "8", "-n", 2), ("bench", "all_reduce", "-n", 2, "-e", "8")):
            done = self.peal(*words, env={"PEAL_TUNING": broken})
            self.assertNotEqual(done.code, 0)
            self.assertIn("broken.json does not parse", done.err)
            self.assertIn("peal tune", done.err)


if __name__ == "__main__":
    harness.main()
