#!/usr/bin/env python3
"""What `peal topo --file F --json` understands of every file of a folder, as a table.

    tools/write_import_table.py [--peal build/release/bin/peal] [--markdown] [FOLDER]

One row a file: form, devices by kind, links by kind (wires), warnings. FOLDER is ../shared/data beside the source tree unless it is given;
with an INDEX.md of lines "- `name` | what it is | ..." what the index says of a file stands in the last column. Files of no form that
Peal reads are counted in the last line. Exits with 1 when a file that the tool takes on ends it by a signal or with no sentence.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Folders of a collection that hold machines and networks; what lies beside them (traces, plans) is no topology.
FOLDERS = ("hwloc", "nccl-graph", "nccl-topo", "npu-smi-topo", "nvidia-smi-nvlink", "nvidia-smi-topo", "rocm-smi-topo", "slurm", "topograph")


def read_index(folder: pathlib.Path) -> dict[str, str]:
    index = folder / "INDEX.md"
    if not index.is_file():
        return {}
    entries = re.findall(r"^- `([^`]+)` \| ([^|]+) \|", index.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: text.strip() for name, text in entries}


def counts(graph: dict) -> tuple[str, str]:
    devices = collections.Counter(device["kind"] for device in graph["devices"])
    links: collections.Counter = collections.Counter()
    for link in graph["links"]:
        links[link["kind"]] += link["count"]
    words = [", ".join(f"{n} {kind}" for kind, n in counted.items()) for counted in (devices, links)]
    return words[0] or "none", words[1] or "none"


def understand(peal: str, path: pathlib.Path) -> dict:
    """{"form", "devices", "links", "warnings"} of a file, or {"error"}; "crash" where the tool ended without a sentence."""
    command = [peal, "topo", "--file", str(path)]
    done = subprocess.run([*command, "--json", "-"], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        sentence = done.stderr.strip().splitlines()
        if done.returncode < 0 or not sentence:
            return {"crash": f"ended with {done.returncode}"}
        return {"error": sentence[0].replace(str(path), path.name)}
    graph = json.loads(done.stdout)
    devices, links = counts(graph)
    # The form stands at the end of the title, the first line that a person sees.
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout
    form = re.search(r"\(([^()]+)\)$", shown.partition("\n")[0])
    return {"form": form.group(1) if form else "", "devices": devices, "links": links, "warnings": len(graph["warnings"])}


def rows_of(peal: str, folder: pathlib.Path) -> list[dict]:
    index = read_index(folder)
    rows = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        in_known = name.split("/")[0] in FOLDERS or not any((folder / known).is_dir() for known in FOLDERS)
        if path.is_file() and path.name != "INDEX.md" and in_known:
            rows.append({"file": name, "index": index.get(name, ""), **understand(peal, path)})
    return rows


def table(rows: list[dict], markdown: bool) -> str:
    head = ["file", "form", "devices", "links", "warnings", "index"]
    body = [[r["file"], r.get("form", ""), r.get("devices") or r.get("error") or r["crash"], r.get("links", ""), str(r.get("warnings", "")),
             r["index"]] for r in rows]
    if markdown:
        lines = [head, ["---"] * len(head), *body]
        return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)
    widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in [head, *body])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peal", default=str(ROOT / "build/release/bin/peal"))
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT.parent / "shared/data")
    words = parser.parse_args(arguments)
    if not words.folder.is_dir():
        print(f"{words.folder} is no folder; name one that holds topology files", file=sys.stderr)
        return 2
    rows = rows_of(words.peal, words.folder)
    print(table(rows, words.markdown))
    failed = sum("error" in row for row in rows)
    crashed = sum("crash" in row for row in rows)
    print(f"\n{len(rows)} files, {len(rows) - failed - crashed} understood, {failed} refused with a sentence, {crashed} crashed")
    return 1 if crashed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
