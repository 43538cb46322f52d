#!/usr/bin/env python3
"""Reads an NCCL topology XML as NCCL would, and says what NCCL would refuse.

  check_nccl_xml.py FILE           prints "ok: ..." or FILE:LINE: what is wrong; exit code 0 or 1
  check_nccl_xml.py --paths FILE   as JSON: for every two of its GPUs and nets the class and the GB/s that NCCL plans with

Independent of Peal's own reader and writer: it judges both. Element and attribute names, rates and rules: NCCL 5067397c src/graph/xml.cc,
topo.h and topo.cc; RCCL's additions (version 2, xgmi, gcn, arch) 0cbce2a7571c. A file that leaves facts to NCCL's own detection is accepted.
"""
import json
import re
import sys

CHILDREN = {
    "system": {"cpu"},
    "cpu": {"pci", "nic"},
    "pci": {"pci", "gpu", "nic", "pcilink"},
    "gpu": {"nvlink", "xgmi", "c2c"},
    "nic": {"net"},
    "nvlink": set(), "xgmi": set(), "c2c": set(), "net": set(), "pcilink": set(),
}
LONGEST_VALUE, MOST_ATTRIBUTES, MOST_CHILDREN = 255, 16, 640
BUS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$")
HIDDEN = re.compile(r"f{7}:f{2,4}:f{2}(\.0)?$")
CLASS = re.compile(r"0x[0-9a-f]{6}$")
HEX = re.compile(r"(0x)?[0-9a-f]{1,16}$")
MASK = re.compile(r"[0-9a-f]{1,8}(,[0-9a-f]{8})*$")
# In units of 100 Mbit/s a lane; the first whose beginning matches is taken.
SPEEDS = [("2.5 GT/s", 15), ("5 GT/s", 30), ("8 GT/s", 60), ("16 GT/s", 120), ("32 GT/s", 240),
          ("5.0 GT/s", 30), ("8.0 GT/s", 60), ("16.0 GT/s", 120), ("32.0 GT/s", 240), ("64.0 GT/s PCIe", 480)]
LOCAL_GBPS = 5000.0


class Refused(Exception):
    def __init__(self, line, why):
        super().__init__(why)
        self.line = line


class Element:
    def __init__(self, name, attributes, line):
        self.name, self.attributes, self.line, self.children = name, attributes, line, []

    def get(self, key, otherwise=None):
        return self.attributes.get(key, otherwise)

    def all(self, name):
        return [c for c in self.children if c.name == name]


def parse(text):
    """The root element. Only what NCCL's reader understands: no declaration, no entities, no text, blanks between attributes."""
    at, line, stack, root = 0, 1, [], None
    while at < len(text):
        if text[at].isspace():
            line += text[at] == "\n"
            at += 1
            continue
        if text.startswith("<!--", at):
            end = text.find("-->", at)
            if end < 0:
                raise Refused(line, "a comment does not end")
            line += text.count("\n", at, end)
            at = end + 3
            continue
        tag = re.compile(r"<(/?)([A-Za-z_]\w*)((?: +[\w:]+=(?:\"[^\"<>\n]*\"|'[^'<>\n]*'))*) *(/?)>").match(text, at)
        if not tag:
            raise Refused(line, f"no tag that NCCL reads: {text[at:at + 40]!r}")
        closes, name, words, empty = tag.groups()
        at = tag.end()
        if closes:
            if not stack or stack[-1].name != name:
                raise Refused(line, f"</{name}> closes nothing")
            stack.pop()
            continue
        attributes = {}
        for key, double, single in re.findall(r"([\w:]+)=(?:\"([^\"]*)\"|'([^']*)')", words):
            if key in attributes:
                raise Refused(line, f"{name}: attribute {key} is there twice")
            attributes[key] = double or single
            if len(attributes[key]) > LONGEST_VALUE:
                raise Refused(line, f"{name} {key}: longer than {LONGEST_VALUE} letters")
        if len(attributes) > MOST_ATTRIBUTES:
            raise Refused(line, f"{name}: {len(attributes)} attributes, NCCL keeps {MOST_ATTRIBUTES}")
        element = Element(name, attributes, line)
        if stack:
            stack[-1].children.append(element)
            if len(stack[-1].children) > MOST_CHILDREN:
                raise Refused(line, f"more than {MOST_CHILDREN} elements in one {stack[-1].name}")
        elif root is not None:
            raise Refused(line, f"<{name}> stands beside the root")
        else:
            root = element
        if not empty:
            stack.append(element)
    if stack:
        raise Refused(line, f"<{stack[-1].name}> of line {stack[-1].line} does not end")
    if root is None:
        raise Refused(line, "no element at all")
    return root


def number(element, key, low, high, must=False):
    text = element.get(key)
    if text is None:
        if must:
            raise Refused(element.line, f"{element.name} has no {key}, and NCCL must know it")
        return None
    if not re.fullmatch(r"-?\d+", text) or not low <= int(text) <= high:
        raise Refused(element.line, f'{element.name} {key}="{text}" is no whole number from {low} to {high}')
    return int(text)


def matches(element, key, pattern, what, must=False):
    text = element.get(key)
    if text is None and must:
        raise Refused(element.line, f"{element.name} has no {key}")
    if text is not None and not pattern.match(text):
        raise Refused(element.line, f'{element.name} {key}="{text}" is no {what}')


def check_cpu(cpu, seen):
    key = (cpu.get("host_hash"), number(cpu, "numaid", -1, 4095))
    if key in seen:
        raise Refused(cpu.line, f"cpu numaid={key[1]} is there twice")
    seen.add(key)
    matches(cpu, "host_hash", HEX, "hexadecimal number")
    if cpu.get("affinity"):
        matches(cpu, "affinity", MASK, "mask of 32-bit words")
    if cpu.get("arch") not in (None, "x86_64", "arm64", "ppc64"):
        raise Refused(cpu.line, f'cpu arch="{cpu.get("arch")}": NCCL knows x86_64, arm64 and ppc64')
    if cpu.get("vendor") == "GenuineIntel":
        number(cpu, "familyid", 0, 4095, must=True)
        number(cpu, "modelid", 0, 4095, must=True)


def check_gpu(gpu):
    number(gpu, "dev", 0, 1 << 20)
    number(gpu, "rank", 0, 1 << 20)
    number(gpu, "gdr", 0, 1)
    number(gpu, "sm", 10, 999)
    for row in gpu.children:
        number(row, "count", 1, 10000, must=True)
        if row.name == "c2c":
            number(row, "bw", 1, 10_000_000, must=True)
            continue
        if not HIDDEN.match(row.get("target", "")):
            matches(row, "target", BUS, "bus id", must=True)
        matches(row, "tclass", CLASS, "PCI class", must=True)


def check_net(net):
    number(net, "dev", 0, 1 << 20)
    number(net, "speed", -1, 1_000_000_000)
    number(net, "port", 0, 255)
    number(net, "maxconn", 0, 1 << 24)
    matches(net, "guid", HEX, "hexadecimal number")
    for key in ("gdr", "coll", "net", "gin", "rma"):
        number(net, key, 0, 1)
    try:
        float(net.get("latency", "0"))
    except ValueError:
        raise Refused(net.line, f'net latency="{net.get("latency")}" is no number') from None


def check(root):
    """Raises Refused at the first thing that NCCL would refuse or take for something else."""
    if root.name != "system":
        raise Refused(root.line, f"the root is <{root.name}>: NCCL wants <system>")
    version = number(root, "version", 1, 2, must=True)
    cpus, ranks, gpus, links = set(), {}, {}, {}

    def visit(e, host, buses):
        if e.name not in CHILDREN:
            raise Refused(e.line, f"<{e.name}> is no element that NCCL knows")
        for c in e.children:
            if c.name not in CHILDREN[e.name]:
                raise Refused(c.line, f"<{c.name}> cannot stand in <{e.name}>")
        if e.name == "pci":
            matches(e, "busid", BUS, "bus id", must=True)
            if e.get("busid") in buses:
                raise Refused(e.line, f"bus id {e.get('busid')} is there twice")
            buses.add(e.get("busid"))
            matches(e, "class", CLASS, "PCI class")
            for key in ("vendor", "device", "subsystem_vendor", "subsystem_device"):
                matches(e, key, HEX, "hexadecimal number")
            speed = e.get("link_speed")
            if speed and not any(speed.startswith(s) for s, _ in SPEEDS):
                raise Refused(e.line, f'pci link_speed="{speed}": NCCL knows no such speed')
            if e.get("link_width"):
                number(e, "link_width", 0, 32)
        elif e.name == "gpu":
            check_gpu(e)
            rank = e.get("rank")
            if rank is not None and rank in ranks:
                raise Refused(e.line, f"rank {rank} is there twice, first in line {ranks[rank]}")
            ranks[rank] = e.line
        elif e.name == "net":
            check_net(e)
        elif e.name == "xgmi" and version != 2:
            raise Refused(e.line, "xgmi is RCCL's, whose version is 2")
        for c in e.children:
            if e.name == "pci" and c.name == "gpu":
                gpus[(host, e.get("busid"))] = c
            visit(c, host, buses)

    by_host = {}
    for cpu in root.children:
        if cpu.name == "cpu":
            check_cpu(cpu, cpus)
        visit(cpu, cpu.get("host_hash"), by_host.setdefault(cpu.get("host_hash"), set()))
    for (host, bus), gpu in gpus.items():
        for row in gpu.children:
            if row.name in ("nvlink", "xgmi") and (host, row.get("target")) in gpus:
                links[(host, bus, row.get("target"))] = (int(row.get("count")), row.line)
    for (host, a, b), (count, line) in links.items():
        back = links.get((host, b, a))
        if back is None or back[0] != count:
            raise Refused(line, f"{a} has {count} links to {b}, which has {back[0] if back else 0} back")


# ---- what NCCL makes of it ----

def per_link(sm):
    for least, rate in ((100, 40.1), (90, 20.6), (86, 12.0), (80, 20.0), (70, 20.0), (60, 18.0)):
        if sm >= least and not (least == 86 and sm != 86):
            return rate
    return 20.0


def pci_rate(pci):
    text = pci.get("link_speed") or ""
    speed = next((v for s, v in SPEEDS if text.startswith(s)), 60)
    return (int(pci.get("link_width") or 0) or 16) * speed / 80


def packed_ids(pci):
    """vendor, device and subsystem in one number, the variant of the chip left out; 0 where the file does not say."""
    words = [pci.get(k) for k in ("vendor", "device", "subsystem_vendor", "subsystem_device")]
    return 0 if None in words else int("".join(f"{int(w, 16):04x}" for w in words), 16) & ~0xFFF


def is_one_switch(parent, child):
    """Broadcom switches show as two tiers what is one chip: NCCL hangs the child's devices on the parent."""
    pairs = {(0x1000C0101000A000, 0x1000C0101000A000), (0x1000C03010000000, 0x1000C03010001000)}
    return (packed_ids(parent), packed_ids(child)) in pairs


def between_cpus(cpu):
    arch, vendor = cpu.get("arch"), cpu.get("vendor")
    if arch == "ppc64":
        return 32.0
    if arch == "arm64":
        return 6.0
    if arch == "x86_64" and vendor == "GenuineIntel":
        family, model = int(cpu.get("familyid")), int(cpu.get("modelid"))
        if family == 6:
            return next(rate for least, rate in ((0xCF, 40.0), (0x8F, 22.0), (0x55, 10.0), (0, 6.0)) if model >= least)
        return 6.0
    if arch == "x86_64" and vendor in ("AuthenticAMD",):
        return 16.0
    return LOCAL_GBPS


class System:
    """NCCL's graph of the file: nodes by name, links {node: [(other, kind, GB/s)]}."""

    def __init__(self, root):
        self.links, self.kinds, self.gpus, self.nets = {}, {}, {}, {}
        self.facts = {}  # what NCCL reads beside the links, by node
        self.rows = []
        self.hosts = {}
        for cpu in root.all("cpu"):
            host = self.hosts.setdefault(cpu.get("host_hash", "0x0"), len(self.hosts))
            name = f"cpu {host} {cpu.get('numaid', '0')}"
            self.node(name, "cpu")
            self.facts[name] = {k: cpu.get(k) for k in ("arch", "vendor", "familyid", "modelid", "affinity")}
            self.below(cpu, name, host, name)
        for gpu, row, host, cpu in self.rows:
            self.gpu_row(gpu, row, host, cpu)
        cpus = [(c, root_cpu) for c, root_cpu in zip([n for n, k in self.kinds.items() if k == "cpu"], root.all("cpu"))]
        for i, (a, element) in enumerate(cpus):
            for b, _ in cpus[i + 1:]:
                if a.split()[1] == b.split()[1]:
                    self.join(a, b, "SYS", between_cpus(element))

    def node(self, name, kind):
        self.kinds.setdefault(name, kind)
        self.links.setdefault(name, [])

    def join(self, a, b, kind, rate):
        for x, y in ((a, b), (b, a)):
            for i, (other, k, r) in enumerate(self.links[x]):
                if other == y and k == kind:
                    self.links[x][i] = (other, k, r + rate)
                    break
            else:
                self.links[x].append((y, kind, rate))

    def below(self, element, parent, host, cpu):
        for nic in element.all("nic") if element.name == "cpu" else []:
            self.nic(nic, f"nic {host} local", host)
            if f"nic {host} local" in self.kinds:
                self.join(f"nic {host} local", parent, "PCI", LOCAL_GBPS)
        for pci in element.all("pci"):
            bus = f"{host} {pci.get('busid')}"
            nets = [n for nic in pci.all("nic") for n in nic.all("net") if n.get("dev") is not None]
            ranked = [g for g in pci.all("gpu") if g.get("rank") is not None]
            if pci.all("gpu"):
                for gpu in ranked:
                    name = f"gpu {bus} {gpu.get('mlopart', '')}".strip()
                    self.node(name, "gpu")
                    self.gpus[int(gpu.get("rank"))] = name
                    self.facts[name] = {k: gpu.get(k) for k in ("dev", "sm", "rank", "gdr", "gcn", "mlopart")}
                    self.join(name, parent, "PCI", pci_rate(pci))
                    for row in gpu.children:
                        self.rows.append((name, row, host, cpu))
            elif nets:
                name = f"nic {bus[:-1]}0"
                for nic in pci.all("nic"):
                    self.nic(nic, name, host)
                self.join(name, parent, "PCI", pci_rate(pci))
            elif (pci.get("class") or "")[:4] != "0x02" and pci.all("pci"):
                if element.name == "pci" and is_one_switch(element, pci):
                    self.below(pci, parent, host, cpu)
                    continue
                self.node(f"pci {bus}", "pci")
                self.facts[f"pci {bus}"] = {"ids": tuple(pci.get(k) for k in ("vendor", "device", "subsystem_vendor", "subsystem_device"))}
                self.join(f"pci {bus}", parent, "PCI", pci_rate(pci))
                self.below(pci, f"pci {bus}", host, cpu)

    def nic(self, nic, name, host):
        for net in nic.all("net"):
            if net.get("dev") is None:
                continue
            self.node(name, "nic")
            node = f"net {host} {net.get('dev')}"
            if node in self.kinds:
                continue  # the same socket below another CPU
            self.node(node, "net")
            self.nets[node] = net.get("name")
            speed = int(net.get("speed", "0"))
            self.facts[node] = {k: net.get(k) for k in ("name", "port", "guid", "maxconn", "gdr", "coll", "net", "gin", "rma", "rail", "plane")}
            self.facts[node]["latency"] = float(net.get("latency", "0"))
            self.join(node, name, "NET", (speed if speed > 0 else 10000) / 8000)

    def gpu_row(self, gpu, row, host, cpu):
        if row.name == "c2c":
            self.join(gpu, cpu, "C2C", int(row.get("bw")) * int(row.get("count")) / 1000)
            return
        sm = int(self.facts[gpu]["sm"] or 0)
        rate = int(row.get("count")) * (48.0 if row.name == "xgmi" else per_link(sm))
        target, kind = row.get("target"), row.get("tclass") or ""
        if kind.startswith("0x068000") or HIDDEN.match(target):
            self.node("nvs", "nvs")
            self.join(gpu, "nvs", "NVL", rate)
        elif kind.startswith("0x068001"):
            self.join(gpu, cpu, "NVL", rate)
        else:
            peer = next((n for n in self.gpus.values() if n.startswith(f"gpu {host} {target}")), None)
            if peer and gpu < peer:
                self.join(gpu, peer, "NVL", rate)

    def path(self, a, b):
        """Class and GB/s of the way with the fewest links, the widest of those; GPUs and NICs relay nothing."""
        best = {a: (0, float("inf"), "LOC")}
        ring = [a]
        order = ["LOC", "NVL", "C2C", "PIX", "PXB", "PHB", "SYS", "NET"]
        while ring and b not in best:
            found = {}
            for at in ring:
                if at != a and self.kinds[at] in ("gpu", "net") or (at != a and self.kinds[at] == "nic" and b not in [o for o, _, _ in self.links[at]]):
                    continue
                for other, kind, rate in self.links[at]:
                    if other in best:
                        continue
                    word = kind if kind in ("NVL", "C2C", "SYS") else "PIX"
                    if kind == "NET":
                        word = "LOC"
                    if kind == "PCI" and self.kinds[at] == "pci" and self.kinds[other] == "pci":
                        word = "PXB"
                    if kind == "PCI" and "cpu" in (self.kinds[at], self.kinds[other]):
                        word = "PHB"
                    step = (best[at][0] + 1, min(best[at][1], rate), max(best[at][2], word, key=order.index))
                    if other not in found or step[1] > found[other][1]:
                        found[other] = step
            best.update(found)
            ring = list(found)
        return best.get(b)

    def summary(self):
        """Everything that NCCL knows of the file, in one comparable value."""
        links = sorted((*sorted((a, b)), kind, round(rate, 6)) for a, row in self.links.items() for b, kind, rate in row if a < b)
        return {"gpus": self.gpus, "nets": self.nets, "facts": self.facts, "links": links}

    def pairs(self):
        gpus = [(f"gpu{r}", n) for r, n in sorted(self.gpus.items())]
        nets = [(name, n) for n, name in self.nets.items()]
        rows = []
        for i, (a, at) in enumerate(gpus + nets):
            for b, to in (gpus + nets)[i + 1:]:
                way = self.path(at, to)
                if way:
                    rows.append({"a": a, "b": b, "class": way[2], "GBps": round(way[1], 3)})
        return rows


def load(text):
    root = parse(text)
    check(root)
    return System(root)


def main(arguments):
    wants_paths = "--paths" in arguments
    files = [a for a in arguments if a != "--paths"]
    if len(files) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with open(files[0], encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    try:
        system = load(text)
    except Refused as refused:
        print(f"{files[0]}:{refused.line}: {refused}")
        return 1
    if wants_paths:
        print(json.dumps(system.pairs(), indent=1))
    else:
        print(f"ok: {len(system.gpus)} GPUs, {len(system.nets)} nets, {sum(map(len, system.links.values())) // 2} links")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
