#!/usr/bin/env python3
"""Holds the source tree against layers.toml: who may name whom.

    tools/check_layers.py [--root FOLDER]

What it checks:
  - layers.toml: each room stands on one floor; it uses only rooms of lower floors (so there is no circle);
    cmake/PealRooms.cmake lists the same rooms.
  - src/ROOM/CMakeLists.txt: every room named there is one that layers.toml allows.
  - every #include <room/...> of src/, tests/, bench/, examples/ and include/: the room is allowed there.
    A test of a room may use the room's closure; a test folder of another name, the closure of the ROOMS it lists.
  - include/peal: only other public headers and the standard library.
  - src/ROOM/ROOM.md exists and has at most 60 lines; src/ROOM/include holds only ROOM/.

Prints one sentence for each breach and exits with 1 if there is any.
"""
import argparse
import pathlib
import re
import sys
import tomllib

INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
SOURCE_ENDINGS = {".hpp", ".cpp", ".h", ".c", ".inc"}
ROOM_MD_LINES = 60
STANDARD_HEADERS = frozenset("""
algorithm any array atomic barrier bit bitset cassert ccomplex cctype cerrno cfenv cfloat charconv chrono cinttypes climits clocale
cmath codecvt compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstdbool cstddef cstdint cstdio cstdlib
cstring ctgmath ctime cuchar cwchar cwctype deque exception execution filesystem format forward_list fstream functional future
initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource mutex new numbers
numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream
stack stdexcept stop_token streambuf string string_view syncstream system_error thread tuple type_traits typeindex typeinfo
unordered_map unordered_set utility valarray variant vector version
""".split())


class Tree:
    """The checkout under test, what layers.toml says of it, and the breaches found so far."""

    def __init__(self, root: pathlib.Path):
        self.root = root
        self.breaches: list[str] = []
        with open(root / "layers.toml", "rb") as file:
            words = tomllib.load(file)
        self.floors: dict[str, list[str]] = words.get("floors", {})
        self.uses: dict[str, list[str]] = words.get("uses", {})
        self.floor_of = {room: int(floor) for floor, rooms in self.floors.items() for room in rooms}

    def breach(self, sentence: str) -> None:
        self.breaches.append(sentence)

    def allowed(self, room: str) -> set[str]:
        """Rooms whose words may appear in the sources of `room`."""
        return {room, "base", *self.uses.get(room, [])}

    def closure(self, rooms) -> set[str]:
        """`rooms` and everything below them that they use, directly or not."""
        seen: set[str] = {"base"}
        todo = list(rooms)
        while todo:
            room = todo.pop()
            if room not in seen:
                seen.add(room)
                todo.extend(self.uses.get(room, []))
        return seen

    def name(self, path: pathlib.Path) -> str:
        return str(path.relative_to(self.root))


def check_layers_file(tree: Tree) -> None:
    counted: dict[str, int] = {}
    for rooms in tree.floors.values():
        for room in rooms:
            counted[room] = counted.get(room, 0) + 1
    for room, count in counted.items():
        if count > 1:
            tree.breach(f"layers.toml: room '{room}' stands on {count} floors; a room has one.")
    for room, used in tree.uses.items():
        if room not in tree.floor_of:
            tree.breach(f"layers.toml: [uses] names the room '{room}', which stands on no floor.")
            continue
        for other in used:
            if other not in tree.floor_of:
                tree.breach(f"layers.toml: '{room}' uses '{other}', which stands on no floor.")
            elif tree.floor_of[other] >= tree.floor_of[room]:
                tree.breach(f"layers.toml: '{room}' (floor {tree.floor_of[room]}) uses '{other}' (floor {tree.floor_of[other]}); "
                            "arrows point downward only.")


def check_room_list(tree: Tree) -> None:
    path = tree.root / "cmake" / "PealRooms.cmake"
    if not path.exists():
        tree.breach("cmake/PealRooms.cmake is missing: it lists the rooms to build.")
        return
    found = re.search(r"set\(PEAL_ROOMS\s+([^)]*)\)", without_comments(path.read_text()))
    built = set(found.group(1).split()) if found else set()
    for room in sorted(set(tree.floor_of) - built):
        tree.breach(f"cmake/PealRooms.cmake: PEAL_ROOMS lacks '{room}', which layers.toml has.")
    for room in sorted(built - set(tree.floor_of)):
        tree.breach(f"cmake/PealRooms.cmake: PEAL_ROOMS has '{room}', which stands on no floor in layers.toml.")


def without_comments(cmake: str) -> str:
    return re.sub(r"#[^\n]*", "", cmake)


def listed_after(keyword: str, call: str) -> list[str]:
    """The words after `keyword` in the arguments of a CMake call, up to the next keyword (all capitals)."""
    words = call.split()
    if keyword not in words:
        return []
    listed = []
    for word in words[words.index(keyword) + 1:]:
        if word.isupper():
            break
        listed.append(word)
    return listed


def check_room_folder(tree: Tree, folder: pathlib.Path) -> None:
    room = folder.name
    if room not in tree.floor_of:
        tree.breach(f"src/{room}: no such room in layers.toml; give it a floor there first.")
        return
    notes = folder / "ROOM.md"
    if not notes.exists():
        tree.breach(f"src/{room}/ROOM.md is missing: say what the room is for and what it must never know.")
    elif (lines := notes.read_text().count("\n")) > ROOM_MD_LINES:
        tree.breach(f"src/{room}/ROOM.md has {lines} lines; at most {ROOM_MD_LINES}.")
    include = folder / "include"
    for entry in sorted(include.iterdir()) if include.exists() else []:
        if entry.name != room:
            tree.breach(f"{tree.name(entry)}: a room's include root holds only {room}/, so that a word shows where it lives.")
    cmake = folder / "CMakeLists.txt"
    if not cmake.exists():
        return
    text = without_comments(cmake.read_text())
    named: set[str] = set()
    for call in re.findall(r"peal_room\(([^)]*)\)", text):
        if call.split()[:1] != [room]:
            tree.breach(f"src/{room}/CMakeLists.txt: peal_room() is called with '{call.split()[0] if call.split() else ''}', not '{room}'.")
        named.update(listed_after("USES", call))
    named.update(word for word in re.findall(r"\bpeal_(\w+)", text) if word in tree.floor_of)
    for other in sorted(named - tree.allowed(room)):
        tree.breach(f"src/{room}/CMakeLists.txt: '{room}' names '{other}', which layers.toml does not allow.")


def sources_under(folder: pathlib.Path):
    if folder.exists():
        for path in sorted(folder.rglob("*")):
            if path.suffix in SOURCE_ENDINGS and path.is_file():
                yield path


def check_includes(tree: Tree, path: pathlib.Path, allowed: set[str], who: str) -> None:
    for mark, raw in INCLUDE.findall(path.read_bytes()):
        name = raw.decode(errors="replace")
        first = name.split("/")[0] if "/" in name else ""
        if mark == b'"' and ".." in name.split("/"):
            # A test may take a header of another test folder: what that header names is checked where it stands.
            if tree.root / "tests" in path.parents and tree.root / "tests" in (path.parent / name).resolve().parents:
                continue
            tree.breach(f'{tree.name(path)}: #include "{name}" climbs out of its folder; name the room: <room/file.hpp>.')
        elif first in tree.floor_of and first not in allowed:
            tree.breach(f"{tree.name(path)}: #include <{name}>: {who} may not name '{first}'.")


def check_public_headers(tree: Tree) -> None:
    for path in sources_under(tree.root / "include"):
        for _, raw in INCLUDE.findall(path.read_bytes()):
            name = raw.decode(errors="replace")
            if not name.startswith("peal/") and name not in STANDARD_HEADERS:
                tree.breach(f"{tree.name(path)}: #include <{name}>: a public header includes only <peal/...> and the standard library.")


def check_tests(tree: Tree) -> None:
    tests = tree.root / "tests"
    for folder in sorted(p for p in tests.iterdir() if p.is_dir()) if tests.exists() else []:
        room = folder.name if folder.name in tree.floor_of else None
        linked: set[str] = set()
        cmake = folder / "CMakeLists.txt"
        if cmake.exists():
            text = without_comments(cmake.read_text())
            for call in re.findall(r"peal_(?:test|fuzz)\(([^)]*)\)", text):
                linked.update(listed_after("ROOMS", call))
            linked.update(word for word in re.findall(r"\bpeal_(\w+)", text) if word in tree.floor_of)
        closure = tree.closure([room] if room else linked)
        who = f"a test of '{room}'" if room else f"tests/{folder.name} (its ROOMS and what they use)"
        for other in sorted(linked - closure):
            tree.breach(f"tests/{folder.name}/CMakeLists.txt: {who} may not link '{other}'.")
        for path in sources_under(folder):
            check_includes(tree, path, closure, who)


def check(root: pathlib.Path) -> list[str]:
    tree = Tree(root)
    check_layers_file(tree)
    check_room_list(tree)
    src = root / "src"
    for folder in sorted(p for p in src.iterdir() if p.is_dir()) if src.exists() else []:
        check_room_folder(tree, folder)
        for path in sources_under(folder):
            check_includes(tree, path, tree.allowed(folder.name), f"'{folder.name}'")
    check_public_headers(tree)
    check_tests(tree)
    for path in sources_under(root / "examples"):
        check_includes(tree, path, set(), "an example (it sees the public headers only)")
    return tree.breaches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root.resolve()
    try:
        breaches = check(root)
    except (OSError, tomllib.TOMLDecodeError, ValueError) as error:
        print(f"check_layers: cannot read {root}/layers.toml or a file it governs: {error}", file=sys.stderr)
        return 2
    for sentence in breaches:
        print(sentence)
    if breaches:
        print(f"{len(breaches)} breaches of layers.toml. Move the code to the room where it belongs, or change layers.toml and say why.")
        return 1
    print("layers: every room names only what layers.toml allows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
