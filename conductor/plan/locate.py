"""Where in a Markdown file the DAG stands. Pure text: nothing is parsed that is not the DAG."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*(.*)$")
_KEY = re.compile(r"""^(?:dag|"dag"|'dag')[ \t]*:(?:[ \t]|$)""")
_ANY_KEY = re.compile(r"""^(?:"([^"]+)"|'([^']+)'|([^\s"'#\[\]{},&*!|>%@`-][^:]*?))[ \t]*:(?:[ \t]|$)""")
_FLOW_KEY = re.compile(r"""[{,]\s*["']?dag["']?\s*:""")
_LONGEST_KEY = 200
LANGUAGES = frozenset(("yaml", "yml", "json"))


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, or the front matter. Line numbers are from 0, into the file's lines."""

    first: int
    """The opening fence."""
    end: int
    """The line behind the closing fence."""
    language: str
    body: tuple[int, int]
    """The lines between the fences."""
    indent: int = 0
    """Columns of indentation of the fence, which its lines lose."""

    def text(self, lines: list[str]) -> str:
        """Return the lines between the fences, without the fence's own indentation."""
        body = lines[self.body[0] : self.body[1]]
        if self.indent:
            body = [line[min(self.indent, len(line) - len(line.lstrip(" "))) :] for line in body]
        return "\n".join(body) + "\n"


def split_lines(text: str) -> list[str]:
    """Split at LF, CRLF and CR, and nothing else; a byte order mark in front is dropped."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def find_blocks(lines: list[str]) -> list[Block]:
    """Return the front matter, if any, and all fenced blocks, in order; HTML comments are passed over."""
    blocks: list[Block] = []
    front = _front_matter(lines)
    at = 0
    if front is not None:
        blocks.append(front)
        at = front.end
    last_comment_end = max((i for i, line in enumerate(lines) if "-->" in line), default=-1)
    while at < len(lines):
        line = lines[at]
        if line.lstrip(" ").startswith("<!--") and "-->" not in line and at < last_comment_end:
            while "-->" not in lines[at]:
                at += 1
        elif "```" in line or "~~~" in line:
            block = _fenced(lines, at)
            if block is not None:
                blocks.append(block)
                at = block.end
                continue
        at += 1
    return blocks


@dataclass(frozen=True, slots=True)
class TopKey:
    """A key at the top of a block, and its line in the file, from 1."""

    name: str
    line: int


def is_dag(block: Block, lines: list[str]) -> bool:
    """Whether the block's top-level key is `dag`, as far as its lines tell; it need not be valid YAML."""
    for number, (_, content) in enumerate(_top_lines(block, lines)):
        if number == 0 and content.startswith("{"):
            return _FLOW_KEY.search("\n".join(lines[block.body[0] : block.body[1]])) is not None
        if _KEY.match(content):
            return True
    return False


def top_keys(block: Block, lines: list[str]) -> list[TopKey]:
    """Return the top-level keys of a block, as far as its lines tell; those of a mapping in braces are not seen."""
    found = ((at, _ANY_KEY.match(content[:_LONGEST_KEY])) for at, content in _top_lines(block, lines))
    return [TopKey(key[1] or key[2] or key[3], at + 1) for at, key in found if key is not None]


def _top_lines(block: Block, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield what stands at the outermost level, with its place in `lines`."""
    indent: int | None = None
    for at in range(block.body[0], block.body[1]):
        line = lines[at]
        content = line.strip()
        if not content or content.startswith(("#", "%")) or content == "---":
            continue
        width = len(line) - len(line.lstrip(" "))
        if indent is None:
            indent = width
        if width == indent:
            yield at, content


def _front_matter(lines: list[str]) -> Block | None:
    if lines[0].rstrip() != "---":
        return None
    for at in range(1, len(lines)):
        if lines[at].rstrip() in ("---", "..."):
            return Block(0, at + 1, "yaml", (1, at))
    return None


def _fenced(lines: list[str], at: int) -> Block | None:
    opening = _FENCE.match(lines[at])
    if opening is None:
        return None
    indent, marks, info = opening[1], opening[2], opening[3]
    if marks[0] == "`" and "`" in info:  # inline code, not a fence
        return None
    words = info.split()
    language = words[0].strip("{}.").lower() if words else ""
    end = at + 1
    while end < len(lines) and not (marks in lines[end] and _closes(lines[end], marks, len(indent))):
        end += 1
    return Block(at, min(end + 1, len(lines)), language, (at + 1, end), len(indent))


def _closes(line: str, marks: str, indent: int) -> bool:
    content = line.strip()
    if len(line) - len(line.lstrip()) > indent + 3:  # part of a text in the block, which may hold fences of its own
        return False
    return len(content) >= len(marks) and content == marks[0] * len(content)
