"""Finds code that decides or rewrites by the words of our own messages: facts have to travel as values beside them."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

MESSAGES = {"message", "messages", "hint", "summary", "complaint", "sentence"}
"""Names of variables, parameters and attributes that contain a message for people."""

_PARTS = {"casefold", "format", "join", "lower", "lstrip", "rstrip", "strip", "upper"}
"""Methods whose result is still the message."""

_READS = {
    *("count", "endswith", "find", "index", "partition", "removeprefix", "removesuffix", "replace", "rfind", "rindex"),
    *("rpartition", "rsplit", "split", "startswith", "translate"),
}
_PATTERNS = {"findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"}
"""The functions of `re`, and the methods of its patterns."""


def own_errors(trees: Iterable[ast.Module]) -> frozenset[str]:
    """Return the names of the exceptions that the modules define."""
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    errors = {
        name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)
    }
    while more := {name for name, parents in bases.items() if parents & errors} - errors:
        errors |= more
    return frozenset(errors & bases.keys())


def readings(tree: ast.Module, errors: AbstractSet[str]) -> Iterator[ast.AST]:
    """Yield each comparison, search or replacement by words of a message.

    Args:
        tree: The module.
        errors: The names of our exceptions, see `own_errors`.
    """
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inner = {id(node) for function in functions for node in ast.walk(function) if node is not function}
    yield from _Scope(tree, errors, skipped=inner).readings()
    for function in functions:
        if id(function) not in inner:
            yield from _Scope(function, errors).readings()


class _Scope:
    """A function with the functions in it, or the rest of a module, and the names that are messages in it."""

    def __init__(self, scope: ast.AST, errors: AbstractSet[str], skipped: AbstractSet[int] = frozenset()) -> None:
        self._nodes = [node for node in ast.walk(scope) if id(node) not in skipped]
        self._errors = {name for node in self._nodes for name in _errors_of(node, errors)}
        self._messages = set(MESSAGES)
        while more := {name for node in self._nodes for name in self._assigned(node)} - self._messages:
            self._messages |= more

    def _assigned(self, node: ast.AST) -> Iterator[str]:
        """Yield the variables to which `node` assigns a message."""
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
            ):
                if self._is_message(value):
                    yield name
            case (
                ast.For(target=ast.Name(id=name), iter=values)
                | ast.comprehension(target=ast.Name(id=name), iter=values)
            ):
                if self._is_message(values):
                    yield name

    def _is_message(self, node: ast.expr) -> bool:  # noqa: C901, PLR0911 - a case for each form
        match node:
            case ast.Name(id=name):
                return name in self._messages
            case ast.Attribute(value=owner, attr=name):
                return name in MESSAGES or (name == "args" and self._is_error(owner))
            case ast.Call(func=ast.Name(id="str" | "repr"), args=[value]):
                return self._is_error(value) or self._is_message(value)
            case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[value]):
                return self._is_message(value)
            case ast.Call(func=ast.Attribute(value=value, attr=method)):
                return method in _PARTS | _READS and self._is_message(value)
            case ast.Subscript(slice=ast.Constant(value=str())):  # a mapping
                return False
            case ast.Subscript(value=value) | ast.Starred(value=value):
                return self._is_message(value)
            case ast.BoolOp(values=values):
                return any(map(self._is_message, values))
            case ast.IfExp(body=one, orelse=other):
                return self._is_message(one) or self._is_message(other)
            case ast.JoinedStr(values=[ast.FormattedValue(value=value)]):
                return self._is_error(value) or self._is_message(value)
        return False

    def _is_error(self, node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                return name in self._errors
            case ast.Attribute(attr=name):
                return name == "error"
            case ast.BoolOp(values=values):
                return any(map(self._is_error, values))
        return False

    def readings(self) -> Iterator[ast.AST]:
        return (node for node in self._nodes if self._reads(node))

    def _reads(self, node: ast.AST) -> bool:
        match node:
            case ast.Compare(left=left, ops=operators, comparators=others):
                return any(map(self._compares, operators, (left, *others), others))
            case ast.Call(func=ast.Attribute(value=value, attr=method), args=arguments):
                is_search = method in _PATTERNS and any(map(self._is_message, arguments))
                return is_search or (method in _READS and self._is_message(value))
            case ast.Match(subject=subject, cases=cases):
                return self._is_message(subject) and any(_has_text(case.pattern) for case in cases)
            case ast.MatchClass(kwd_attrs=names, kwd_patterns=patterns):
                return any(
                    name in MESSAGES and _has_text(pattern) for name, pattern in zip(names, patterns, strict=True)
                )
        return False

    def _compares(self, operator: ast.cmpop, one: ast.expr, other: ast.expr) -> bool:
        if isinstance(operator, ast.In | ast.NotIn):
            looks_up = _is_plural(other) and not _is_fixed(one)
            return (self._is_message(other) and not looks_up) or (self._is_message(one) and _is_fixed(other))
        if isinstance(operator, ast.Eq | ast.NotEq):
            return (self._is_message(one) and _is_fixed(other)) or (self._is_message(other) and _is_fixed(one))
        return False


def _is_plural(node: ast.expr) -> bool:
    """Whether a name is that of a collection, in which a whole message is looked up."""
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).endswith("s")


def _is_fixed(node: ast.expr) -> bool:
    """Whether a value is written in the code: a text that is not empty, a constant's name, or a collection of them."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, str) and value != ""
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.isupper()
        case ast.Tuple(elts=values) | ast.List(elts=values) | ast.Set(elts=values):
            return any(map(_is_fixed, values))
        case ast.JoinedStr():
            return True
    return False


def _has_text(pattern: ast.pattern) -> bool:
    return any(isinstance(node, ast.MatchValue) and _is_fixed(node.value) for node in ast.walk(pattern))


def _errors_of(node: ast.AST, errors: AbstractSet[str]) -> Iterator[str]:
    """Yield the names that `node` gives to an exception of ours."""
    match node:
        case ast.ExceptHandler(name=str(name), type=kind) if kind is not None:
            if _names(kind) & errors:
                yield name
        case ast.arg(arg=name, annotation=kind) | ast.AnnAssign(target=ast.Name(id=name), annotation=kind):
            if kind is not None and _names(kind) & errors:
                yield name
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function))
            | ast.NamedExpr(target=ast.Name(id=name), value=ast.Call(func=function))
        ):
            if _names(function) & errors or name == "error":
                yield name
        case ast.Assign(targets=[ast.Name(id="error")]) | ast.NamedExpr(target=ast.Name(id="error")):
            yield "error"


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} | {
        part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)
    }
