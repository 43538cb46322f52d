#!/usr/bin/env python3
"""peal doctor on recorded hosts and on this one, and peal topo --measure: exit codes, sentences, JSON."""
import json

import harness


class Doctor(harness.ToolCase):
    def record(self, **files) -> str:
        """A host with one NIC in a slot, and nothing wrong unless a file says so."""
        root = self.folder / "host"
        slot = "sys/devices/pci0000:00/0000:00:01.0"
        tree = {f"{part}/{which}": text for part in (slot, f"{slot}/0000:01:00.0")
                for which, text in (("current_link_speed", "16.0 GT/s PCIe"), ("max_link_speed", "16.0 GT/s PCIe"), ("current_link_width", "16"), ("max_link_width", "16"))}
        tree |= {"sys/class/net/eth0/type": "1", "sys/class/net/eth0/operstate": "up", "sys/class/net/eth0/speed": "100000", "proc/cpuinfo": "model name : A"}
        tree |= {name.replace("WIDTH", f"{slot}/0000:01:00.0/current_link_width"): text for name, text in files.items()}
        for name, text in tree.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n")
        (root / "sys/class/net/eth0/device").symlink_to(root / slot / "0000:01:00.0")
        return str(root)

    def test_a_host_with_nothing_wrong_ends_with_0(self):
        done = self.assert_right(self.peal("doctor", "--root", self.record()))
        self.assertIn("Nothing is wrong that can be seen.", done.out)

    def test_a_finding_is_one_sentence_and_ends_with_1(self):
        root = self.record(WIDTH="8")
        done = self.peal("doctor", "--root", root)
        self.assertEqual(done.code, 1, done)
        self.assertIn("NIC eth0 (0000:01:00.0): PCIe x8 instead of x16, half the host bandwidth (15.8 of 31.5 GB/s each way): reseat", done.out)
        report = json.loads(self.peal("doctor", "--root", root, "--json", "-").out)
        self.assertEqual((report["schema"], report["ok"]), ("peal.doctor/1", False))
        finding = report["findings"][0]
        self.assertEqual((finding["id"], finding["weight"]), ("pcie-narrow", "wrong"))
        for key in ("subject", "what", "consequence", "mend", "sentence", "source"):
            self.assertTrue(finding[key], key)
        self.assertIn("read from", finding["source"])

    def test_this_host_is_examined_recorded_and_examined_again(self):
        here = self.peal("doctor", "--json", "-")
        self.assertIn(here.code, (0, 1), here)
        self.assert_right(self.peal("doctor", "--record", self.folder / "copy"))
        copy = json.loads(self.peal("doctor", "--root", self.folder / "copy", "--json", "-").out)
        tried = ("shared-memory", "cross-memory", "nvlink-down", "nvlink-errors")
        self.assertEqual([f["id"] for f in copy["findings"] if f["id"] not in tried], [f["id"] for f in json.loads(here.out)["findings"] if f["id"] not in tried])

    def test_a_message_that_is_too_small_is_said(self):
        words = ("doctor", "--root", self.record(), "--machine", "dgx-h100", "--collective", "all_reduce")
        done = self.peal(*words, "--bytes", "64")
        self.assertEqual(done.code, 1, done)
        self.assertIn("small-message", done.out)
        self.assertIn("on it is worth it", done.out)
        self.assert_right(self.peal(*words, "--bytes", "64M"))

    def test_more_ranks_than_cores_are_said(self):
        done = self.peal("doctor", "--ranks", 4000)
        self.assertEqual(done.code, 1, done)
        self.assertIn("few-cores", done.out)

    def test_the_list_holds_every_name(self):
        done = self.assert_right(self.peal("doctor", "--list"))
        page = (harness.ROOT / "docs" / "guide" / "doctor.md").read_text()
        for line in page.splitlines():
            if line.startswith("| `"):
                self.assertIn(line.split("`")[1], done.out)

    def test_wrong_words_are_refused(self):
        self.assert_refused(self.peal("doctor", "--root", self.folder / "none"), "sys/", code=2)
        self.assert_refused(self.peal("doctor", "--bytes", "4K"), "--collective", code=2)
        self.assert_refused(self.peal("doctor", "--ranks", -1), "--ranks", code=2)
        self.assert_refused(self.peal("doctor", "--record", "x", "--root", "y"), "--record", code=2)
        self.assert_refused(self.peal("topo", "--measure", "--machine", "dgx-h100"), "--measure", code=2)

    def test_measured_figures_stand_on_the_graph(self):
        graph = json.loads(self.assert_right(self.peal("topo", "--measure", "--json", "-")).out)
        for link in graph["links"]:
            if link["kind"] == "loopback":
                self.assertRegex(link["source"], r"^measured \d{4}-\d\d-\d\d")

    def test_pairs_of_ranks_are_measured(self):
        out = self.folder / "pairs.json"
        done = self.assert_right(self.peal("run", "-n", 2, "--no-label", "--", harness.options.tool, "topo", "--measure", "--json", out))
        self.assertIn("All ranks run on one host", done.out)
        pairs = json.loads(out.read_text())
        self.assertEqual((pairs["schema"], pairs["ranks"], pairs["host_of_rank"]), ("peal.pairs/1", 2, [0, 0]))
        self.assertGreater(pairs["latency_us"][0][1], 0)
        self.assertEqual(pairs["latency_us"][0][1], pairs["latency_us"][1][0])
        self.assertGreater(pairs["GBps"][1][0], 0)


if __name__ == "__main__":
    harness.main()
