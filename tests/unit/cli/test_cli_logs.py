from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus._fs import FileSystem
from bus.reader import Pieces
from conductor.cli.log_files import Gap, LogReader, Span, both_ends


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Pieces]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield Pieces(FileSystem(), fd, "attempts/0/x")
    os.close(fd)


def read(reader: LogReader) -> list[bytes | Gap]:
    return list(reader.fresh(1 << 20))


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


def test_req27_a_folder_in_place_of_a_later_piece_is_named_and_the_good_pieces_are_shown(
    tmp_path: Path, folder: Pieces
) -> None:
    said: list[str] = []
    (tmp_path / "log").write_bytes(b"01")
    (tmp_path / "log.1").write_bytes(b"23")
    (tmp_path / "log.7").mkdir()
    (tmp_path / "log.99999999999999999999999999").write_bytes(b"no piece")
    (tmp_path / "log.9").write_bytes(b"45")
    reader = LogReader(folder, "log", said.append)
    assert read(reader) == [b"01", b"23", Gap(14), b"45"]
    assert read(reader) == []
    assert said == ["attempts/0/x/log.7: the output cannot be read: not a regular file; it is left out"]


def test_of_what_is_too_much_both_ends_stay_whatever_the_pieces() -> None:
    parts = [Span(0, 0, 10), Gap(5), Span(2, 0, 10), Span(3, 0, 10)]
    for most in range(31):
        found = both_ends(parts, most)
        shown = [byte for part in found if isinstance(part, Span) for byte in _bytes(part)]
        whole = [byte for part in parts if isinstance(part, Span) for byte in _bytes(part)]
        first = most // 3
        assert shown == [*whole[:first], *whole[30 - (most - first) :]] if most < 30 else whole
        assert [gap.size for gap in found if isinstance(gap, Gap) and gap.is_kept] == ([30 - most] if most < 30 else [])
        assert Gap(5) in found


def _bytes(span: Span) -> list[tuple[int, int]]:
    return [(span.piece, offset) for offset in range(span.start, span.end)]
