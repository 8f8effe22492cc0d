"""The lines of a chapter that one worked number needs, and nothing else. Pure functions.

A backward slice: from the call of `worked`, each name that is read leads to the statements before
it that bind the name or change its object, and these lead on. What cannot be known without running
is taken to matter, so a slice may hold a line too many; a test runs every one.
"""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from book.coverage import calls_worked, literal_id, name_of, without_magic

CHANGES = frozenset(
    (
        *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"),
        *("popleft", "push", "remove", "reverse", "setdefault", "sort", "update"),
    )
)
"""Methods that change their object even where their result is used."""
QUIET = frozenset({"lab", "display", *dir(builtins)})
"""What never changes, and changes none of the values that it is given."""
DEFINITE = (
    *(ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)
"""Statements after which a name that they bind surely has their value."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
OWN_NAMES = (
    *(*FUNCTIONS, ast.ClassDef, ast.Lambda, ast.NamedExpr),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
"""What may give a call inside it names that the statements before do not have."""


@dataclass(slots=True)
class Uses:
    """The names of a chapter that some code reads, at once or later when it is called; that it
    binds; whose objects it may change; and of whose objects it calls a method."""

    reads: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    asks: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Statement:
    """One top-level statement of a chapter."""

    node: ast.stmt
    text: str
    uses: Uses

    def surely_binds(self, name: str) -> bool:
        """Whether `name` has its value from here, whatever it was before."""
        return isinstance(self.node, DEFINITE) and name in self.uses.binds


def snippet(notebook: Mapping[str, Any], cell: int, id: str) -> str:
    """Python that computes and checks the number `id` as the code cell number `cell` does.

    It needs nothing but what its own lines import, and ends with the call of `worked`. ValueError
    where the cell has no such call.
    """
    program: list[Statement] = []
    for number, source in enumerate(_sources(notebook)):
        if number == cell:
            return _slice(program, _statements(source), id, cell)
        program += _statements(source)
    raise ValueError(f"a notebook with {len(notebook['cells'])} cells has no cell {cell}")


def _sources(notebook: Mapping[str, Any]) -> Iterator[str]:
    """The source of each cell: nothing for one that is no code."""
    for cell in notebook["cells"]:
        yield without_magic("".join(cell["source"])) if cell["cell_type"] == "code" else ""


def _statements(source: str) -> list[Statement]:
    lines = source.splitlines(keepends=True)
    return [
        Statement(node, _text(source, lines, node), names_in(node))
        for node in ast.parse(source).body
    ]


def _text(source: str, lines: list[str], node: ast.stmt) -> str:
    """The source of a statement, with its decorators."""
    decorators = getattr(node, "decorator_list", [])
    above = "".join(lines[decorators[0].lineno - 1 : node.lineno - 1]) if decorators else ""
    return above + (ast.get_source_segment(source, node) or "")


# The slice


def _slice(program: list[Statement], own: list[Statement], id: str, cell: int) -> str:
    for place, statement in enumerate(own):
        if _call_in(statement.node, id):
            before = program + own[:place]
            last = _ending(statement, id)
            needed = _needed(before, last.uses)
            return _joined([*(before[n].text for n in sorted(needed)), last.text])
    raise ValueError(f"cell {cell} has no call of worked for {id!r}")


def _call_in(tree: ast.AST, id: str) -> ast.Call | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and calls_worked(node.func) and literal_id(node) == id:
            return node
    return None


def _ending(statement: Statement, id: str) -> Statement:
    """The call alone, or its whole statement where a loop or a function gives it its names."""
    (tree,) = ast.parse(statement.text).body
    call = _call_in(tree, id)
    makers = [node for node in ast.walk(tree) if isinstance(node, OWN_NAMES)]
    is_simple = isinstance(tree, ast.Expr | ast.Assign | ast.AnnAssign)
    if call is None or not is_simple or any(call in ast.walk(maker) for maker in makers):
        return statement
    line = ast.Expr(call)
    return Statement(line, _moved_left(statement.text, call), names_in(line))


def _moved_left(source: str, call: ast.Call) -> str:
    """The source of a call without the indentation that it had, if that changes nothing."""
    text = ast.get_source_segment(source, call) or ""
    first, *rest = text.splitlines()
    moved = "\n".join(
        [first, *textwrap.indent(textwrap.dedent("\n".join(rest)), "    ").split("\n")]
    )
    return moved if rest and _is_same(moved, call) else text


def _is_same(text: str, call: ast.Call) -> bool:
    return ast.dump(ast.parse(text, mode="eval").body) == ast.dump(call)


def _needed(program: list[Statement], last: Uses) -> set[int]:
    """The places in `program` that code with the uses `last`, which stands after it, needs."""
    writers = _writers(program)
    needed: set[int] = set()
    seen: dict[tuple[str, int], set[str]] = {}

    def follow(name: str, place: int) -> set[str]:
        """Take what gives `name` its value before `place`; returns what that value reads later."""
        if (name, place) in seen:
            return seen[name, place]
        later = seen[name, place] = set()
        for writer in _last(name, writers.get(name, []), place, program):
            needed.add(writer)
            uses = program[writer].uses
            reads = uses.reads | uses.changes
            later |= uses.later.union(*(follow(read, writer) for read in reads))
        for read in set(later):
            later |= follow(read, place)
        return later

    for name in last.reads | last.later | last.changes:
        follow(name, len(program))
    return needed


def _writers(program: list[Statement]) -> dict[str, list[int]]:
    """The places that bind each name or may change its object, in order. A module that has been
    imported in the same words before is not written again."""
    writers: dict[str, list[int]] = {}
    aliases: dict[str, set[str]] = {}
    through: dict[str, set[str]] = {}  # what a function changes when it is called
    made: set[str] = set()  # by a class: such an object may change whenever it is asked
    imports: set[str] = set()
    for place, statement in enumerate(program):
        uses = statement.uses
        if isinstance(statement.node, ast.Import | ast.ImportFrom):
            if statement.text in imports:
                continue
            imports.add(statement.text)
        is_function = isinstance(statement.node, FUNCTIONS)
        changed: set[str] = set()
        if not is_function:
            changed = uses.changes | uses.asks & made
            changed = changed.union(*(through.get(name, ()) for name in uses.reads))
            changed = changed.union(*(aliases.get(name, ()) for name in changed))
        for name in sorted(uses.binds | changed):
            writers.setdefault(name, []).append(place)
        for name in uses.binds:
            through[name] = uses.changes if is_function else set()
            aliases[name] = _aliases(statement.node, aliases)
        made = made - uses.binds | (uses.binds if _makes(statement.node) else set())
    return writers


def _makes(node: ast.stmt) -> bool:
    """Whether an assignment calls a class, which is written with a capital: `lab.KVBlocks(8)`."""
    call = node.value if isinstance(node, ast.Assign) else None
    return isinstance(call, ast.Call) and (name_of(call.func) or "")[:1].isupper()


def _aliases(node: ast.stmt, known: Mapping[str, set[str]]) -> set[str]:
    """The names whose object, or a part of it, an assignment such as `row = rows[0]` gives away."""
    root = _root(node.value) if isinstance(node, ast.Assign) else None
    return {root} | known.get(root, set()) if root else set()


def _last(name: str, places: list[int], before: int, program: list[Statement]) -> Iterator[int]:
    """From the last writer of `name` back to the one that surely binds it."""
    for place in reversed(places):
        if place < before:
            yield place
            if program[place].surely_binds(name):
                return


def _joined(texts: Iterable[str]) -> str:
    """Lines one below the other, and an empty one after a block: that is how a prompt reads it."""
    return "".join(f"{text}\n\n" if _is_block(text) else f"{text}\n" for text in texts)


def _is_block(text: str) -> bool:
    return hasattr(ast.parse(text).body[-1], "body")


# The names that one statement uses


def names_in(node: ast.AST) -> Uses:
    """The names that a statement uses, without those that live inside it alone."""
    found = _Names()
    found.visit(node)
    uses = found.uses
    inner = uses.binds - uses.reads
    if uses.changes & inner:  # it may be a part of anything else here: `for row in rows: row.pop()`
        uses.changes |= uses.reads
    uses.changes -= inner | QUIET
    return uses


class _Names(ast.NodeVisitor):
    """Walks one statement in the order in which it runs."""

    def __init__(self) -> None:
        self.uses = Uses()
        self.bound: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
        else:
            self._bind(node.id)

    def _read(self, name: str) -> None:
        if name not in self.bound:
            self.uses.reads.add(name)

    def _bind(self, name: str) -> None:
        self.uses.binds.add(name)
        self.bound.add(name)

    def _change(self, node: ast.expr) -> None:
        root = _root(node)
        if root and (root not in self.bound or root in self.uses.binds):
            self.uses.changes.add(root)

    # What is bound or changed

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)
            self.visit(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
            self._change(node.target)
        self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._part(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._part(node)

    def _part(self, node: ast.Attribute | ast.Subscript) -> None:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            self._change(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute):
            self.uses.asks |= {_root(node.func)} & self.uses.reads
            if node.func.attr in CHANGES:
                self._change(node.func.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        """A call whose result nobody takes is there for what it changes."""
        self.visit(node.value)
        call = node.value
        if isinstance(call, ast.Call) and _root(call.func) not in QUIET:
            if isinstance(call.func, ast.Attribute):
                self._change(call.func.value)
            for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
                self._change(argument)

    def visit_alias(self, node: ast.alias) -> None:
        self._bind(node.asname or node.name.partition(".")[0])

    # What has names of its own

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for outside in (*node.decorator_list, node.args, node.returns):
            if outside:
                self.visit(outside)
        self._later(node, node.body)
        self._bind(node.name)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self._later(node, [node.body])

    def _later(self, node: ast.AST, body: Iterable[ast.AST]) -> None:
        """A function: what it reads of the chapter is read when it is called."""
        inside = _Names()
        for part in body:
            inside.visit(part)
        own = inside.uses.binds | _parameters(node)
        self.uses.later |= (inside.uses.reads | inside.uses.later) - own - self.uses.binds
        self.uses.changes |= inside.uses.changes - own - self.uses.binds

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        inside = _Names()
        for part in (*node.decorator_list, *node.bases, *node.keywords, *node.body):
            inside.visit(part)
        for name in inside.uses.reads:
            self._read(name)
        self.uses.later |= inside.uses.later - {node.name}
        self._bind(node.name)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.visit(node.iter)
        self.visit(node.target)
        for condition in node.ifs:
            self.visit(condition)

    def _comprehension(self, node: ast.AST) -> None:
        bound, binds = set(self.bound), set(self.uses.binds)
        for part in getattr(node, "generators", []):
            self.visit(part)
        for name in ("key", "value", "elt"):
            if isinstance(part := getattr(node, name, None), ast.AST):
                self.visit(part)
        walrus = {n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)}
        self.bound, self.uses.binds = bound | walrus, binds | walrus

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    # What may run not at all

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._branches([node.target, *node.body], node.orelse)

    visit_AsyncFor = visit_For

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._branches(node.body, node.orelse)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._branches(node.body, node.orelse)

    def visit_Try(self, node: ast.Try) -> None:
        self._branches([*node.body, *node.orelse], *([one] for one in node.handlers))
        self._branches(node.finalbody)

    def visit_ExceptHandler(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self._bind(node.name)
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = visit_ExceptHandler

    def _branches(self, *branches: Iterable[ast.AST | None]) -> None:
        """Each branch knows what was bound before; what it binds may be missing after it."""
        before = set(self.bound)
        for branch in branches:
            for part in filter(None, branch):
                self.visit(part)
            self.bound = set(before)


def _parameters(node: ast.AST) -> set[str]:
    inside = ast.walk(getattr(node, "args", node))
    return {argument.arg for argument in inside if isinstance(argument, ast.arg)}


def _root(node: ast.AST) -> str | None:
    """The name whose object, or a part of it, is meant: `rows` of `rows[0].ends`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
