"""What the code of a submission may do on this machine: compute, and read the course and Python, nothing else.

`close(…)` is called inside the process that will run the submission, before any of its code, and nothing in that
process can open the fence again.  Three kinds, the strongest that the machine has:

- "kernel" (Linux from 5.13 on, x86-64 and ARM): Landlock lets it read the folders it is given and write nothing;
  a filter of system calls refuses new processes and threads, signals, sockets, the settings of other processes and of
  files.  Neither needs root, a container or a package.  Root's powers are given up first.
- "macOS": Apple's sandbox-exec starts the process with a profile that says the same.  Where it will not start, the
  next is taken; `make grade` says which one was in force.
- "Python" (elsewhere): an audit hook refuses the same to Python code.  It stops accidents and simple malice, but not
  somebody who knows Python's inside: there grade only those whom you trust.

Memory and time are watched from outside, by `apart`.  What no fence does: hide that a file exists; stop who finds a
hole in the kernel, or in the list of system calls below, which names what is refused, not what is allowed.  It is made
for a class.  For the code of strangers take a machine of its own.
"""

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None

# System calls that are refused, by their numbers on x86-64 and ARM; on ARM some are not there.
MACHINES, ARCHITECTURES = {"x86_64": 0, "aarch64": 1}, (0xC000003E, 0xC00000B7)
REFUSED = {
    # processes and threads
    "fork": (57, None), "vfork": (58, None), "clone": (56, 220), "execve": (59, 221), "execveat": (322, 281),
    "unshare": (272, 97), "setns": (308, 268),
    # signals, and other ways into another process
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272), "setpriority": (141, 140),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "ioprio_set": (251, 30), "migrate_pages": (256, 238), "move_pages": (279, 239),
    # the network, and memory that outlives the process
    "socket": (41, 198), "io_uring_setup": (425, 425), "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190),
    "mq_open": (240, 180), "memfd_create": (319, 279),
    # what a file is like, which Landlock leaves to us
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "file_setattr": (469, 469), "truncate": (76, 45),
    # the kernel's own
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219),
}  # fmt: skip
NOT_PERMITTED, NOT_THERE = 1, 38  # EPERM, ENOSYS
SAYS = {
    "kernel": "Each notebook's code was fenced in by the kernel (Landlock, seccomp): no files, network or processes.",
    "macOS": "Each notebook's code was fenced in by sandbox-exec: no files but Python's, no network, no processes.",
    "Python": "Each notebook's code was fenced in by Python alone, which does not keep a determined attacker from "
    "reading or changing files: on this machine grade only the work of people whom you trust.",
}


def strongest():
    """The kind of fence to ask for on this machine; whether it holds, `close` says."""
    linux = sys.platform == "linux" and platform.machine() in MACHINES
    return "kernel" if linux else "macOS" if sys.platform == "darwin" else "Python"


def readable():
    """The folders and files that Python and the course are made of."""
    import mha.runtime

    package = mha.runtime.PACKAGE
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    system = ["/usr", "/lib", "/lib64", "/nix/store", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom"]
    system += ["/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system", "/System", "/Library"]
    own = [sys.prefix, sys.base_prefix, sys.exec_prefix, *packages, package, package.parent / "data"]
    return sorted({os.path.realpath(path) for path in [*system, *own, Path(__file__).parent] if Path(path).exists()})


def command(kind, folders):
    """What to put before the command that starts the process."""
    if kind != "macOS":
        return []
    rules = ["(version 1)", "(allow default)", "(deny network*)", "(deny process-fork)", "(deny signal)"]
    rules += ["(allow signal (target self))", "(deny file-write*)", '(allow file-write* (literal "/dev/null"))']
    rules += ['(deny file-read-data (subpath "/Users") (subpath "/private") (subpath "/Volumes"))']
    tests = Path(__file__).resolve().parents[1]
    allowed = " ".join(f'(subpath "{folder}")' for folder in folders)
    to_import = (tests.parent, tests, tests / "__init__.py")
    allowed += "".join(f' (literal "{path}")' for path in to_import)
    return ["sandbox-exec", "-p", "\n".join([*rules, f"(allow file-read-data {allowed})"])]


def close(kind, folders):
    """Close the fence around this process; OSError where this machine cannot."""
    if resource:
        for limit in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
            resource.setrlimit(limit, (0, 0))  # no file grows; no process and no thread is made (but by root)
    if kind == "kernel":
        if len(os.listdir("/proc/self/task")) > 1:
            raise OSError("a thread began before the fence, and would stay outside it")
        libc = ctypes.CDLL(None, use_errno=True)
        libc.capset(struct.pack("Ii", 0x20080522, 0), bytes(24))  # no capability, even for root
        _done(libc.prctl(38, 1, 0, 0, 0))  # PR_SET_NO_NEW_PRIVS: the two that follow ask for it
        _landlock(libc, folders)
        _filter(libc)
    if kind == "Python":
        _audit(folders)


def _done(result):
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def _landlock(libc, folders):
    """Reading beneath these folders, writing to /dev/null; no other file, no TCP, no signal to anybody outside."""
    create, add, restrict = 444, 445, 446
    version = _done(libc.syscall(create, None, 0, 1))
    files = (1 << (13, 14, 15, 15, 16)[min(version, 5) - 1]) - 1  # all that this version knows
    handled = struct.pack("QQQ", files, 3, 3)[: 8 if version < 4 else 16 if version < 6 else 24]  # files, TCP, signals
    ruleset = _done(libc.syscall(create, handled, len(handled), 0))
    for path in (*folders, os.devnull):
        rights = 4 | 8 * os.path.isdir(path) | 2 * (path == os.devnull)  # read a file, list a folder, write
        place = os.open(path, os.O_PATH)
        _done(libc.syscall(add, ruleset, 1, struct.pack("=Qi", rights, place), 0))
        os.close(place)
    _done(libc.syscall(restrict, ruleset, 0))
    os.close(ruleset)


def _filter(libc):
    """A program for the kernel (BPF): each call of REFUSED, and two more with some arguments, end in an error."""
    machine = MACHINES[platform.machine()]
    load, equal, at_least, answer = 0x20, 0x15, 0x35, 0x06
    refuse, allow = (answer, 0, 0, 0x50000 | NOT_PERMITTED), (answer, 0, 0, 0x7FFF0000)
    another = (equal, 1, 0, ARCHITECTURES[machine])  # another architecture's calls
    steps = [(load, 0, 0, 4), another, refuse, (load, 0, 0, 0)]
    steps += [(at_least, 0, 1, 0x40000000), refuse]  # those of x32
    steps += [(equal, 0, 1, 435), (answer, 0, 0, 0x50000 | NOT_THERE)]  # clone3: the C library then tries clone
    for numbers in REFUSED.values():
        if numbers[machine] is not None:
            steps += [(equal, 0, 1, numbers[machine]), refuse]
    # With the number of a call in hand: load one of its arguments, and refuse some values of it.
    steps += [(equal, 0, 4, (302, 261)[machine]), (load, 0, 0, 16), (equal, 1, 0, 0), refuse, allow]  # prlimit64
    steps += [(equal, 0, 6, (72, 25)[machine]), (load, 0, 0, 24)]  # fcntl: F_SETOWN and F_SETSIG make signals
    steps += [(equal, 2, 0, 8), (equal, 1, 0, 10), (equal, 0, 1, 15), refuse, allow, allow]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    _done(libc.prctl(22, 2, struct.pack("HP", len(steps), ctypes.addressof(program)), 0, 0))  # PR_SET_SECCOMP


DOORS = ("socket.", "subprocess.", "shutil.", "signal.pthread_kill", "ctypes.", "winreg.", "_winapi.", "resource.")
DOORS += tuple(
    f"os.{name}"
    for name in "system exec fork posix_spawn spawn startfile kill chmod chown chflags lockf remove rename rmdir mkdir "
    "link symlink truncate utime setxattr removexattr putenv".split()
)


def _audit(folders):
    """Python's own fence: operations that leave the process, and files beyond these folders, raise PermissionError."""
    beneath = tuple(os.path.join(folder, "") for folder in folders)
    real, flags = os.path.realpath, os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

    def hook(event, arguments):
        refused = event.startswith(DOORS) and event not in ("socket.__new__", "socket.gethostname")
        if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], str | bytes):
            path = real(os.fsdecode(arguments[0]))
            writes = event == "open" and (arguments[2] or 0) & flags
            refused = path != os.devnull and (writes or not os.path.join(path, "").startswith(beneath))
        if refused:
            raise PermissionError(f"while answers are graded there are no files, processes and network: {event}")

    sys.addaudithook(hook)
