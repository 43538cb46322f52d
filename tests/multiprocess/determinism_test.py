#!/usr/bin/env python3
"""Deterministic calls give the same bits over algorithms, transports, sizes and repeats, where others do not; errors are what rounding makes them.

bench/determinism/determinism.py asks the same of everything and takes half an hour."""
import itertools
import json

import harness

QUICKLY = ("--iters", 1, "--warmup", 0)
ALGORITHMS = {"all_reduce": ("one_shot", "two_shot", "star", "recursive_doubling", "tree"), "reduce": ("direct", "tree"), "reduce_scatter": ("direct", "recursive_halving")}


class Digests(harness.ToolCase):
    def rows(self, *words) -> list[dict]:
        return json.loads(self.assert_right(self.peal("bench", *words, *QUICKLY, "--json", "-")).out)["rows"]

    def heads(self, collective: str, ranks: int, dtype: str, *words) -> set[str]:
        """SHA-256s of the first elements, whose inputs are the same in all sizes; {} where a way by name is refused."""
        done = self.peal("bench", collective, "-n", ranks, "--dtype", dtype, "-b", ranks * 64, "-e", "64K", "-f", 32, "--digest", 5, *words, *QUICKLY, "--json", "-")
        if done.code == 2 and "deterministic" in done.err:
            return set()
        found = json.loads(self.assert_right(done).out)["rows"]
        self.assertEqual([row["digest"]["differing"] for row in found], [0] * len(found))
        return {row["digest"]["head"]["sha256"] for row in found}

    def assert_one_result(self, dtype: str) -> None:
        for collective, ranks in zip(ALGORITHMS, (5, 3, 3)):
            found, ways = set(), 0
            for transport in ("shm", "tcp"):
                found |= self.heads(collective, ranks, dtype, "--deterministic", "--transport", transport)
            for algorithm in ALGORITHMS[collective]:
                heads = self.heads(collective, ranks, dtype, "--deterministic", "--algorithm", algorithm)
                found |= heads
                ways += len(heads) > 0
            self.assertEqual(len(found), 1, f"{collective} {dtype} on {ranks} ranks has {len(found)} results")
            self.assertGreaterEqual(ways, 1, f"{collective} {dtype} on {ranks} ranks: no algorithm was taken by name")

    def test_floats_of_32_bits_have_one_result(self):
        self.assert_one_result("f32")

    def test_floats_of_16_bits_which_some_algorithms_round_at_every_hop_have_one_result(self):
        self.assert_one_result("bf16")

    def test_floats_of_8_bits_have_one_result(self):
        self.assert_one_result("f8_e4m3fn")

    def test_what_is_chosen_for_8_ranks_over_shared_memory_and_tcp_has_one_result(self):
        for collective in ALGORITHMS:
            found = self.heads(collective, 8, "bf16", "--deterministic") | self.heads(collective, 8, "bf16", "--deterministic", "--transport", "tcp")
            self.assertEqual(len(found), 1, collective)

    def test_orders_of_summation_have_other_results_so_that_this_can_fail(self):
        for collective, dtype in itertools.product(ALGORITHMS, ("f32", "f8_e5m2")):
            orders = ("ring", "direct" if collective == "reduce_scatter" else "tree")
            found = [self.heads(collective, 5, dtype, "--algorithm", algorithm) for algorithm in orders]
            self.assertTrue(found[0] and found[1] and found[0].isdisjoint(found[1]), f"{collective} {dtype}: {found}")
        self.assertGreater(len(self.heads("all_reduce", 5, "f32", "--algorithm", "ring")), 1, "a ring sums each chunk in another order: sizes differ, too")

    def test_the_setting_does_what_the_option_does(self):
        words = ("bench", "all_reduce", "-n", 5, "-b", "64K", "-e", "64K", "--digest", 2, "--json", "-", *QUICKLY)
        option = self.assert_right(self.peal(*words, "--deterministic"))
        setting = self.assert_right(self.peal(*words, env={"PEAL_DETERMINISTIC": 1}))
        self.assertEqual(*(json.loads(done.out)["rows"][0]["digest"] for done in (option, setting)))
        self.assert_refused(self.peal(*words, "--algorithm", "ring", env={"PEAL_DETERMINISTIC": 1}), "ring", "deterministic", code=2)
        self.assert_refused(self.peal(*words, env={"PEAL_DETERMINISTIC": "perhaps"}), "PEAL_DETERMINISTIC", "perhaps", code=2)

    def test_every_repeat_and_both_forms_are_hashed(self):
        for row in self.rows("all_reduce", "-n", 3, "--digest", 40, "-b", 64, "-e", 4096, "-f", 64):
            self.assertEqual((row["digest"]["repeats"], row["digest"]["differing"]), (80, 0))
            self.assertRegex(row["digest"]["sha256"], "^[0-9a-f]{64}$")
        row = self.rows("all_reduce", "-n", 3, "--digest", 40, "-b", 64, "-e", 64, "--in-place")[0]
        self.assertEqual(row["digest"]["repeats"], 40)

    def test_collectives_that_only_copy_have_digests_too(self):
        for collective in "all_gather broadcast gather scatter all_to_all send_recv all_gather_v all_to_all_v gather_v scatter_v".split():
            self.assert_one_digest(collective)

    def test_sums_of_uneven_blocks_have_one_result_where_that_is_asked_for(self):
        self.assert_one_digest("reduce_scatter_v", "--deterministic")

    def assert_one_digest(self, collective: str, *words):
        """Over both transports, whatever is chosen there."""
        found = {self.rows(collective, "-n", 3, "--digest", 3, "-b", 480, "-e", 480, "--transport", transport, *words)[0]["digest"]["sha256"]
                 for transport in ("shm", "tcp")}
        self.assertEqual(len(found), 1, collective)

    def test_without_being_asked_there_are_neither_digests_nor_errors(self):
        row = self.rows("all_reduce", "-n", 2, "-b", 64, "-e", 64)[0]
        self.assertNotIn("digest", row)
        self.assertNotIn("numerics", row)

    def test_what_cannot_be_hashed_is_refused(self):
        self.assert_refused(self.peal("bench", "all_reduce", "-n", 2, "--digest", -1), "--digest -1", "1000000", code=2)
        self.assert_refused(self.peal("bench", "all_reduce", "-n", 2, "--digest", 1000001), "1000001", "1000000", code=2)
        self.assert_refused(self.peal("bench", "barrier", "-n", 2, "--digest", 5), "barrier", "--digest", code=2)


class Numerics(harness.ToolCase):
    def errors(self, collective: str, ranks: int, dtype: str, *words) -> dict:
        done = self.peal("bench", collective, "-n", ranks, "--dtype", dtype, "--numerics", "-b", "16K", "-e", "16K", *words, *QUICKLY, "--json", "-")
        return json.loads(self.assert_right(done).out)["rows"][0]["numerics"]

    def test_a_ring_of_bf16_rounds_at_every_hop_and_one_shot_once(self):
        once = self.errors("all_reduce", 16, "bf16", "--algorithm", "one_shot")
        ring = self.errors("all_reduce", 16, "bf16", "--algorithm", "ring")
        self.assertEqual(list(once), ["elements", "not_finite", "max_ulps", "mean_ulps", "max_relative", "max_backward"])
        self.assertEqual((once["elements"], once["not_finite"]), (16 * 8192, 0))
        self.assertLessEqual(once["max_ulps"], 0.5)
        self.assertAlmostEqual(once["mean_ulps"], 0.25, delta=0.05)
        self.assertLessEqual(once["max_relative"], 2**-8)
        self.assertGreater(ring["max_ulps"], 2)
        self.assertGreater(ring["mean_ulps"], 3 * once["mean_ulps"])
        self.assertGreater(ring["max_backward"], once["max_backward"])

    def test_with_partial_sums_as_f32_every_algorithm_rounds_once(self):
        for collective, algorithm in (("all_reduce", "ring"), ("all_reduce", "recursive_doubling"), ("reduce", "tree"), ("reduce_scatter", "ring")):
            with self.subTest(collective=collective, algorithm=algorithm):
                once = self.errors(collective, 9, "bf16", "--algorithm", algorithm, "--partial-sums", "f32", "--check")
                self.assertLess(once["max_ulps"], 0.6)  # f32 sums are not quite the right ones
                self.assertAlmostEqual(once["mean_ulps"], 0.25, delta=0.05)
        by_setting = self.peal("bench", "all_reduce", "-n", 5, "--dtype", "f16", "--numerics", "--algorithm", "ring", "-b", "16K", "-e", "16K", *QUICKLY,
                               "--json", "-", env={"PEAL_PARTIAL_SUMS": "f32"})
        self.assertLess(json.loads(self.assert_right(by_setting).out)["rows"][0]["numerics"]["max_ulps"], 0.6)
        self.assert_refused(self.peal("bench", "all_reduce", "-n", 2, "--partial-sums", "f64"), "f64", "element", code=2)
        explained = self.assert_right(self.peal("explain", "all_reduce", "--bytes", "1M", "-n", 8, "--dtype", "bf16", "--algorithm", "ring", "--partial-sums", "f32"))
        self.assertIn("rounded to bf16 once: its partial sums travel as f32", explained.out)

    def test_whole_numbers_are_exact(self):
        for collective, dtype, algorithm in (("all_reduce", "i32", "ring"), ("all_reduce", "u8", "tree"), ("reduce_scatter", "i64", "ring"), ("reduce", "i16", "tree")):
            errors = self.errors(collective, 5, dtype, "--algorithm", algorithm)
            self.assertGreater(errors["elements"], 0)
            self.assertEqual((errors["max_ulps"], errors["mean_ulps"], errors["max_relative"], errors["max_backward"]), (0, 0, 0, 0), dtype)

    def test_minimum_and_maximum_round_nothing(self):
        for op in ("min", "max"):
            self.assertEqual(self.errors("all_reduce", 4, "f16", "--op", op)["max_ulps"], 0)

    def test_every_reduction_of_every_float_is_near_its_reference(self):
        everything = [*itertools.product(["all_reduce"], "f64 f32 f16 bf16 f8_e4m3fn f8_e5m2".split(), ["sum"]),
                      *itertools.product(["all_reduce"], ["f64", "bf16"], ["avg", "premul_sum", "prod"]),
                      *itertools.product(["reduce", "reduce_scatter", "reduce_scatter_v"], ["f32"], ["sum"])]
        for collective, dtype, op in everything:
            errors = self.errors(collective, 3, dtype, "--op", op)
            bits = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7, "f8_e4m3fn": 3, "f8_e5m2": 2}[dtype]
            with self.subTest(collective=collective, dtype=dtype, op=op):
                self.assertEqual(errors["not_finite"], 0)
                self.assertLessEqual(errors["max_backward"], 3 * 2**-bits)  # three ranks: at most as many roundings
                self.assertGreater(errors["max_ulps"], 0)

    def test_the_table_says_it_in_units(self):
        done = self.assert_right(self.peal("bench", "all_reduce", "-n", 3, "--dtype", "bf16", "--numerics", *QUICKLY))
        self.assertIn(" 65536 ", done.out)  # the size, unless one is given
        self.assertRegex(done.out, r"#   error: max [0-9.e+]+ ulps, mean [0-9.e+-]+ ulps; max [0-9.e+-]+ of the result, max [0-9.e+-]+ of the inputs; 98304 results")

    def test_what_sums_nothing_is_refused(self):
        for collective in ("all_gather", "barrier", "send_recv"):
            self.assert_refused(self.peal("bench", collective, "-n", 2, "--numerics"), collective, "--numerics", "all_reduce", code=2)


if __name__ == "__main__":
    harness.main()
