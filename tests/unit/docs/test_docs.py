"""What the documents say stands in the code, and what the code offers stands in the documents."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click
import pytest

from bus.errors import BusError
from bus.layout import attempt_id
from bus.wire import CONDUCTOR_TYPES, TaskId
from conductor.cli.bus import RESERVED
from conductor.cli.exit_codes import BusExit, Exit, exit_of
from conductor.cli.main import VERBS, conductor
from conductor.config import Settings
from conductor.config_file import ConfigFile
from conductor.config_values import BUILT_IN
from conductor.core.codec import EVENTS
from conductor.core.task import RunOptions, TaskSpec
from conductor.plan import loads, warnings
from conductor.plan.durations import parse_duration
from conductor.plan.groups import GROUP_KEYS
from conductor.plan.locate import find_blocks, is_dag, split_lines
from conductor.plan.settings import DEFAULTS, LIMITS
from conductor.plan.unknown_keys import TASK_KEYS
from conductor.plan.validate import DAG_KEYS
from conductor.runtime.command import NAMES, Places, order

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/*.md")])
PLAN_PAGE = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
PROTOCOL_PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


# --- the tables of docs/plan.md -------------------------------------------------------------------------------------


def table(section: str) -> dict[str, list[str]]:
    """Return the rows of a section's first table by their first cell, without marks."""
    text = re.split(rf"^## {re.escape(section)}$", PLAN_PAGE, flags=re.MULTILINE)[1]
    text = re.split(r"^## ", text, flags=re.MULTILINE)[0]
    found = re.findall(r"^\|.*\n\|[-|]+\n((?:\|.*\n)+)", text, flags=re.MULTILINE)[0]
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in found.splitlines()]
    return {row[0].strip("`"): row[1:] for row in rows}


@pytest.mark.parametrize(
    ("section", "known"),
    [
        ("Keys of the DAG", DAG_KEYS),
        ("Keys of a task", TASK_KEYS),
        ("Groups", GROUP_KEYS),
        ("Defaults", tuple(DEFAULTS)),
        ("Limits", tuple(LIMITS)),
        ("Commands", tuple(f"{{{name}}}" for name in NAMES)),
        ("conductor.toml", tuple(ConfigFile.model_fields)),
        ("Exit codes", tuple(str(int(code)) for code in Exit)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_table_has_what_the_code_knows_and_nothing_else(section: str, known: tuple[str, ...]) -> None:
    assert sorted(table(section)) == sorted(known)


def test_every_variable_that_a_command_is_given_stands_in_the_page() -> None:
    task = TaskSpec(TaskId("1"), "one", 0, run=("sh", "-c", "$CONDUCTOR_PROMPT_FILE $CONDUCTOR_TASK_FILE"))
    places = Places(track="/t", project="/p", bus="/b", path="/bin")
    spec = order(task, attempt_id(task.id, 1, "0" * 8), 1, "0" * 8, 1, RunOptions(), Settings(), places)
    given = {name for name in spec.env if name.startswith("CONDUCTOR_")}
    assert set(table("What a command is given")) == given
    assert set(re.findall(r"CONDUCTOR_[A-Z_]+[A-Z]", PLAN_PAGE)) == given | {"CONDUCTOR_DEBUG", "CONDUCTOR_PROGRAM"}


def test_the_defaults_of_the_configuration_are_those_of_the_code() -> None:
    values = BUILT_IN
    for name, (_, default) in table("conductor.toml").items():
        value = getattr(values, name)
        if default == "none":
            assert value is None, name
        elif isinstance(value, float):
            assert parse_duration(default.strip("`")) == value, name
        elif isinstance(value, int | tuple):
            found = tomllib.loads(f"value = {default.strip('`')}")["value"]
            assert (tuple(found) if isinstance(found, list) else found) == value, name
        else:
            assert default == f"`{value}`", name


def test_every_warning_stands_in_the_page_and_in_the_list_of_codes() -> None:
    documented = set(table("Warnings"))
    listed = set(re.findall(r"^    ([a-z]+(?:_[a-z]+)+)\s", warnings.__doc__ or "", flags=re.MULTILINE))
    makers = ("add", "_warn", "_warning", "PlanWarning")
    made = {code for name, code in first_arguments("conductor") if name in makers and "_" in code}
    assert documented == listed == made


def test_every_error_stands_in_the_page_with_its_exit_code() -> None:
    documented = {code: int(cells[0]) for code, cells in table("Errors").items()}
    raised = {
        code
        for name, code in first_arguments("conductor")
        if name in ("ConductorError", "PlanError", "plan_error", "Failure")
    }
    raised |= set(re.findall(r'"([a-z_]+_exceeded)"', (ROOT / "conductor/core/limits.py").read_text(encoding="utf-8")))
    of_the_bus: list[type[BusError]] = [BusError, *BusError.__subclasses__()]
    raised |= {kind.code for kind in of_the_bus}
    assert set(documented) == raised
    assert documented == {code: int(exit_of(code)) for code in documented}


def test_reserved_errors_have_the_exit_code_that_is_said() -> None:
    said = PLAN_PAGE.split("Reserved for later versions: ", 1)[1].split("\n\n", 1)[0]
    for codes, exit in re.findall(r"((?:`[a-z_]+`[,\s]*(?:and\s+)?)+)\((\d+)\)", said):
        for code in re.findall(r"`([a-z_]+)`", codes):
            assert int(exit_of(code)) == int(exit), code


def first_arguments(package: str) -> Iterator[tuple[str, str]]:
    """Yield (name of what is called, its first argument) of all calls with a text in front."""
    for file in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if isinstance(node.args[0].value, str):
                yield called, node.args[0].value


# --- docs/protocol.md -----------------------------------------------------------------------------------------------


def test_types_that_nothing_says_yet_are_reserved() -> None:
    reserved = PROTOCOL_PAGE.split("### Reserved for later versions", 1)[1].split("## Events", 1)[0]
    written = written_types()
    assert set(re.findall(r"\b[A-Z]{2,}(?:_[A-Z]+)*\b", reserved)) == CONDUCTOR_TYPES - written
    own = PROTOCOL_PAGE.split("are refused. ", 1)[1].split("are reserved", 1)[0]
    of_workers = set(re.findall(r"\b[A-Z]{2,}(?:_[A-Z]+)*\b", own))
    assert of_workers == RESERVED - CONDUCTOR_TYPES - written - {"RESULT"}


def written_types() -> set[str]:
    """Types of records that the conductor writes: what the core knows, and what the runtime names beside it."""
    named = {
        node.value
        for file in (ROOT / "conductor" / "runtime").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {*EVENTS, *(CONDUCTOR_TYPES & named)}


def test_every_type_that_the_conductor_writes_has_a_row() -> None:
    rows = set(re.findall(r"^\| ([A-Z][A-Z_]+)[^|]* \|", PROTOCOL_PAGE, flags=re.MULTILINE))
    assert written_types() <= rows


def test_the_exit_codes_of_the_verbs_for_workers_are_said() -> None:
    said = PROTOCOL_PAGE.split("Its exit codes:", 1)[1].split("\n\n", 1)[0]
    assert {int(number) for number in re.findall(r"\b\d+\b", said)} == {int(code) for code in BusExit}


# --- the README -----------------------------------------------------------------------------------------------------


def test_the_readme_names_every_verb_and_every_exit_code() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"| `conductor {verb} " in readme for verb in VERBS)
    said = readme.split("Exit codes of `run`:", 1)[1].split("\n\n", 1)[0]
    assert {int(number) for number in re.findall(r"\b\d+\b", said)} == {int(code) for code in Exit}


# --- all pages ------------------------------------------------------------------------------------------------------


@every_page
def test_every_plan_that_is_shown_loads_without_a_warning(page: Path) -> None:
    lines = split_lines(page.read_text(encoding="utf-8"))
    for block in find_blocks(lines):
        if block.language == "yaml" and is_dag(block, lines):
            assert loads(f"```yaml\n{block.text(lines)}```\n").warnings == ()
        elif block.language == "toml":
            ConfigFile(**tomllib.loads(block.text(lines)))


@every_page
def test_every_relative_link_resolves(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


def anchors(page: Path) -> set[str]:
    """Return the anchors that a Markdown page has: its headings in lower case, spaces as hyphens."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_every_command_line_that_is_shown_exists(page: Path) -> None:
    assert [line for line in command_lines(page) if unknown_words(line)] == []


def command_lines(page: Path) -> Iterator[str]:
    """Yield the command lines of ours in a page, also those in a line of prose or of a table.

    In a table, options in code behind a command belong to it.
    """
    for line in page.read_text(encoding="utf-8").splitlines():
        plain = re.sub(r"^\s*\$ ", "", line).strip()
        if plain.startswith(("./scripts/run ", "conductor ")):
            yield plain
        spans = re.findall(r"`([^`]+)`", line)
        ours = [span for span in spans if span.startswith(("conductor ", "./scripts/run "))]
        yield from ours
        if line.startswith("| `conductor "):
            yield from (f"{ours[0]} {span}" for span in spans[1:] if span.startswith("-"))


def unknown_words(line: str) -> list[str]:
    """Return the verbs and options of a command line that do not exist."""
    words = shlex.split(line.replace("\\|", "|").partition(" #")[0])[1:]
    if not words or not re.fullmatch(r"[a-z]+", words[0]):  # `conductor …`
        return []
    command = conductor.get_command(click.Context(conductor), words[0]) if words[0] in VERBS else None
    if command is None:
        return words[:1]
    if isinstance(command, click.Group) and len(words) > 1 and words[1] != "…":
        inner = command.commands.get(words[1])
        if inner is None:
            return words[1:2]
        command, words = inner, words[1:]
    known = {"-h", "--help", *chain.from_iterable(option.opts for option in command.params)}
    return [word for word in words[1:] if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]
