"""A long cable: hands every frame that arrives at one of two devices on to the other, some time later.

    long_cable.py DEVICE DEVICE MICROSECONDS

Runs in the network namespace of both. Frames pass with their offload header, so large and unchecked ones arrive as they were sent."""

import collections
import select
import socket
import sys
import time

ETH_P_ALL = 0x0003
SOL_PACKET = 263
PACKET_VNET_HDR = 15
PACKET_OUTGOING = 4
LARGEST = 10 + 14 + 65536


def open_end(device):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    end.bind((device, ETH_P_ALL))
    end.setblocking(False)
    return end


def main():
    ends = [open_end(device) for device in sys.argv[1:3]]
    delay = float(sys.argv[3]) * 1e-6
    waiting = collections.deque()  # (when it is due, which end it leaves by, the frame)
    while True:
        pause = None if not waiting else max(0.0, waiting[0][0] - time.monotonic())
        for end in select.select(ends, [], [], pause)[0]:
            while True:
                try:
                    frame, address = end.recvfrom(LARGEST)
                except BlockingIOError:
                    break
                if address[2] != PACKET_OUTGOING:
                    waiting.append((time.monotonic() + delay, 1 - ends.index(end), frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, which, frame = waiting.popleft()
            try:
                ends[which].send(frame)
            except OSError:
                pass  # a cable loses what does not fit


main()
