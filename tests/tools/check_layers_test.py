#!/usr/bin/env python3
"""Builds small trees, sound and broken, and holds tools/check_layers.py against them."""
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKER = ROOT / "tools" / "check_layers.py"

SOUND = {
    "layers.toml": '[floors]\n0 = ["base"]\n1 = ["net", "schedule"]\n2 = ["transport"]\n3 = ["executor"]\n'
                   '[uses]\nnet = []\nschedule = []\ntransport = ["net"]\nexecutor = ["transport", "schedule"]\n',
    "cmake/PealRooms.cmake": "# rooms\nset(PEAL_ROOMS\n  base # ground\n  net schedule\n  transport executor)\n",
    "include/peal/types.hpp": "#pragma once\n#include <cstdint>\n#include <peal/error.hpp>\n",
    "src/base/ROOM.md": "words\n",
    "src/net/ROOM.md": "sockets\n",
    "src/net/CMakeLists.txt": "peal_room(net USES base LIBRARIES fmt::fmt)\n",
    "src/net/include/net/frame.hpp": "#pragma once\n#include <base/result.hpp>\n#include <sys/socket.h>\n",
    "src/executor/ROOM.md": "runs\n",
    "src/executor/CMakeLists.txt": "peal_room(executor USES base transport schedule)\n",
    "src/executor/run.cpp": "#include <schedule/program.hpp>\n#include <transport/channel.hpp>\n",
    "tests/executor/CMakeLists.txt": "peal_test(executor ROOMS executor net)\n",
    "tests/executor/run_test.cpp": "#include <net/frame.hpp>\n#include <executor/run.hpp>\n",
    "tests/agreement/CMakeLists.txt": "peal_test(agreement ROOMS schedule)\n",
    "tests/agreement/a_test.cpp": "#include <schedule/program.hpp>\n#include <base/units.hpp>\n",
    "examples/first.cpp": "#include <peal/types.hpp>\n",
}


def run_on(changes: dict[str, str | None]) -> tuple[int, str]:
    with tempfile.TemporaryDirectory(prefix="peal-layers-") as folder:
        for name, text in {**SOUND, **changes}.items():
            if text is None:
                continue
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, CHECKER, "--root", folder], capture_output=True, text=True, timeout=30)
        return done.returncode, done.stdout + done.stderr


class CheckLayers(unittest.TestCase):
    def assert_breach(self, changes: dict[str, str | None], sentence: str) -> None:
        code, output = run_on(changes)
        self.assertEqual(code, 1, output)
        self.assertIn(sentence, output)

    def test_a_sound_tree_passes(self):
        code, output = run_on({})
        self.assertEqual(code, 0, output)

    def test_an_include_that_is_not_allowed(self):
        self.assert_breach({"src/executor/run.cpp": "  #  include <net/frame.hpp>\n"}, "'executor' may not name 'net'")

    def test_an_include_upward(self):
        self.assert_breach({"src/net/frame.cpp": "#include <transport/channel.hpp>\n"}, "'net' may not name 'transport'")

    def test_a_quoted_include_of_another_room(self):
        self.assert_breach({"src/net/frame.cpp": '#include "schedule/program.hpp"\n'}, "'net' may not name 'schedule'")

    def test_a_path_that_climbs_out(self):
        self.assert_breach({"src/net/frame.cpp": '#include "../schedule/include/schedule/program.hpp"\n'}, "climbs out")

    def test_a_test_may_take_a_header_of_another_test_but_not_of_a_room(self):
        self.assertEqual(run_on({"tests/net/a_test.cpp": '#include "../agreement/reference.hpp"\n'})[0], 0)
        self.assert_breach({"tests/net/a_test.cpp": '#include "../../src/schedule/include/schedule/program.hpp"\n'}, "climbs out")

    def test_uses_in_cmake(self):
        self.assert_breach({"src/net/CMakeLists.txt": "peal_room(net USES base schedule)\n"}, "'net' names 'schedule'")

    def test_a_link_behind_uses(self):
        self.assert_breach({"src/net/CMakeLists.txt": "peal_room(net)\ntarget_link_libraries(peal_net PUBLIC peal_schedule)\n"},
                           "'net' names 'schedule'")

    def test_a_room_that_builds_another_room(self):
        self.assert_breach({"src/net/CMakeLists.txt": "peal_room(transport)\n"}, "not 'net'")

    def test_a_comment_in_cmake_is_no_use(self):
        self.assertEqual(run_on({"src/net/CMakeLists.txt": "# peal_schedule\npeal_room(net USES base) # USES executor\n"})[0], 0)

    def test_an_arrow_upward(self):
        self.assert_breach({"layers.toml": SOUND["layers.toml"].replace("net = []", 'net = ["executor"]')}, "downward only")

    def test_two_rooms_of_one_floor(self):
        self.assert_breach({"layers.toml": SOUND["layers.toml"].replace("net = []", 'net = ["schedule"]')}, "downward only")

    def test_a_room_on_two_floors(self):
        self.assert_breach({"layers.toml": SOUND["layers.toml"].replace('3 = ["executor"]', '3 = ["executor", "net"]')}, "stands on 2 floors")

    def test_an_unknown_room_in_uses(self):
        self.assert_breach({"layers.toml": SOUND["layers.toml"].replace("net = []", 'net = ["attic"]')}, "'attic', which stands on no floor")

    def test_a_room_that_cmake_does_not_list(self):
        self.assert_breach({"cmake/PealRooms.cmake": "set(PEAL_ROOMS base net schedule transport)\n"}, "lacks 'executor'")

    def test_a_folder_that_is_no_room(self):
        self.assert_breach({"src/attic/ROOM.md": "old things\n"}, "src/attic: no such room")

    def test_missing_and_long_room_notes(self):
        self.assert_breach({"src/net/ROOM.md": None}, "src/net/ROOM.md is missing")
        self.assert_breach({"src/net/ROOM.md": "line\n" * 61}, "has 61 lines")
        self.assertEqual(run_on({"src/net/ROOM.md": "line\n" * 60})[0], 0)

    def test_a_stranger_in_the_include_root(self):
        self.assert_breach({"src/net/include/wire/frame.hpp": "#pragma once\n"}, "holds only net/")

    def test_a_public_header_with_an_outside_include(self):
        self.assert_breach({"include/peal/types.hpp": "#include <fmt/format.h>\n"}, "only <peal/...> and the standard library")
        self.assert_breach({"include/peal/types.hpp": "#include <sys/types.h>\n"}, "only <peal/...> and the standard library")

    def test_a_test_that_links_or_names_too_much(self):
        self.assert_breach({"tests/net/CMakeLists.txt": "peal_test(net ROOMS net schedule)\n"}, "may not link 'schedule'")
        self.assert_breach({"tests/net/a_test.cpp": "#include <schedule/program.hpp>\n"}, "a test of 'net' may not name 'schedule'")
        self.assert_breach({"tests/agreement/b_test.cpp": "#include <executor/run.hpp>\n"}, "may not name 'executor'")

    def test_an_example_that_looks_inside(self):
        self.assert_breach({"examples/first.cpp": "#include <base/units.hpp>\n"}, "may not name 'base'")

    def test_a_broken_layers_file_is_said(self):
        code, output = run_on({"layers.toml": "[floors\n"})
        self.assertEqual(code, 2, output)
        self.assertIn("layers.toml", output)

    def test_this_tree_is_checked_in_a_second(self):
        start = time.monotonic()
        subprocess.run([sys.executable, CHECKER, "--root", ROOT], capture_output=True, timeout=30, check=False)
        self.assertLess(time.monotonic() - start, 5.0, "a second on an idle machine; five here, for machines that are busy")


if __name__ == "__main__":
    unittest.main()
