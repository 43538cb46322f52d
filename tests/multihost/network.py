"""Hosts for tests: network namespaces with unique names, joined by veth pairs to a bridge that has a namespace of its own.

Their addresses (192.168.x.y, fd00:x::y) exist inside the namespaces only; nothing can leave them."""

import json
import os
import signal
import subprocess
import sys
import time


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def why_not():
    """Empty where namespaces can be made, else the reason."""
    name = f"peal-probe-{os.getpid()}"
    try:
        ip("netns", "add", name)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        return str(error)
    subprocess.run(["ip", "netns", "del", name], timeout=20, check=False)
    return ""


class Network:
    """`count` hosts; host i has 192.168.77.(i+1) and fd00:77::(i+1) on eth0, 192.168.78.(i+1) on eth1.

    `racks`: the rack of each host, 0 or 1. The racks' bridges are then joined by a cable on which every frame of eth0 takes `cable_us` longer."""

    def __init__(self, count, racks=None, cable_us=300):
        self.racks = racks or [0] * count
        self.cable_us = cable_us
        self.prefix = f"peal{os.getpid()}x{time.monotonic_ns() % 100000}"
        self.hosts = [f"{self.prefix}h{i}" for i in range(count)]
        self.made = []
        self.processes = []

    def __enter__(self):
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self):
        switch = f"{self.prefix}s"
        for name in [switch, *self.hosts]:
            ip("netns", "add", name)
            self.made.append(name)
            ip("-n", name, "link", "set", "lo", "up")
        bridges = ["br0", "br1"] + (["br0far"] if any(self.racks) else [])
        for bridge in bridges:
            ip("-n", switch, "link", "add", bridge, "type", "bridge")
            ip("-n", switch, "link", "set", bridge, "up")
        for i, host in enumerate(self.hosts):
            for net in (0, 1):
                ip("-n", switch, "link", "add", f"p{i}n{net}", "type", "veth", "peer", "name", f"eth{net}", "netns", host)
                bridge = "br0far" if net == 0 and self.racks[i] else f"br{net}"
                ip("-n", switch, "link", "set", f"p{i}n{net}", "master", bridge, "up")
                ip("-n", host, "addr", "add", f"192.168.{77 + net}.{i + 1}/24", "dev", f"eth{net}")
                if net == 0:
                    ip("-n", host, "addr", "add", f"fd00:77::{i + 1}/64", "dev", "eth0", "nodad")
                ip("-n", host, "link", "set", f"eth{net}", "up")
        if any(self.racks):
            self._join(switch)

    def _join(self, switch):
        for end, bridge in (("near", "br0"), ("far", "br0far")):
            ip("-n", switch, "link", "add", f"{end}-port", "type", "veth", "peer", "name", end)
            ip("-n", switch, "link", "set", f"{end}-port", "master", bridge, "up")
            ip("-n", switch, "link", "set", end, "up")
        cable = [sys.executable, "-B", os.path.join(os.path.dirname(os.path.abspath(__file__)), "long_cable.py"), "near", "far", str(self.cable_us)]
        self.processes.append(subprocess.Popen(["ip", "netns", "exec", switch, *cable], start_new_session=True))

    def start(self, host, command, environment=None):
        """A process on a host, in a group of its own, with its output as text in two pipes."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.hosts[host], *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        self.processes.append(process)
        return process

    def sent(self):
        """Bytes that have left each host by eth0, as the kernel counts them there."""
        counts = []
        for host in self.hosts:
            done = subprocess.run(["ip", "-n", host, "-s", "-j", "link", "show", "eth0"], capture_output=True, timeout=20, check=True)
            counts.append(json.loads(done.stdout)[0]["stats64"]["tx"]["bytes"])
        return counts

    def pids(self, host):
        done = subprocess.run(["ip", "netns", "pids", self.hosts[host]], capture_output=True, text=True, timeout=20, check=False)
        return [int(word) for word in done.stdout.split()]

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                process.communicate(timeout=10)
            except (subprocess.TimeoutExpired, ValueError):
                pass
        # What is in the test's own namespaces is the test's own.
        for host in range(len(self.hosts)):
            for pid in self.pids(host) if self.hosts[host] in self.made else []:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for name in reversed(self.made):
            subprocess.run(["ip", "netns", "del", name], timeout=20, check=False)
        self.made = []
