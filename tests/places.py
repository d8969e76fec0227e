"""A stranger's machine: no package of ours, no network, no home; for the tests of lone files and of the wheel."""

import os

NO_NETWORK = """
import socket
connect, find = socket.socket.connect, socket.getaddrinfo
here = ("127.0.0.1", "localhost", "::1", None, "")
def refuse(self, address):
    if isinstance(address, tuple) and address[0] not in here:
        raise OSError("this test has no network")
    return connect(self, address)
def nowhere(host, *rest, **more):
    if host not in here:
        raise OSError("this test has no network")
    return find(host, *rest, **more)
socket.socket.connect, socket.getaddrinfo = refuse, nowhere
"""


def bare(folder, **more):
    """The environment of a stranger: no package of ours, no network, no home, no language; `folder` holds the fence."""
    (folder / "sitecustomize.py").write_text(NO_NETWORK, "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LC_", "MHA_ENGLISH"))}
    return kept | {"PYTHONPATH": str(folder), "LANG": "C", "HOME": os.devnull + "/nobody", "MPLCONFIGDIR": ""} | more


def inside(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
