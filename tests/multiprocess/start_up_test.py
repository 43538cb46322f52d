#!/usr/bin/env python3
"""Meeting over TCP on the loopback: what can go wrong, and strangers at the door."""
import os
import secrets
import shutil
import socket
import subprocess
import threading
import time
import unittest

import harness

BENCH = ("bench", "all_reduce", "-b", 8, "-e", 8, "--iters", 5, "--check")


def can_make_a_network() -> bool:
    return shutil.which("unshare") is not None and subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode == 0


class StartUp(harness.ToolCase):
    deadline_s = 40

    def setUp(self):
        super().setUp()
        self.port = harness.free_port()
        self.key = self.folder / "key"
        self.key.write_text(secrets.token_hex(32))
        self.key.chmod(0o600)

    def environment(self, rank: int, ranks: int, timeout_s: int = 2, **more) -> dict:
        return {"PEAL_RANK": rank, "PEAL_SIZE": ranks, "PEAL_ROOT": f"127.0.0.1:{self.port}", "PEAL_KEY_FILE": self.key, "PEAL_JOB": "test",
                "PEAL_START_TIMEOUT": timeout_s, **more}

    def start_rank(self, rank: int, ranks: int, timeout_s: int = 20, **more):
        return self.start(*BENCH, env=self.environment(rank, ranks, timeout_s, **more))

    def connect(self) -> socket.socket:
        """Waits for rank 0 to listen."""
        give_up = time.monotonic() + 15
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout=5)
            except ConnectionRefusedError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.05)

    def assert_job_is_right(self, root) -> None:
        """The other rank comes, the job runs, nothing stays."""
        other = self.start_rank(1, 2)
        self.assert_right(self.finish(root))
        self.assert_right(self.finish(other))
        self.assert_nothing_left(root.pid)
        self.assertFalse(harness.is_listening(self.port))

    def test_fewer_ranks_than_promised_are_named(self):
        self.assert_refused(self.peal(*BENCH, env=self.environment(0, 4)), "ranks 1, 2 and 3 of 4 did not come within 2 s", str(self.port),
                            "PEAL_START_TIMEOUT")
        self.assertFalse(harness.is_listening(self.port))

    def test_fewer_ranks_than_promised_on_one_host(self):
        done = self.peal(*BENCH, env={"PEAL_RANK": 0, "PEAL_SIZE": 2, "PEAL_ROOT": f"unix:{self.mark}", "PEAL_START_TIMEOUT": 2})
        self.assert_refused(done, "rank 1 of 2 did not come within 2 s", self.mark)

    def test_the_ranks_that_came_say_who_is_missing(self):
        ranks = [self.start_rank(r, 3, timeout_s=3) for r in (0, 1)]
        for rank in ranks:
            self.assert_refused(self.finish(rank), "rank 2")
        self.assert_nothing_left(ranks[0].pid)

    def test_nobody_listens(self):
        self.assert_refused(self.peal(*BENCH, env=self.environment(1, 2)), "could not reach rank 0", str(self.port), "address is wrong")

    def test_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", self.port))
            taken.listen()
            done = self.peal(*BENCH, env=self.environment(0, 2))
        self.assert_refused(done, "port taken", str(self.port), "another port")

    def test_a_listener_that_is_no_rank(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", self.port))
            taken.listen()
            self.assert_refused(self.peal(*BENCH, env=self.environment(1, 2)), "rank 1 could not reach rank 0", str(self.port))

    @unittest.skipUnless(can_make_a_network(), "no network namespace can be made here (unshare -rn)")
    def test_a_host_that_cannot_be_reached(self):
        done = self.peal(*BENCH, env=self.environment(1, 2, PEAL_ROOT=f"10.99.0.1:{self.port}"), prefix=("unshare", "-rn"))
        self.assert_refused(done, "unreachable", "10.99.0.1", "PEAL_INTERFACE")

    def test_an_address_that_is_none(self):
        self.assert_refused(self.peal(*BENCH, env=self.environment(0, 2, PEAL_ROOT="127.0.0.1:99999")), "PEAL_ROOT", "99999", "unix:NAME")

    def test_a_rank_that_is_not_below_the_size(self):
        self.assert_refused(self.peal(*BENCH, env=self.environment(5, 2)), "PEAL_RANK=5", "PEAL_SIZE=2", "0 to 1")

    def test_a_key_is_needed_over_tcp(self):
        self.assert_refused(self.peal(*BENCH, env=self.environment(0, 2, PEAL_KEY_FILE="")), "need a key", "PEAL_KEY_FILE")

    def test_a_key_that_others_may_read(self):
        self.key.chmod(0o644)
        self.assert_refused(self.peal(*BENCH, env=self.environment(0, 2)), str(self.key), "chmod")

    def test_a_key_that_is_none(self):
        self.key.write_text("secret")
        self.assert_refused(self.peal(*BENCH, env=self.environment(0, 2)), str(self.key), "64 hexadecimal", "openssl")

    def test_a_wrong_key_does_not_get_in(self):
        wrong = self.folder / "wrong"
        wrong.write_text(secrets.token_hex(32))
        wrong.chmod(0o600)
        root = self.start_rank(0, 2)
        intruder = self.finish(self.start_rank(1, 2, timeout_s=3, PEAL_KEY_FILE=wrong))
        self.assert_refused(intruder, "key")
        self.assert_job_is_right(root)

    def test_strangers_who_send_bytes_do_not_disturb(self):
        root = self.start_rank(0, 2)
        for junk in (b"", b"\0" * 4096, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(65536), b"\xff" * 8, b"PEAL" + b"\xff" * 100):
            with self.connect() as stranger:
                try:
                    stranger.sendall(junk)
                    stranger.shutdown(socket.SHUT_WR)
                    while stranger.recv(4096):
                        pass
                except OSError:  # turned away already: reset, or not connected any more
                    pass
        self.assert_job_is_right(root)

    def test_strangers_who_say_nothing_do_not_keep_the_ranks_out(self):
        root = self.start_rank(0, 2)
        strangers = [self.connect() for _ in range(40)]
        try:
            self.assert_job_is_right(root)
        finally:
            for stranger in strangers:
                stranger.close()

    def test_a_stranger_who_sends_without_end_does_not_keep_the_ranks_out(self):
        root = self.start_rank(0, 2)
        stranger = self.connect()
        ended = threading.Event()

        def flood():
            try:
                while not ended.is_set():
                    stranger.sendall(os.urandom(16384))
            except OSError:
                pass

        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        try:
            self.assert_job_is_right(root)
        finally:
            ended.set()
            stranger.close()
            thread.join(5)


if __name__ == "__main__":
    harness.main()
