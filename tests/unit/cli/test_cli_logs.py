from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus._fs import FileSystem
from bus.reader import Pieces
from conductor.cli.log_files import Gap, LogReader


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Pieces]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield Pieces(FileSystem(), fd)
    os.close(fd)


def read(reader: LogReader) -> list[bytes | Gap]:
    return list(reader.fresh())


def test_no_file_yet_is_no_output(folder: Pieces) -> None:
    assert read(LogReader(folder, "log")) == []


def test_what_is_new_is_read_once(tmp_path: Path, folder: Pieces) -> None:
    reader = LogReader(folder, "log")
    (tmp_path / "log").write_bytes(b"abc")
    assert read(reader) == [b"abc"]
    assert read(reader) == []
    with (tmp_path / "log").open("ab") as file:
        file.write(b"def")
    assert read(reader) == [b"def"]


def test_pieces_follow_each_other_and_gaps_are_counted(tmp_path: Path, folder: Pieces) -> None:
    (tmp_path / "log").write_bytes(b"0123")
    (tmp_path / "log.4").write_bytes(b"4567")
    (tmp_path / "log.5").write_bytes(b"89")
    (tmp_path / "log.err").write_bytes(b"not this")
    assert read(LogReader(folder, "log")) == [b"0123", Gap(12), b"4567", b"89"]


def test_a_follower_that_was_overtaken_says_what_it_missed(tmp_path: Path, folder: Pieces) -> None:
    reader = LogReader(folder, "log")
    (tmp_path / "log").write_bytes(b"0123")
    (tmp_path / "log.1").write_bytes(b"45")
    assert read(reader) == [b"0123", b"45"]
    (tmp_path / "log.1").unlink()
    (tmp_path / "log.7").write_bytes(b"xy")
    assert read(reader) == [Gap(4 * 6 - 2), b"xy"]


def test_req27_a_link_in_place_of_a_log_is_refused(tmp_path: Path, folder: Pieces) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "log").symlink_to("secret")
    with pytest.raises(Exception, match="cannot be opened"):
        read(LogReader(folder, "log"))
