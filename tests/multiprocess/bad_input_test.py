#!/usr/bin/env python3
"""Everything a user can type wrongly: one sentence that says what, where and what to type, and an exit code that is not 0."""
import os
import unittest

import harness


class BadWords(harness.ToolCase):
    def refuse(self, command: str, *needles: str, code: int = 2) -> None:
        self.assert_refused(self.peal(*command.split()), *needles, code=code)

    def test_no_command(self):
        self.refuse("", "no command", "type one of", "bench")

    def test_unknown_command(self):
        self.refuse("bogus", '"bogus"', "type one of", "bench")

    def test_mistyped_command_names_the_near_one(self):
        self.refuse("bensh all_reduce", '"bensh"', "did you mean `peal bench`")

    def test_unknown_option(self):
        self.refuse("bench all_reduce --fast", "`peal bench` has no option --fast;", "`peal bench --help`")

    def test_mistyped_option_names_the_near_one(self):
        self.refuse("bench all_reduce --rank 2", "no option --rank (did you mean --ranks?)")
        self.refuse("sim all_reduce --machine dgx-h100 --node=2", "`peal sim` has no option --node (did you mean --nodes?)")

    def test_word_too_many(self):
        self.refuse("bench all_reduce all_gather", '"all_gather" is one word more than `peal bench` takes')

    def test_collective(self):
        for command in ("bench all_reduc", "sim all_reduc", "explain all_reduc --bytes 8"):
            self.refuse(command, "'all_reduc' is not a collective", "Did you mean 'all_reduce'", "all_to_all_v")
        self.refuse("verify --algorithm ring --collective all_reduc --ranks 2", "Did you mean 'all_reduce'")
        self.refuse("verify --all --collective all_reduc", "Did you mean 'all_reduce'")

    def test_type(self):
        for command in ("bench all_reduce", "sim all_reduce", "explain all_reduce --bytes 8"):
            self.refuse(f"{command} --dtype f33", "'f33' is not a data type", "Did you mean 'f32'")

    def test_op(self):
        self.refuse("bench all_reduce --op plus", "'plus' is not a reduction operator", "sum")

    def test_op_that_a_type_does_not_take(self):
        self.refuse("bench all_reduce --op band --dtype f32", "band", "f32", "integers")

    def test_root(self):
        self.refuse("bench broadcast -n 2 --root 2", "--root 2", "0 to 1")
        self.refuse("bench broadcast -n 2 --root -1", "--root -1", "0 to 1")
        self.refuse("sim broadcast --machine dgx-h100 --root 8", "--root 8", "0 to 7")

    def test_size(self):
        for size in ("xx", "-8", "8Q", "1.5M", "99999999999999999999"):
            self.refuse(f"bench all_reduce -b {size}", size.lstrip("-"))
            self.refuse(f"sim all_reduce -b {size}", size.lstrip("-"))

    def test_sizes_that_go_down(self):
        self.refuse("bench all_reduce -b 64 -e 8", "-b 64 is above -e 8", "smaller")
        self.refuse("sim all_reduce -b 64 -e 8", "-b 64 is above -e 8", "smaller")

    def test_factor_and_iterations(self):
        self.refuse("bench all_reduce -f 1", "-f 1", "2 or more")
        self.refuse("bench all_reduce --iters -1", "--iters -1")
        self.refuse("bench all_reduce --iters 2000000000", "--iters 2000000000", "at most")

    def test_measured_table(self):
        self.refuse("validate no-such.csv", "cannot read no-such.csv", "CSV")
        head = "case_id,machine,collective,bytes,time_us\n"
        for text, needles in (("", ["is empty"]), ("a,b\n1,2\n", ["t.csv:1", "no column 'case_id'"]), (head + "a,b,all_reduce,8\n", ["t.csv:2", "4 cells"]),
                              (head + "a,dgx-a100:1,all_reduce,8,-3\n", ["t.csv:2", "time_us is '-3'"]),
                              (head + 'a,"dgx-a100:1,all_reduce,8,3\n', ["t.csv:2", "quote"])):
            (self.folder / "t.csv").write_text(text)
            self.refuse("validate t.csv", *needles)
        (self.folder / "t.csv").write_text(head + "a,dgx-a100:1,all_reduce,8,3\n")
        self.refuse("validate t.csv --bound 5%", "--bound 5%", "20,15,5")
        self.refuse("validate t.csv --library mpi", "no library 'mpi'", "nccl")
        self.refuse("validate t.csv --clusters nowhere", "--clusters nowhere", "case_id")
        self.refuse("validate t.csv --json - --csv -", "cannot both")

    def test_training_step(self):
        step = "sim step --machine dgx-h100 --nodes 2 --model"
        self.refuse("sim step --machine dgx-h100", "--model", "peal sim step --help")
        self.refuse(f"{step} llama3-80b", "llama3-80b", "llama3-70b")
        self.refuse(f"{step} llama3-8b --pp 5", "16", "--pp 4")
        self.refuse(f"{step} llama3-8b --tp 8 --dp 4", "32 GPUs", "there are 16", "--dp 2 makes 16")
        self.refuse(f"{step} gpt3-175b --tp 16 --pp 1 --zero 4", "--zero 4", "0, 1, 2 or 3")
        self.refuse(f"{step} llama3-8b --global-batch 30", "30", "--global-batch 32")
        self.refuse(f"{step} llama3-8b --ep 2", "no experts", "leave --ep out")
        self.refuse(f"{step} llama3-8b --pipeline gpip", '"gpip"', "gpipe, 1f1b, interleaved, zero-bubble")
        self.refuse(f"{step} llama3-8b --pp 2 --vpp 2 --global-batch 24", "3 micro batches", "--global-batch 16")
        self.refuse(f"{step} llama3-8b --order tp,pp", "--order tp,pp", "tp,cp,dp,pp")
        self.refuse(f"{step} llama3-8b --library mpi", "'mpi'", "nccl")
        self.refuse(f"{step} resnet-50 --pp 2", "image network", "--pp out")
        self.refuse(f"{step} llama3-8b --tp 2147483647 --pp 2147483647 --cp 2147483647", "at most 1048576")
        self.refuse(f"{step} llama3-8b --seq 999999999999999999", "--seq 999999999999999999", "give 1073741824 or less")
        self.refuse(f"{step} llama3-8b --micro-batch 2000000000", "--micro-batch 2000000000", "1048576 or less")
        self.refuse("sim step --machine dgx-h100 --nodes 8192 --model llama3-8b --pp 65536 --vpp 65536", "--vpp 65536", "give 16 or less")
        self.refuse(f"{step} mixtral-8x7b --ep 4 --zero 3 --zero-group 2 --global-batch 7", "--global-batch 16")
        self.refuse("sim step --model gpt2 --machine power8-p100", "no PCIe link", "--library peal", "--machine dgx-1-p100")

    def test_layout(self):
        layout = "layout --machine dgx-h100 --model"
        self.refuse("layout --model llama3-8b", "machine was not said", "--machine dgx-h100")
        self.refuse("layout --machine dgx-h100", "model was not said", "--model")
        self.refuse(f"{layout} llama3-8b --tp 3", "--tp 3", "2 or 4 does")
        self.refuse(f"{layout} llama3-8b --tp 65536 --pp 65536", "--tp 65536 x --pp 65536", "a product of 8 does")
        self.refuse(f"{layout} llama3-8b --pp 2 --vpp 2147483647", "--vpp 2147483647", "or less")
        self.refuse(f"{layout} llama3-8b --zero 7", "--zero 7", "0, 1, 2 or 3")
        self.refuse(f"{layout} llama3-8b --best 0", "--best 0", "1 layout or more")
        self.refuse(f"{layout} llama3-8b --nodes 0", "--nodes 0", "1 or more")
        self.refuse(f"{layout} llama3-405b", "does not fit on 8 GPUs", "16 nodes do")
        self.refuse("layout --model gpt2 --machine summit", "no PCIe link", "--library peal")

    def test_models_and_graphs(self):
        self.refuse("models llama3-9b", "did you mean 'llama3-8b'")
        self.refuse("models --json nowhere/x.json", "nowhere/x.json", "a folder that you may write to")
        self.refuse("graph llama3-8b --shards 0", "--shards 0", "1 or more")
        self.refuse("graph llama3-8b --stages 99999 --shards 99999", "at most 4096 ranks")
        self.refuse("graph llama3-8b gpt2", "one is read at a time", "leave gpt2 out")
        self.refuse("graph mixtral-8x7b", "has experts", "llama3-8b")
        config = self.folder / "config.json"
        for text, needles in (('{"model_type":"llama","num_hidden_layers":2}', ["'hidden_size' is missing"]),
                              ('{"model_type":"llama","num_hidden_', ["cut off"]),
                              ('{"model_type":"llama","num_hidden_layers":-2}', ["'num_hidden_layers' is -2"])):
            config.write_text(text)
            self.refuse(f"models {config}", *needles, code=1)
        config.write_text('{"model_type":"llama","num_hidden_layers":2,"hidden_size":4095,"num_attention_heads":32,"vocab_size":9}')
        self.refuse(f"models {config}", "4095 does not divide by 32 heads", "head_dim")

    def test_cost(self):
        cost = "cost --machine dgx-h100"
        self.refuse("cost", "how long the run is was not said", "--flops", "--hours 100")
        self.refuse(f"{cost} --hours -1", "--hours -1", "above 0")
        self.refuse(f"{cost} --hours nan", "--hours nan", "above 0")
        self.refuse(f"{cost} --hours 1e300", "--hours 1e+300", "at most")
        self.refuse(f"{cost} --flops 3e23", "was not said", "--mfu 0.4")
        self.refuse(f"{cost} --flops 3e23 --mfu 2", "--mfu 2", "at most 1")
        self.refuse(f"{cost} --hours 9 --as-of 2026-02-31", '"2026-02-31" is no day')
        self.refuse(f"{cost} --hours 9 --precision fp9", '"fp9"', "bf16")
        self.refuse(f"{cost} --hours 9 --prices none.yaml", "none.yaml", "check the path")
        self.refuse(f"{cost} --hours 9 --compare-network fo --compare-hours 9", "--compare-network fo", "fat-tree")

    def test_link(self):
        self.refuse("sim link --link nvlink-44", "'nvlink-44'", "did you mean 'nvlink-4'", "peal machines --links")
        self.refuse("sim link --link infiniband-ndr-x4", "not described", "nvlink-1", "pcie-3")
        self.refuse("sim link --ber 1", "--ber 1", "from 0 to below 1")
        self.refuse("sim link --ber x", '--ber does not take "x"', "16..256")
        self.refuse("sim link --credits 0", "--credits 0", "give 1 or more")
        self.refuse("sim link --credits 1.5", "--credits 1.5", "whole number")
        self.refuse("sim link --metres -2", "--metres -2", "0 to 100000")
        self.refuse("sim link --payload 16..64 --credits 1..8", "--payload and --credits", "single number")
        self.refuse("sim link --sweep length", "--sweep length", "payload, ber, credits or metres")
        self.refuse("sim link --op copy", "--op copy", "posted, write")
        self.refuse("sim link --direction back", "--direction back", "one", "both")
        self.refuse("sim link --fast", "--fast", "`peal sim link --help`")
        self.refuse("sim", "collective", "`peal sim --help`")

    def test_rank_count(self):
        for count in (0, -1, 100000):
            self.refuse(f"bench all_reduce -n {count}", f"-n {count}", "1 to")
            self.refuse(f"run -n {count} -- true", f"-n {count}", "1 to")
        self.refuse("sim all_reduce --ranks -1", "--ranks -1")
        self.refuse("verify --algorithm ring --collective all_reduce --ranks -3", "--ranks -3", "1 to")
        self.refuse("verify --algorithm ring --collective all_reduce --ranks 100000000", "--ranks 100000000", "1 to")

    def test_rank_count_that_is_no_number(self):
        self.refuse("bench all_reduce -n two", '-n does not take "two"', "number", "`peal bench --help`")
        self.refuse("bench all_reduce --ranks=two", '--ranks does not take "two"', "number")

    def test_groups(self):
        self.refuse("bench all_reduce -n 4 --groups 3", "groups of 3", "divisor of 4")

    def test_algorithm_protocol_and_transport(self):
        self.refuse("bench all_reduce --algorithm rong", '"rong"', "ring", "type one of")
        self.refuse("bench all_reduce --protocol lane", '"lane"', "line", "type one of")
        self.refuse("bench all_reduce --transport pigeon", '"pigeon"', "auto, shm or tcp")
        self.refuse("bench all_reduce --transport cuda", "cuda", "auto, shm or tcp")
        self.refuse("verify --algorithm rong --collective all_reduce --ranks 2", '"rong"', "type one of")

    def test_in_place_where_there_is_none(self):
        self.refuse("bench all_to_all --in-place", "all_to_all", "no in-place form")

    def test_machine(self):
        self.refuse("sim all_reduce --machine dgx-h10", "'dgx-h10'", "did you mean 'dgx-h100'", "`peal machines`")
        self.refuse("topo --machine dgx-h10", "did you mean 'dgx-h100'")
        self.refuse("sim all_reduce --machine dgx-h100 --nodes 0", "--nodes 0", "1 or more")
        self.refuse("topo --machine dgx-h100 --file x.yaml", "--machine", "--file", "one of them")

    def test_hash_seeds(self):
        machine = "sim all_to_all --machine dgx-h100 --nodes 2 -b 8 -e 8"
        self.refuse(f"{machine} --hash-seeds 4", "no hash chooses", "--fabric fat-tree")
        fabric = f"{machine} --fabric fat-tree,levels=2,radix=64"
        self.refuse(f"{fabric} --rates most", "--rates most", "auto, exact or kept")
        self.refuse(f"{fabric} --rates kept --compute 1ms", "--rates kept", "--compute")
        self.refuse(f"{fabric} --hash-seeds 1", "--hash-seeds 1", "2 to 10000")
        self.refuse(f"{fabric} --hash-seeds 4 --jitter 5", "--jitter", "one of them")
        self.refuse(f"{fabric} --hash-seeds 4 --compare nodes=2,4", "--hash-seeds", "--compare")
        self.refuse(f"{machine} --library nccl --hash-seeds 4", "--library nccl", "--hash-seeds")
        self.refuse(f"{machine} --library nccl --rates kept", "--library nccl", "--rates")
        self.refuse(f"{machine} --library nccl --library-version new", "--library-version new", "2.18")
        self.refuse(f"{machine} --library nccl --library-version 1.3", "--library-version 1.3", "2.18")
        self.refuse(f"{machine} --library nccl --processes two", "--processes two", "each", "one")
        self.refuse(f"{machine} --library-version 2.18", "--library nccl")
        self.refuse(f"{machine} --processes one", "--library nccl")
        self.refuse("sim all_reduce --machine mi300x-8 --library rccl --library-version 2.18", "--library-version", "nccl")

    def test_library_of_another_maker(self):
        self.refuse("sim all_reduce --machine dgx-h100 --library hccl", "HCCL does not run on", "--library nccl")
        ascend = "sim all_reduce --machine atlas-800-a2 --nodes 2 --library hccl"
        self.refuse(f"{ascend} --processes one", "--processes one", "leave it out")
        self.refuse(f"{ascend} --gpudirect off", "--gpudirect")
        self.refuse(f"{ascend} --algorithm tree", "tree of HCCL is not modelled", "NHR")

    def test_places(self):
        machine = "sim all_reduce --machine dgx-h100"
        self.refuse(f"{machine} --places 0-8", "no place 8", "0 to 7")
        self.refuse(f"{machine} --places 0,0", "place 0 twice")
        self.refuse(f"{machine} --places some", '"some"', "0-31,40")
        self.refuse(f"{machine} --places 0-3 --ranks 4", "leave --ranks out")
        self.refuse(f"{machine} --nodes 2 --places 0-8 --library nccl", "give every node equally many")
        self.refuse(f"{machine} --places 0-3 --cores near", "--cores")
        self.refuse(f"{machine} --beside all_reduce:1M:8-9", "no place 8")
        self.refuse("sim all_reduce --places 0-1", "--machine")

    def test_export_form(self):
        self.refuse("topo --machine dgx-h100 --export png", '"png"', "nccl-xml", "yaml")

    def test_range_and_nothing_to_verify(self):
        self.refuse("verify --all --range 3-1", '"3-1"', "2-64")
        self.refuse("verify", "give a file")
        self.refuse("verify --all --algorithm rong --range 2-3", "no plan", "--algorithm")

    def test_no_program(self):
        self.refuse("run -n 2", "behind --", "peal run -n 2")

    def test_timeout(self):
        self.refuse("run -n 1 --timeout -1 -- true", "--timeout -1", "seconds")
        self.refuse("bench all_reduce --timeout -1", "--timeout -1", "seconds")


class BadFiles(harness.ToolCase):
    def test_a_plan_that_is_missing(self):
        self.assert_refused(self.peal("verify", "no_such.xml"), "no_such.xml", "No such file", "check the path")

    def test_a_plan_that_is_a_folder(self):
        self.assert_refused(self.peal("verify", self.folder), str(self.folder), "not a file", "give the path")

    def test_a_plan_that_is_garbage(self):
        path = self.folder / "garbage.xml"
        path.write_bytes(bytes(i * 97 % 256 for i in range(4096)))
        self.assert_refused(self.peal("verify", path), str(path))

    def test_a_plan_that_is_empty(self):
        path = self.folder / "empty.xml"
        path.touch()
        self.assert_refused(self.peal("verify", path), str(path))

    def test_a_plan_that_is_cut_off(self):
        whole = (harness.ROOT / "tests/fixtures/msccl/fused_steps.xml").read_bytes()
        path = self.folder / "cut.xml"
        for length in range(40, len(whole) - 10, 97):
            path.write_bytes(whole[:length])
            self.assert_refused(self.peal("verify", path), str(path))

    def test_a_plan_that_is_huge(self):
        path = self.folder / "huge.xml"
        with path.open("wb") as file:
            file.write(b"<algo>")
            file.truncate((64 << 20) + 4096)
        self.assert_refused(self.peal("verify", path), str(path), "67108864", "is it an MSCCL algorithm?")

    def test_a_plan_that_is_not_right_says_where(self):
        done = self.peal("verify", harness.ROOT / "tests/fixtures/msccl/wrong_sum.xml")
        self.assertEqual(done.code, 1, done)
        self.assertIn("WRONG at step 4 of rank 0", done.out)

    def test_a_cluster_file(self):
        garbage = self.folder / "garbage.yaml"
        garbage.write_bytes(b"\0\1\2 devices: [")
        cut = self.folder / "cut.yaml"
        cut.write_text("machine: x\ndevices: [ {id: a, kind:")
        for path in (self.folder / "none.yaml", self.folder, garbage, cut):
            self.assert_refused(self.peal("sim", "all_reduce", "--file", path), str(path))
            self.assert_refused(self.peal("topo", "--file", path), str(path))

    def test_a_host_file(self):
        empty = self.folder / "hosts"
        empty.write_text("# nobody\n")
        self.assert_refused(self.peal("run", "-n", 2, "--hostfile", "none", "--", "true"), "none", "No such file")
        self.assert_refused(self.peal("run", "-n", 2, "--hostfile", empty, "--", "true"), "names no host", "one address a line")

    def test_an_output_file_that_cannot_be_written_is_said_before_the_work(self):
        done = self.peal("bench", "all_reduce", "-e", 8, "--json", self.folder / "none" / "x.json")
        self.assert_refused(done, "x.json", "No such file", "give a file")
        self.assertEqual(done.out, "")
        self.assert_refused(self.peal("sim", "all_reduce", "--machine", "dgx-h100", "-e", 8, "--json", self.folder / "none" / "x.json"), "x.json")

    @unittest.skipIf(os.geteuid() == 0, "the superuser may read every file")
    def test_a_plan_that_may_not_be_read(self):
        path = self.folder / "secret.xml"
        path.touch(mode=0)
        self.assert_refused(self.peal("verify", path), str(path), "Permission denied")


if __name__ == "__main__":
    harness.main()
