"""The mount that the bus is on: what a bus needs, proved there, and what is done where it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from bus import layout
from bus.probe import LONGEST_NEEDED, Mount, prove
from bus.room import remedy
from conductor.cli.examine.finding import Finding, fine, note, problem

LITTLE_SPACE = 64 << 20
"""Free bytes below which a run may come to a halt soon."""

ELSEWHERE = "put the bus on another file system with --bus-dir"

NEEDS: tuple[tuple[str, str, Callable[[str], Finding]], ...] = (
    (
        "exclusive",
        "a file is made once only (O_EXCL)",
        lambda why: problem("mount_exclusive", f"a file is not made once only: {why}", ELSEWHERE),
    ),
    (
        "link",
        "files are published by hard links",
        lambda why: note("mount_link", f"hard links are not possible ({why}): files are published by rename instead"),
    ),
    (
        "rename",
        "a file is replaced by rename",
        lambda why: problem("mount_rename", f"a file is not replaced by rename: {why}", ELSEWHERE),
    ),
    (
        "directory_sync",
        "a folder can be synced",
        lambda why: problem("mount_directory_sync", f"a folder cannot be synced: {why}", ELSEWHERE),
    ),
    (
        "lock",
        "a lock keeps another process out, passes to a child, and ends with it",
        lambda why: problem(
            "mount_lock", f"locks do not work on this file system: {why}", f"{ELSEWHERE}; --unsafe-fs takes the risk"
        ),
    ),
)


def mount(bus: Path) -> Iterator[Finding]:
    """Prove on the file system of the bus (of the folder that it would be made in, where there is none) what it needs.

    Something is written for that, in a scratch folder that is removed again.
    """
    folder = place(bus)
    try:
        found = prove(str(folder))
    except OSError as error:
        yield problem("mount_writable", f"nothing can be tried in {folder}: {error.strerror}", remedy(error))
        return
    yield from findings(found, folder)


def place(bus: Path) -> Path:
    """Return the folder to try things in: the bus's own scratch, or the nearest folder above that is there."""
    scratch = bus / layout.TMP
    if scratch.is_dir() and not scratch.is_symlink() and not bus.is_symlink():
        return scratch
    return next(folder for folder in (bus.parent, *bus.parent.parents) if folder.is_dir())


def findings(mount: Mount, folder: Path) -> Iterator[Finding]:
    """Say in words what was proved."""
    if mount.refused is not None:
        hint = "free some space, or mount it writable" if mount.full else f"make it writable for you, or {ELSEWHERE}"
        yield problem("mount_writable", f"nothing can be written in {folder}: {mount.refused}", hint)
        yield _space(mount)
        return
    yield fine("mount_writable", f"{folder} can be written")
    for what, holds, failing in NEEDS:
        why = mount.failed.get(what)
        yield fine(f"mount_{what}", holds) if why is None else failing(why)
    if mount.events is None:
        yield fine("mount_events", "file events come")
    else:
        yield note("mount_events", f"{mount.events}: polling, a run looks every 250 ms instead")
    if mount.case_sensitive:
        yield fine("mount_case", "names differ by case")
    else:
        yield note("mount_case", "names do not differ by case; task ids that meet so are refused in any plan")
    yield _names(mount.longest_name)
    yield _space(mount)


def _names(longest: int) -> Finding:
    if longest >= LONGEST_NEEDED:
        return fine("mount_names", f"names may have {longest} characters")
    return problem(
        "mount_names",
        f"names may have {longest} characters only, a bus needs up to {LONGEST_NEEDED}",
        f"{ELSEWHERE}; with short task ids it may do",
    )


def _space(mount: Mount) -> Finding:
    files = "" if mount.free_files is None else f", {mount.free_files} files"
    text = f"free: {_size(mount.free_bytes)}{files}"
    if mount.free_bytes < LITTLE_SPACE or (mount.free_files is not None and mount.free_files < 1000):
        return note("mount_space", f"{text}. That is little", "free some space: a run pauses while the disk is full")
    return fine("mount_space", text)


def _size(number: int) -> str:
    """Say a number of bytes: `812 bytes`, `3.4 MiB`."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if number >= 1 << power:
            return f"{number / (1 << power):.1f} {unit}"
    return f"{number} bytes"
