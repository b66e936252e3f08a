"""Has the process that others are forked from start the program, and ends as it ended: see ``forked``.

An interpreter that loads no more than this starts at a thirtieth of the cost. It is used as one file: ``forked``
imports it, too.
"""

import json
import os
import signal
import socket
import struct
import sys

NUMBER = struct.Struct("i")
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def begin(path: str, program: dict[str, object], streams: list[int]) -> tuple[socket.socket, int]:
    """Have a program started on three streams; return what will tell of its end, and its number."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    order = json.dumps(program).encode()
    socket.send_fds(connection, [NUMBER.pack(len(order))], streams)
    connection.sendall(order)
    return connection, read_number(connection)


def read_number(connection: socket.socket) -> int:
    """Return the next number."""
    return NUMBER.unpack(read_all(connection, NUMBER.size))[0]


def read_all(connection: socket.socket, size: int) -> bytes:
    """Return ``size`` bytes, or all before the end; a signal would cut short a single call that waits for all."""
    data = b""
    while len(data) < size and (part := connection.recv(size - len(data))):
        data += part
    return data


def _main(path: str, module: str, seconds: str, *args: str) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until there is one to pass them on to
    umask = os.umask(0)
    os.umask(umask)
    program = {"module": module, "args": args, "folder": os.getcwd(), "environ": dict(os.environ)}
    connection, child = begin(path, {**program, "umask": umask, "seconds": int(seconds)}, [0, 1, 2])

    def pass_on(sign: int, _: object) -> None:
        try:
            os.kill(child, sign)
        except ProcessLookupError:
            """The program has ended, and its status follows."""

    for each in PASSED_ON:
        signal.signal(each, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    status = os.waitstatus_to_exitcode(read_number(connection))
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    _main(*sys.argv[1:])
