#!/usr/bin/env python3
"""The installed library, seen as a user sees it: install_test.py --build FOLDER --cmake PROGRAM --compiler PROGRAM."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
options: argparse.Namespace


def run(*command, env: dict[str, str] | None = None, timeout: int = 120) -> str:
    """Standard output of `command`; fails the test with everything it said when it does not end with 0."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, env={**os.environ, **(env or {})})
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="peal-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        first = cls.folder / "first"
        run(options.cmake, "--install", options.build, "--prefix", first)
        # Nothing that is installed may remember where it was installed to.
        cls.prefix = cls.folder / "moved"
        first.rename(cls.prefix)
        library = next(cls.prefix.rglob("libpeal.so"))
        cls.install_lib = library.parent

    def assert_averages(self, program: pathlib.Path) -> None:
        env = {"LD_LIBRARY_PATH": str(self.install_lib)}
        output = run(self.prefix / "bin" / "peal", "run", "--no-bind", "-n", "2", "--", program, env=env, timeout=60)
        for rank in (0, 1):
            self.assertIn(f"rank {rank} of 2: every element is 0.5", output)
        self.assertIn("rank 0 of 1: every element is 0", run(program, env=env, timeout=60))

    def test_cmake_finds_it_and_the_example_runs(self):
        build = self.folder / "with_cmake"
        run(options.cmake, "-S", ROOT / "examples", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DCMAKE_CXX_COMPILER={options.compiler}")
        run(options.cmake, "--build", build)
        self.assert_averages(build / "average_gradient")
        output = run(self.prefix / "bin" / "peal", "run", "--no-bind", "-n", "2", "--", build / "train_in_parallel",
                     env={"LD_LIBRARY_PATH": str(self.install_lib)}, timeout=60)
        for rank in (0, 1):
            self.assertIn(f"rank {rank} of 2: mean gradient 0.5, two layers give 2, gradient of stage {rank}'s input {4 - 2 * rank}", output)

    def test_pkg_config_finds_it_and_the_example_runs(self):
        env = {"PKG_CONFIG_PATH": str(self.install_lib / "pkgconfig")}
        flags = run("pkg-config", "--cflags", "--libs", "peal", env=env).split()
        program = self.folder / "with_pkg_config"
        run(options.compiler, "-std=c++20", ROOT / "examples" / "average_gradient.cpp", "-o", program, *flags)
        self.assert_averages(program)

    def test_only_words_of_peal_leave_the_library(self):
        names = run("nm", "--dynamic", "--defined-only", "--demangle", self.install_lib / "libpeal.so").splitlines()
        words = [line.split(maxsplit=2)[2] for line in names]
        self.assertTrue(any(word.startswith("peal::Communicator::all_reduce(") for word in words), words)
        for word in words:
            self.assertRegex(word, r"^(peal::|(typeinfo|typeinfo name|vtable) for peal::)")
            inside = [room for room in ("net", "schedule", "executor", "transport", "bootstrap", "comm", "topology") if f"peal::{room}::" in word]
            self.assertFalse(inside, f"{word} leaves the library")

    def test_the_tool_finds_its_data(self):
        self.assertIn("dgx-h100", run(self.prefix / "bin" / "peal", "machines"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--compiler", default="g++")
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
