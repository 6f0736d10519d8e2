"""The address of a Ray cluster: whether it is written as one, and whether a cluster can be there.

Ray itself tries for minutes to reach what is not there. Hides the first bytes of the protocol by which a wrong port is
told from a cluster without waiting.
"""

import os
import re
import socket

from runner.errors import InputError

CONNECT_S = 5.0
ANSWER_S = 15.0
"""How long a machine that accepts connections may take to say something."""
_FORM = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:/@\[\]]+):(?P<port>[0-9]{1,5})")
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_SETTINGS = 4


def parse_address(address: str) -> tuple[str, int]:
    """Host and port. InputError where it is another kind of address."""
    match = _FORM.fullmatch(address)
    if match is not None and 0 < int(match["port"]) < 2**16:
        return match["host"].strip("[]"), int(match["port"])
    if address.startswith("ray://"):
        why = "ray:// is for clients outside the cluster; run jurybox on one of its nodes, with HOST:PORT"
    elif address in ("auto", "local"):
        why = "name the cluster as HOST:PORT" if address == "auto" else "leave the option out to judge on this machine"
    else:
        why = "must be HOST:PORT, as `ray start --head` prints it (its port is 6379 unless told otherwise)"
    raise InputError(f"address {address}: {why}")


def check_reachable(address: str) -> None:
    """InputError where nothing listens at the address, or something that cannot be Ray."""
    host, port = parse_address(address)
    absent = f"address {address}: no Ray cluster is there"
    try:
        connection = socket.create_connection((host, port), CONNECT_S)
    except TimeoutError:
        raise InputError(f"{absent}: no connection within {CONNECT_S:g} s; is a firewall between?") from None
    except OSError as error:
        raise InputError(f"{absent}: {error.strerror or error}; is `ray start --head` running?") from None
    with connection:
        # With TLS only Ray can tell.
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("0", "false", "") and not _is_grpc(connection):
            raise InputError(f"{absent}: something else answers at this port")


def unused_environment() -> str | None:
    """What to tell where the environment names a cluster and the command line does not."""
    named = os.environ.get("RAY_ADDRESS")
    return f"RAY_ADDRESS is not used: judging on this machine; --address {named} judges there" if named else None


def _is_grpc(connection: socket.socket) -> bool:
    connection.settimeout(ANSWER_S)
    head = b""
    try:
        connection.sendall(_HELLO)
        while len(head) < 9:
            received = connection.recv(9 - len(head))
            if not received:
                return False
            head += received
    except OSError:
        return False
    return head[3] == _SETTINGS and head[5:] == bytes(4)
