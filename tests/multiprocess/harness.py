"""What the tests of the tool share: starting it, waiting with a deadline, finding what it left behind, and reporting every case.

Everything a test starts carries a mark in its environment, so that /proc says which processes are left, whoever their parent is now."""
import argparse
import functools
import mmap
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
options = argparse.Namespace(tool=ROOT / "build" / "release" / "bin" / "peal", report=None)
LAUNCHERS = ("PEAL_", "OMPI_", "PMIX_", "TORCHELASTIC_", "MASTER_", "LOCAL_")


@functools.cache
def is_sanitized() -> bool:
    """Is the tool built with a sanitizer: ten times as slow, and with another allocator?"""
    with open(options.tool, "rb") as binary, mmap.mmap(binary.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return text.find(b"__tsan_init") >= 0 or text.find(b"__asan_init") >= 0


class Done:
    def __init__(self, code: int, out: str, err: str, pid: int):
        self.code, self.out, self.err, self.pid = code, out, err, pid

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def processes_with(mark: str) -> dict[int, dict[str, str]]:
    """pid -> environment, of every living process that carries the mark."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            environment = (folder / "environ").read_bytes().decode(errors="replace")
            state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if f"PEAL_TEST_MARK={mark}\0" in environment and state != "Z":
            found[int(folder.name)] = dict(entry.split("=", 1) for entry in environment.split("\0") if "=" in entry)
    return found


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def is_listening(port: int) -> bool:
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[3] == "0A" and int(row[1].split(":")[1], 16) == port for row in rows)


class ToolCase(unittest.TestCase):
    """One test: its own folder and mark; ends with nothing left running."""
    deadline_s = 60

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="peal-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.mark = f"{os.getpid()}-{self.id()}"
        self.addCleanup(self.kill_all)

    def kill_all(self):
        for pid in processes_with(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def start(self, *words, env: dict | None = None, prefix: tuple = ()) -> subprocess.Popen:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS) and k not in ("RANK", "WORLD_SIZE")}
        if "PEAL_DATA_DIR" in os.environ:
            clean["PEAL_DATA_DIR"] = os.environ["PEAL_DATA_DIR"]
        clean.update({"PEAL_TEST_MARK": self.mark, "PEAL_TUNING": "off", "PEAL": str(options.tool)}, **{k: str(v) for k, v in (env or {}).items()})
        process = subprocess.Popen([*prefix, str(options.tool), *map(str, words)], env=clean, text=True, errors="replace", stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder, start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def finish(self, process: subprocess.Popen, deadline_s: float | None = None) -> Done:
        try:
            out, err = process.communicate(timeout=deadline_s or self.deadline_s)
        except subprocess.TimeoutExpired:
            self.kill_all()
            out, err = process.communicate()
            self.fail(f"did not end within {deadline_s or self.deadline_s} s\n{Done(-1, out, err, process.pid)}")
        return Done(process.returncode, out, err, process.pid)

    def peal(self, *words, env: dict | None = None, prefix: tuple = ()) -> Done:
        """Runs the tool to its end; nothing may be left then."""
        done = self.finish(self.start(*words, env=env, prefix=prefix))
        self.assert_nothing_left(done.pid)
        return done

    def assert_nothing_left(self, pid: int, within_s: float = 3) -> None:
        def names() -> list[str]:
            return [line for line in pathlib.Path("/proc/net/unix").read_text().splitlines() if f"peal-run-{pid}-" in line or self.mark in line]

        # A process that is ending gives its memory back, and with it its environment, before it closes its sockets: it is seen by its names only.
        give_up = time.monotonic() + within_s
        while ((left := processes_with(self.mark)) or names()) and time.monotonic() < give_up:
            time.sleep(0.02)
        self.assertFalse({p: e.get("PEAL_RANK") for p, e in left.items()}, "processes are left")
        self.assertFalse(names(), "Unix names are left")

    def assert_refused(self, done: Done, *needles: str, code: int | None = None) -> None:
        """One sentence on standard error that holds every needle, and an exit code that is not 0."""
        lines = [line for line in done.err.splitlines() if line.strip()]
        self.assertNotEqual(done.code, 0, done)
        if code is not None:
            self.assertEqual(done.code, code, done)
        self.assertEqual(len(lines), 1, done)
        self.assertTrue(lines[0].startswith("peal"), done)
        for needle in needles:
            self.assertIn(needle, lines[0])

    def assert_right(self, done: Done) -> Done:
        self.assertEqual(done.code, 0, done)
        return done

    def rank_pid(self, rank: int, within_s: float = 20) -> int:
        """The process of a rank once it runs the tool itself."""
        give_up = time.monotonic() + within_s
        while time.monotonic() < give_up:
            for pid, environment in processes_with(self.mark).items():
                try:
                    is_tool = os.path.samefile(f"/proc/{pid}/exe", options.tool)
                except OSError:
                    continue
                if is_tool and environment.get("PEAL_RANK") == str(rank):
                    return pid
            time.sleep(0.02)
        self.fail(f"rank {rank} never ran")


class Reporter(unittest.TextTestResult):
    """Notes every case in the XML in which GoogleTest reports, from which tools/count_tests.py counts."""

    def __init__(self, *arguments, **words):
        super().__init__(*arguments, **words)
        self.root = ElementTree.Element("testsuites")
        self.cases: dict[str, ElementTree.Element] = {}

    def case(self, test) -> ElementTree.Element:
        test = getattr(test, "test_case", test)
        if test.id() not in self.cases:
            suite, _, name = test.id().rpartition(".")
            self.cases[test.id()] = ElementTree.SubElement(self.root, "testcase", name=name, classname=suite.rpartition(".")[2], result="completed")
        return self.cases[test.id()]

    def note_failure(self, test, err):
        ElementTree.SubElement(self.case(test), "failure", message=repr(err[1]))

    def startTest(self, test):
        super().startTest(test)
        self.case(test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        case = self.case(test)
        case.set("result", "skipped")
        ElementTree.SubElement(case, "skipped", message=reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note_failure(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.note_failure(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note_failure(test, err)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", type=pathlib.Path, default=options.tool)
    parser.add_argument("--report", type=pathlib.Path)
    known, rest = parser.parse_known_args()
    options.tool, options.report = known.tool.resolve(), known.report
    runner = unittest.TextTestRunner(resultclass=Reporter, verbosity=2)
    program = unittest.main(module="__main__", argv=[sys.argv[0], *rest], testRunner=runner, exit=False)
    if options.report:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        ElementTree.ElementTree(program.result.root).write(options.report, encoding="utf-8", xml_declaration=True)
    sys.exit(0 if program.result.wasSuccessful() else 1)
