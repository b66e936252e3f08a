"""Has the process that others are forked from start the program, and ends as it ended: see ``forked``.

An interpreter that loads no more than this starts at a thirtieth of the cost: of ``socket``, ``signal`` and the like
only what is written in C. It is used as one file: ``forked`` imports it, too.
"""

import _signal as signal
import _socket as socket
import marshal
import os
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def begin(connection: socket.socket, program: dict[str, object], streams: list[int]) -> int:
    """Have a program started on three streams by who listens at the other end; return its number."""
    order = marshal.dumps(program)
    numbers = b"".join(each.to_bytes(4, sys.byteorder) for each in streams)
    connection.sendmsg([as_bytes(len(order))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
    connection.sendall(order)
    return read_number(connection)


def as_bytes(number: int) -> bytes:
    """Return what ``read_number`` reads as this number."""
    return number.to_bytes(4, "big")


def read_number(connection: socket.socket) -> int:
    """Return the next number.

    Raises:
        EOFError: who listens at the other end has ended.
    """
    data = read_all(connection, 4)
    if len(data) < 4:
        raise EOFError
    return int.from_bytes(data, "big")


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
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    child = begin(connection, {**program, "umask": umask, "seconds": int(seconds)}, [0, 1, 2])

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
