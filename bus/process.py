"""Who a process is: realm, pid and start ticks, as `proc.json` writes it. Standard library only.

A pid alone means nothing: it is used again, and each container counts its own. Together with the clock tick of its
start and the realm (the boot, and the pid namespace) in which it was seen it names one process for ever, and nothing is
signalled before that was compared.

Where there is no /proc (macOS) the start is not known without a helper process: it is 0 there, and identity rests on
the pid and on the lock that the process holds. A /proc that counts otherwise than we do (mounted in another pid
namespace) is none.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass


def _proc_is_ours() -> bool:
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


HAVE_PROC = _proc_is_ours()

HAVE_CHILDREN = HAVE_PROC and os.path.exists("/proc/thread-self/children")
"""Whether the kernel lists the children of each thread."""

HAVE_PIDFD = hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")

_PR_SET_NAME = 15
_PR_GET_NAME = 16


WAITS_FOR_DISK = "waits-for-disk"
WAITS_FOR_FILES = "waits-for-files"
WAITS_FOR_MEMORY = "waits-for-mem"
"""Names that a worker gives its process (`ps`, `top`) while it cannot do what it must for lack of disk, of descriptors
(open files) or of memory. It is the one thing that it can say then."""

WAITS_TO_LOOK = "waits-to-look"
"""Name that a worker gives its process while it cannot see whether its command left something behind."""

WAITS_TO_VERIFY = "waits-to-verify"
"""Name that a worker gives its process while its machine has no room for the verify command that comes next."""

LACKING = {
    WAITS_FOR_DISK: "the disk is full",
    WAITS_FOR_FILES: "too many files are open",
    WAITS_FOR_MEMORY: "memory is short",
    WAITS_TO_LOOK: "it cannot see what its command left behind, for lack of descriptors or memory",
    WAITS_TO_VERIFY: "a verify command finds no room to start",
}
"""What each of these names means."""

WAITS_TO_WRITE = frozenset({WAITS_FOR_DISK, WAITS_FOR_FILES, WAITS_FOR_MEMORY})
"""Names of a worker that has nothing left to do but to write (its claim, its result)."""


SHORTAGES = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ETOOMANYREFS}
)  # fmt: skip
"""Errors of a machine that has too few processes, too little memory or too few descriptors for now."""

_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ETOOMANYREFS})


def is_shortage(error: BaseException) -> bool:
    """Tell whether something failed only because this machine ran short of something, and may work a moment later.

    Nothing may be concluded from such an error: neither that something is gone, nor that it is free or empty.
    """
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in SHORTAGES)


def pass_on_shortage(error: OSError) -> None:
    """Raise the error that is being handled where it is only a shortage: it says nothing of what was looked for."""
    if is_shortage(error):
        raise error


def waiting_name(error: BaseException) -> str:
    """Return how a worker is named that waits because of this error."""
    if not is_shortage(error):
        return WAITS_FOR_DISK
    return WAITS_FOR_FILES if isinstance(error, OSError) and error.errno in _FILES else WAITS_FOR_MEMORY


@dataclass(frozen=True, slots=True)
class Realm:
    """Where a pid means something: one boot of one machine, and one pid namespace in it."""

    boot: str
    namespace: str
    """Empty where the system has none."""


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One line of /proc/<pid>/stat, as far as it matters here."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    start_ticks: int
    cpu_ticks: int = 0
    """Processor time that it and the children that it reaped have used, in clock ticks."""

    @property
    def dead(self) -> bool:
        """Tell whether it only waits to be reaped."""
        return self.state in "ZX"

    @property
    def suspended(self) -> bool:
        """Tell whether it stands still until somebody sends CONT: after Ctrl-Z, SIGSTOP, or under a debugger."""
        return self.state in "Tt"


def boot_id() -> str:
    """Return the id of this boot of the machine; `unknown` where the system has none. OSError where we ran short."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError as error:
        pass_on_shortage(error)
        return "unknown"


def realm() -> Realm:
    """Return where the pids that this process sees mean something."""
    try:
        namespace = str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError as error:
        pass_on_shortage(error)
        namespace = ""
    return Realm(boot_id(), namespace)


def look(pid: int) -> ProcessInfo | None:
    """Return what is known of the process that has this pid now; None where there is none (or no /proc).

    Raises OSError where we ran short of what it takes to look: that is no proof that there is none.
    """
    if not HAVE_PROC:
        return None
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        pass_on_shortage(error)
        return None
    try:
        line = os.read(fd, 1024)
    except ProcessLookupError:
        return None
    finally:
        os.close(fd)
    return parse_stat(line)


def parse_stat(line: bytes) -> ProcessInfo:
    """Read a line of /proc/<pid>/stat. The name stands in parentheses and may itself contain any of them."""
    head, _, tail = line.rpartition(b")")
    pid, _, name = head.partition(b" (")
    fields = tail.split()
    return ProcessInfo(
        pid=int(pid),
        name=name.decode(errors="replace"),
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        cpu_ticks=sum(map(int, fields[11:15])),
    )


def children(pid: int) -> list[int]:
    """Return the pids of the children of a process that has one thread, in one quick look; none where it is gone, where
    the kernel does not list them, and where we ran short of what that takes."""
    try:
        return _children_of(f"/proc/{pid}/task/{pid}/children")
    except (OSError, MemoryError):
        return []


def _children_of(path: str) -> list[int]:
    try:
        with open(path, "rb") as file:
            return list(map(int, file.read().split()))
    except OSError as error:
        pass_on_shortage(error)
        return []


def family(pid: int) -> Iterator[ProcessInfo]:
    """Yield all descendants of a process, by their parents' lists of children: that costs as much as they are many, not
    as all processes of the machine. Who changes parents meanwhile may be missed, or told twice.

    Raises OSError where we ran short.
    """
    for thread in _threads(pid):
        for child in _children_of(f"/proc/{pid}/task/{thread}/children"):
            if (info := look(child)) is not None:
                yield info
            yield from family(child)


def _threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError as error:
        pass_on_shortage(error)
        return []


def start_ticks(pid: int) -> int:
    """Return when the process started, in clock ticks since boot; 0 where that is not known."""
    info = look(pid)
    return info.start_ticks if info is not None else 0


def all_processes() -> Iterator[ProcessInfo]:
    """Yield every process of this machine that can be seen; nothing without /proc. OSError where we ran short."""
    if not HAVE_PROC:
        return
    for name in os.listdir("/proc"):
        if name.isdigit() and (info := look(int(name))) is not None:
            yield info


def flock_holders(found: os.stat_result) -> list[int]:
    """Return who holds a file or a folder locked for itself; none where the kernel does not tell."""
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as file:
            entries = [fields for line in file if len(fields := line.split()) > 5]
    except OSError as error:
        pass_on_shortage(error)
        return []
    return [int(one[4]) for one in entries if one[1] == "FLOCK" and one[3] == "WRITE" and one[5] == place]


def rename_process(name: str) -> str:
    """List this process under another name (15 bytes), and return the one before; empty where the system cannot.

    It takes no descriptor: those may be what is lacking. The caller is the main thread.
    """
    try:
        import ctypes  # the warm process has loaded it; nobody else needs it

        prctl, before = ctypes.CDLL(None).prctl, ctypes.create_string_buffer(16)
        if prctl(_PR_GET_NAME, before, 0, 0, 0) or prctl(_PR_SET_NAME, name.encode(), 0, 0, 0):
            return ""
    except (ImportError, OSError, AttributeError, MemoryError):
        return ""
    return before.value.decode(errors="replace")


def waits_for_disk(pid: int, ticks: int) -> bool:
    """Tell whether the worker of this identity lives and says that the disk is too full for what it must write."""
    return waits(pid, ticks) == WAITS_FOR_DISK


def waits(pid: int, ticks: int) -> str | None:
    """Return the name of the worker of this identity if it says that it waits (`LACKING`), None where it does not."""
    info = look(pid)
    return info.name if info is not None and info.start_ticks == ticks and info.name in LACKING else None


def send_signal(pid: int, ticks: int, number: int) -> bool:
    """Signal the process that has this pid and this start, and no other. False where it is gone.

    Raises PermissionError where it belongs to somebody else, and OSError where we ran short of what it takes.
    """
    if not HAVE_PIDFD:
        return _send_without_pidfd(pid, ticks, number)
    try:
        fd = os.pidfd_open(pid)
    except OSError as error:  # ESRCH: gone; EINVAL: the pid is now the id of a thread
        pass_on_shortage(error)
        return False
    try:
        if start_ticks(pid) != ticks:
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def _send_without_pidfd(pid: int, ticks: int, number: int) -> bool:
    if start_ticks(pid) != ticks:
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
