#!/usr/bin/env python3
"""`peal bench` over real processes: every collective right, the JSON as promised, what is forced is taken or refused."""
import json
import pathlib
import re
import shutil

import harness

COLLECTIVES = ("all_reduce reduce_scatter all_gather broadcast reduce gather scatter all_to_all barrier send_recv all_gather_v reduce_scatter_v "
               "all_to_all_v gather_v scatter_v").split()
WITHOUT_IN_PLACE = ("all_to_all", "all_to_all_v", "send_recv", "barrier")
QUICKLY = ("--iters", 5, "--warmup", 1)


class Bench(harness.ToolCase):
    def rows(self, *words) -> list[dict]:
        return json.loads(self.assert_right(self.peal("bench", *words, *QUICKLY, "--json", "-")).out)["rows"]

    def assert_all_right(self, transport: str, ranks: int, *words, last: str = "64K") -> None:
        for collective in COLLECTIVES:
            with self.subTest(collective=collective, transport=transport, ranks=ranks):
                rows = self.rows(collective, "-n", ranks, "-b", 4, "-e", last, "-f", 32, "--check", "--transport", transport, *words)
                self.assertTrue(rows)
                for row in rows:
                    self.assertEqual(row["out_of_place"]["wrong"], 0, row)
                    if collective in WITHOUT_IN_PLACE:
                        self.assertIsNone(row["in_place"])
                    else:
                        self.assertEqual(row["in_place"]["wrong"], 0, row)

    def test_every_collective_on_shared_memory_1_rank(self):
        self.assert_all_right("shm", 1)

    def test_every_collective_on_shared_memory_2_ranks(self):
        self.assert_all_right("shm", 2)

    def test_every_collective_on_shared_memory_3_ranks(self):
        self.assert_all_right("shm", 3)

    def test_every_collective_on_shared_memory_4_ranks(self):
        self.assert_all_right("shm", 4)

    def test_every_collective_of_inputs_that_were_just_written(self):
        self.assert_all_right("shm", 3, "--rewrite", last="4K")

    def test_every_collective_over_tcp_2_ranks(self):
        self.assert_all_right("tcp", 2)

    def test_every_collective_over_tcp_3_ranks(self):
        self.assert_all_right("tcp", 3)

    def test_every_collective_out_of_pages_that_are_lent(self):
        """Inputs are written anew before each call: what was lent too long would arrive changed."""
        for ranks in (2, 3):
            for collective in COLLECTIVES:
                with self.subTest(collective=collective, ranks=ranks):
                    row = json.loads(self.assert_right(self.peal(
                        "bench", collective, "-n", ranks, "-b", "1M", "-e", "1M", "--check", "--rewrite", "--transport", "tcp", "--iters", 20,
                        "--json", "-", env={"PEAL_LEND_PAGES": "1"})).out)["rows"][0]
                    self.assertEqual(row["out_of_place"]["wrong"], 0, row)
                    self.assertEqual((row["in_place"] or {"wrong": 0})["wrong"], 0, row)

    def test_a_setting_of_lent_pages_that_is_not_known(self):
        done = self.peal("bench", "all_reduce", "-n", 2, "-e", 8, "--transport", "tcp", env={"PEAL_LEND_PAGES": "yes"})
        self.assertNotEqual(done.code, 0)
        self.assertIn("set it to auto, 1 or 0", done.err)

    def test_every_type_and_operator(self):
        for dtype in "f64 f32 f16 bf16 f8_e4m3fn f8_e5m2 i8 u8 i16 u16 i32 u32 i64 u64 bool".split():
            for op in "sum prod min max avg premul_sum band bor bxor".split():
                done = self.peal("bench", "all_reduce", "-n", 2, "-b", 1000, "-e", 1000, "--dtype", dtype, "--op", op, "--check", "--json", "-", *QUICKLY)
                if dtype[0] in "fb" and dtype != "bool" and op[0] == "b" or dtype == "bool" and op in ("avg", "premul_sum", "band", "bor", "bxor") and done.code == 2:
                    self.assert_refused(done, op, dtype, code=2)
                    continue
                row = json.loads(self.assert_right(done).out)["rows"][0]
                self.assertEqual((row["dtype"], row["op"], row["out_of_place"]["wrong"], row["in_place"]["wrong"]), (dtype, op, 0, 0))

    def test_every_root(self):
        for collective in ("broadcast", "reduce", "gather", "scatter", "gather_v", "scatter_v"):
            for root in range(3):
                for row in self.rows(collective, "-n", 3, "--root", root, "-b", 8, "-e", "8K", "-f", 1024, "--check"):
                    self.assertEqual((row["root"], row["out_of_place"]["wrong"], row["in_place"]["wrong"]), (root, 0, 0))

    def test_groups_run_side_by_side(self):
        report = json.loads(self.assert_right(self.peal("bench", "all_reduce", "-n", 4, "--groups", 2, "-e", "4K", "-f", 8, "--check", "--json", "-",
                                                        *QUICKLY)).out)
        self.assertEqual(report["ranks"], 2)
        self.assertEqual([row["out_of_place"]["wrong"] for row in report["rows"]], [0] * 4)

    def test_more_than_two_to_the_31_is_a_size_like_another(self):
        row = self.rows("broadcast", "-n", 1, "-b", "0", "-e", "0")[0]
        self.assertEqual(row["bytes"] // 4, row["count"])


class BenchJson(harness.ToolCase):
    def test_the_keys_are_those_that_are_promised(self):
        report = json.loads(self.assert_right(self.peal("bench", "all_reduce", "-n", 2, "-b", 8, "-e", 64, "-f", 8, "--check", "--json", "-", *QUICKLY)).out)
        self.assertEqual(list(report), ["schema", "collective", "ranks", "transport", "rows"])
        self.assertEqual([report[k] for k in ("schema", "collective", "ranks", "transport")], ["peal.bench/1", "all_reduce", 2, "shm"])
        self.assertEqual([row["bytes"] for row in report["rows"]], [8, 64])
        for row in report["rows"]:
            promised = ["bytes", "count", "dtype", "op", "root", "algorithm", "protocol", "predicted_us"]
            self.assertEqual([key for key in row if key in promised], promised)
            for half in ("out_of_place", "in_place"):
                self.assertEqual(list(row[half]), ["time_us", "p50_us", "p99_us", "algbw", "busbw", "wrong"])
                self.assertEqual([line > 0 for line in row["line_ns"][half]], [True, True])
            out = row["out_of_place"]
            self.assertEqual((row["count"], row["dtype"], row["op"], row["root"]), (row["bytes"] // 4, "f32", "sum", -1))
            self.assertGreater(row["predicted_us"], 0)
            self.assertLessEqual(out["p50_us"], out["p99_us"])
            self.assertAlmostEqual(out["algbw"], row["bytes"] / out["time_us"] / 1000, places=6)
            self.assertAlmostEqual(out["busbw"], out["algbw"], places=9)  # 2 (n - 1) / n is 1 for two ranks

    def test_it_is_said_that_inputs_were_just_written(self):
        self.assertTrue(json.loads(self.assert_right(self.peal("bench", "all_reduce", "-n", 2, "-e", 8, "--rewrite", "--json", "-", *QUICKLY)).out)["rewrite"])
        self.assertIn("written anew", self.assert_right(self.peal("bench", "all_reduce", "-n", 2, "-e", 8, "--rewrite", *QUICKLY)).out)

    def test_bus_bandwidth_of_three_ranks(self):
        for collective, factor in (("all_reduce", 4 / 3), ("all_gather", 2 / 3), ("reduce_scatter", 2 / 3), ("all_to_all", 2 / 3), ("broadcast", 1)):
            out = json.loads(self.assert_right(self.peal("bench", collective, "-n", 3, "-b", 6000, "-e", 6000, "--json", "-", *QUICKLY)).out)
            out = out["rows"][0]["out_of_place"]
            self.assertAlmostEqual(out["busbw"], out["algbw"] * factor, places=9)

    def test_a_file_and_the_table_at_once(self):
        path = self.folder / "out.json"
        done = self.assert_right(self.peal("bench", "all_gather", "-n", 2, "-e", 8, "--json", path, *QUICKLY))
        self.assertIn("algbw", done.out)
        self.assertIsNone(json.loads(path.read_text())["rows"][0]["out_of_place"]["wrong"])

    def test_only_one_half(self):
        for flag, there, absent in (("--in-place", "in_place", "out_of_place"), ("--out-of-place", "out_of_place", "in_place")):
            done = self.assert_right(self.peal("bench", "all_reduce", "-n", 2, "-e", 8, flag, "--check", "--json", "-", *QUICKLY))
            row = json.loads(done.out)["rows"][0]
            self.assertEqual(row[there]["wrong"], 0)
            self.assertIsNone(row[absent])


class Forced(harness.ToolCase):
    def test_every_algorithm_is_taken_as_it_was_asked_for(self):
        for collective, algorithms in (("all_reduce", "ring multi_ring one_shot two_shot star recursive_doubling rabenseifner tree binary_tree double_binary_tree"), ("all_gather", "ring direct star recursive_doubling bruck pat"),
                                       ("all_to_all", "all_pairs pairwise bruck"), ("reduce", "binary_tree double_binary_tree multi_ring"),
                                       ("all_gather_v", "ring multi_ring"), ("reduce_scatter_v", "ring multi_ring"),
                                       ("barrier", "direct star dissemination tree"), ("broadcast", "tree binary_tree double_binary_tree multi_ring")):
            for algorithm in algorithms.split():
                with self.subTest(collective=collective, algorithm=algorithm):
                    done = self.peal("bench", collective, "-n", 4, "-b", 8, "-e", "32K", "-f", 4096, "--algorithm", algorithm, "--check", "--json", "-", *QUICKLY)
                    for row in json.loads(self.assert_right(done).out)["rows"]:
                        self.assertEqual((row["algorithm"], row["out_of_place"]["wrong"]), (algorithm, 0))

    def test_the_transport_of_the_settings_is_taken_unless_another_is_asked_for(self):
        for words, expected in (((), "tcp"), (("--transport", "shm"), "shm")):
            done = self.peal("bench", "all_reduce", "-n", 2, "-b", 8, "-e", 8, "--json", "-", *words, *QUICKLY, env={"PEAL_TRANSPORT": "tcp"})
            self.assertEqual(json.loads(self.assert_right(done).out)["transport"], expected)

    def test_every_protocol_is_taken_as_it_was_asked_for(self):
        for protocol in ("line", "staged", "direct_read"):
            done = self.peal("bench", "all_reduce", "-n", 2, "-b", 8, "-e", "1K", "-f", 128, "--protocol", protocol, "--check", "--json", "-")
            for row in json.loads(self.assert_right(done).out)["rows"]:
                self.assertEqual((row["protocol"], row["out_of_place"]["wrong"]), (protocol, 0))

    def test_a_group_takes_the_protocol_that_was_asked_for(self):
        for protocol in ("staged", "direct_read"):  # 256 KiB: on some processors shorter ones go through slots even so
            done = self.peal("bench", "send_recv", "-n", 2, "-b", "256K", "-e", "256K", "--protocol", protocol, "--check", "--json", "-", *QUICKLY)
            if protocol == "direct_read" and done.code == 2:
                self.skipTest("one process may not read another's memory here")
            row = json.loads(self.assert_right(done).out)["rows"][0]
            self.assertEqual((row["protocol"], row["out_of_place"]["wrong"]), (protocol, 0))

    def test_messages_that_are_read_in_the_senders_memory_are_right(self):
        for ranks, collectives in ((2, "send_recv broadcast all_gather all_reduce"), (4, "send_recv broadcast scatter all_to_all_v reduce_scatter")):
            for collective in collectives.split():
                words = () if collective == "send_recv" else ("--protocol", "direct_read")
                with self.subTest(collective=collective, ranks=ranks):
                    done = self.peal("bench", collective, "-n", ranks, "-b", "48K", "-e", "3M", "-f", 8, "--check", "--json", "-", *words, *QUICKLY)
                    for row in json.loads(self.assert_right(done).out)["rows"]:
                        self.assertEqual(row["out_of_place"]["wrong"], 0)

    def test_messages_that_are_taken_out_of_their_slots_in_lanes_are_right(self):
        """As on the processors whose constants say so, on any."""
        data = self.folder / "data"
        shutil.copytree(pathlib.Path(__file__).parents[2] / "data", data)
        constants = data / "constants" / "host.yaml"
        text = re.sub(r'cpus: \[.*?\]', "cpus: [none]", constants.read_text())
        constants.write_text(text.replace("  shared_read: 0 ", "  read_in_lanes: true\n  shared_read: 0 ", 1))
        self.assertIn("read_in_lanes: true\n", constants.read_text())
        largest = 250000 if harness.is_sanitized() else 33000000
        for collective in "all_reduce reduce reduce_scatter all_gather broadcast gather scatter all_to_all".split():
            for words in (("--dtype", "f32"), ("--dtype", "bf16", "--op", "avg")) if "reduce" in collective else ((),):
                with self.subTest(collective=collective, words=words):
                    done = self.peal("bench", collective, "-n", 2, "-b", 250000, "-e", largest, "-f", 11, "--protocol", "staged", "--check", "--json", "-", *words,
                                     *QUICKLY, env={"PEAL_DATA_DIR": data})
                    for row in json.loads(self.assert_right(done).out)["rows"]:
                        self.assertEqual([row[half]["wrong"] for half in ("out_of_place", "in_place") if row[half] is not None].count(0), 1 if collective in WITHOUT_IN_PLACE else 2, row)

    def test_an_algorithm_that_cannot_be_used_is_an_error(self):
        self.assert_refused(self.peal("bench", "all_reduce", "-n", 2, "-e", 8, "--algorithm", "hierarchical"), "all_reduce", "hierarchical", "groups", code=2)

    def test_a_protocol_that_cannot_be_used_is_an_error(self):
        self.assert_refused(self.peal("bench", "all_reduce", "-n", 2, "-e", 8, "--protocol", "direct_write"), "direct_write", "line, staged", code=2)
        self.assert_refused(self.peal("bench", "all_reduce", "-n", 2, "-b", "1M", "-e", "1M", "--protocol", "line"), "1048576", "line", code=2)
        self.assert_refused(self.peal("bench", "all_reduce", "-n", 2, "-e", 8, "--protocol", "line", "--transport", "tcp"), "line", "staged", code=2)

    def test_deterministic_takes_canonical_algorithms_only(self):
        done = self.peal("bench", "all_reduce", "-n", 4, "-b", 8, "-e", "512K", "-f", 16, "--deterministic", "--check", "--json", "-", *QUICKLY)
        for row in json.loads(self.assert_right(done).out)["rows"]:
            self.assertNotIn(row["algorithm"], ("ring",))


if __name__ == "__main__":
    harness.main()
