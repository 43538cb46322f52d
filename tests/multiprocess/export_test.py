#!/usr/bin/env python3
"""Exports as other tools would take them: NCCL's XML judged by tools/check_nccl_xml.py, the batch script run with a srun of our own."""
import os
import subprocess
import sys

import harness

sys.path.insert(0, str(harness.ROOT / "tools"))
import check_nccl_xml as checker  # noqa: E402

FIXTURES = harness.ROOT / "tests" / "fixtures" / "nccl_round_trip"
REAL_FILES = harness.ROOT.parent / "shared" / "data" / "nccl-topo"


def matrix_of(text):
    """Cells by the names of rows and columns, where a NIC is called by its id."""
    names, rows, nics = [], {}, {}
    for line in text.splitlines():
        if line.startswith("\t") and not names:
            names = line.split("\t")[1:-1]
        elif "\t" in line:
            label, *cells = line.split("\t")
            rows[label] = dict(zip(names, cells))
        elif line.startswith("  NIC"):
            label, name = line.strip().split(": ")
            nics[name] = label
    return rows, nics


class Exports(harness.ToolCase):
    def export(self, form, *words):
        return self.assert_right(self.peal("topo", *words, "--export", form)).out

    def catalogue(self):
        lines = self.assert_right(self.peal("machines")).out.splitlines()
        return [line.split()[0] for line in lines if line.strip()]

    def test_nccl_takes_every_machine_and_sees_the_paths_that_the_matrix_shows(self):
        compared = 0
        for machine in self.catalogue():
            done = self.peal("topo", "--machine", machine, "--export", "nccl-xml")
            if done.code == 2 and ("no GPU" in done.err or "HCCS" in done.err):
                continue
            with self.subTest(machine=machine):
                system = checker.load(self.assert_right(done).out)
                rows, nics = matrix_of(self.assert_right(self.peal("topo", "--machine", machine, "--matrix")).out)
                for pair in system.pairs():
                    a, b = (w.upper() if w.startswith("gpu") else nics[w] for w in (pair["a"], pair["b"]))
                    cell = rows[a][b]
                    if pair["class"] == "C2C" or "C2C" in (pair["class"], cell):
                        continue  # NCCL's own class, which nvidia-smi does not show
                    if cell.startswith("NV") and cell != "NVL":
                        sm = int(system.facts[system.gpus[0]]["sm"])
                        self.assertEqual(pair["class"], "NVL", pair)
                        self.assertAlmostEqual(pair["GBps"] / checker.per_link(sm), int(cell[2:]), places=3, msg=pair)
                    else:
                        self.assertEqual({"NODE": "PHB"}.get(cell, cell), pair["class"], (a, b, pair))
                    compared += 1
        self.assertGreater(compared, 200)

    def test_what_nccl_reads_survives_reading_and_writing(self):
        if "a cluster file is a mapping" in self.peal("topo", "--file", FIXTURES / "rccl_xgmi.xml").err:
            self.skipTest("this tool does not read NCCL's XML")
        files = sorted(FIXTURES.glob("*.xml")) + sorted(REAL_FILES.glob("**/*.xml"))
        same = 0
        for path in files:
            text = path.read_text(errors="surrogateescape")
            try:
                before = checker.load(text)
            except checker.Refused:
                continue  # odd on its own account, of which the reader's tests speak
            if not before.gpus:
                continue
            done = self.peal("topo", "--file", path, "--export", "nccl-xml")
            with self.subTest(file=path.name):
                once = self.assert_right(done).out
                self.assertEqual(checker.load(once).summary(), before.summary())
                again = self.folder / "again.xml"
                again.write_text(once)
                self.assertEqual(checker.load(self.export("nccl-xml", "--file", again)).summary(), before.summary())
                same += 1
        self.assertGreaterEqual(same, 3)

    def test_the_batch_script_starts_the_ranks_of_one_machine(self):
        stubs = self.folder / "stubs"
        stubs.mkdir()
        (stubs / "scontrol").write_text("#!/bin/sh\necho localhost\n")
        (stubs / "srun").write_text('#!/bin/bash\nwhile [[ "$1" == --* ]]; do echo "srun $1" >> "$LOG"; shift; done\nexec "$@"\n')
        os.symlink(harness.options.tool, stubs / "peal")
        for stub in ("scontrol", "srun"):
            (stubs / stub).chmod(0o755)
        script = self.folder / "job.sh"
        script.write_text(self.export("sbatch", "--machine", "dgx-a100", "--ranks", 2))
        log = self.folder / "srun.log"
        env = {**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}", "LOG": str(log), "SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "n0",
               "SLURM_CPUS_ON_NODE": "2", "SLURM_NODEID": "0", "PEAL_TEST_MARK": self.mark}
        done = subprocess.run(["bash", str(script), "sh", "-c", 'echo "rank $PEAL_RANK of $PEAL_SIZE: $1"', "_", "two words"], env=env, text=True,
                              capture_output=True, timeout=self.deadline_s, cwd=self.folder, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in (0, 1):
            self.assertIn(f"rank {rank} of 2: two words", done.stdout)
        self.assertIn("srun --cpus-per-task=2", log.read_text())
        none = subprocess.run(["bash", str(script)], env=env, text=True, capture_output=True, timeout=self.deadline_s, check=False)
        self.assertEqual(none.returncode, 2)
        self.assertIn("name the program", none.stderr)

    def test_several_machines_get_a_key_and_each_its_index(self):
        script = self.export("sbatch", "--machine", "dgx-a100", "--nodes", 4, "--ranks", 32)
        self.assertIn('--host-index "$SLURM_NODEID"', script)
        self.assertIn("umask 077", script)
        self.assertEqual(subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode, 0)

    def test_each_form_says_why_it_refuses(self):
        cluster = ("topo", "--machine", "mi300x-8")
        for words, reason in (((*cluster, "--export", "nvlink-status"), "no NVLink"), ((*cluster, "--export", "slurm-topology"), "--nodes"),
                              ((*cluster, "--export", "sbatch", "--ranks", 9), "8 in all"), ((*cluster, "--export", "gre"), "did you mean gres"),
                              ((*cluster, "--ranks", 4), "--export sbatch")):
            done = self.peal(*words)
            self.assertEqual(done.code, 2, done)
            self.assertIn(reason, done.err)
            self.assertEqual(done.out, "")

    def test_every_form_prints_something_for_a_cluster(self):
        for form in ("nccl-xml", "gres", "slurm-topology", "slurm-topology-block", "slurm-topology-yaml", "sbatch", "nvlink-status", "dot", "yaml"):
            self.assertTrue(self.export(form, "--machine", "dgx-h100", "--nodes", 2).endswith("\n"), form)


if __name__ == "__main__":
    harness.main()
