"""Measure the structure of the package: imports between its modules, sizes of folders, private names and arguments.

Run it with `python tests/python/structure.py`; it prints a table.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "parsieve"

# The parts of the package, lowest first. A part imports only parts before it. "" is the module `parsieve` itself.
ORDER = ["errors", "_typing", "wording", "sharing", "observe", "io", "predicate", "filters", "lake", "index"]
ORDER += ["reader", "plan", "integrations", "table", "", "report", "spark", "demo", "server", "cli", "__main__"]
# These are not counted as parts: everybody may use them.
PUBLIC_DOORS = {"", "__main__"}


@dataclass(frozen=True, slots=True)
class Import:
    """An import statement: who imports which module, where, and whether it runs when the importer is loaded."""

    importer: str
    module: str
    line: int
    is_deferred: bool
    is_for_types: bool


def modules() -> dict[str, Path]:
    """Return the package's modules by dotted name below `parsieve`; the package itself is ""."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, path: Path, known: set[str]) -> Iterator[Import]:
    """Yield the imports of other modules of the package, without those of the compiled module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        above: list[ast.AST] = []
        at: ast.AST = node
        while at in parents:
            at = parents[at]
            above.append(at)
        deferred = any(isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) for one in above)
        for_types = any(isinstance(one, ast.If) and "TYPE_CHECKING" in ast.unparse(one.test) for one in above)
        for target in _targets(node, known):
            if target != name and target != "_core":
                yield Import(name, target, node.lineno, deferred, for_types)


def _targets(node: ast.Import | ast.ImportFrom, known: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif node.module == "parsieve" or (node.module or "").startswith("parsieve."):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        return
    for name in names:
        if name != "parsieve" and not name.startswith("parsieve."):
            continue
        below = name.removeprefix("parsieve").removeprefix(".")
        while below not in known and below != "_core" and "." in below:
            below = below.rpartition(".")[0]
        yield below if below in known or below == "_core" else ""


def all_imports(include_types: bool = False) -> list[Import]:
    """Return the imports between modules of the package; those for type checkers alone only on request."""
    known = modules()
    found = [one for name, path in known.items() for one in imports_of(name, path, set(known))]
    return [one for one in found if include_types or not one.is_for_types]


def part_of(module: str) -> str:
    """Return the part of the package that a module belongs to: its first name."""
    return module.partition(".")[0]


def upward(imports: list[Import]) -> list[Import]:
    """Return the imports that run against `ORDER`."""
    rank = {part: number for number, part in enumerate(ORDER)}
    return [
        statement
        for statement in imports
        if part_of(statement.importer) != part_of(statement.module)
        and rank[part_of(statement.module)] >= rank[part_of(statement.importer)]
    ]


def folder_of(module: str) -> str:
    """Return the folder or the module in its part that a module belongs to: its first two names."""
    return ".".join(module.split(".")[:2])


def folder_cycles(imports: list[Import]) -> list[set[str]]:
    """Return the cycles between the folders of a part, and between these and the modules of the part."""
    return cycles(
        {
            (folder_of(statement.importer), folder_of(statement.module))
            for statement in imports
            if part_of(statement.importer) == part_of(statement.module)
            and "." in statement.importer
            and "." in statement.module
            and folder_of(statement.importer) != folder_of(statement.module)
        }
    )


def cycles(edges: set[tuple[str, str]]) -> list[set[str]]:
    """Return the strongly connected components that have more than one member."""
    reach: dict[str, set[str]] = {}
    for start in {source for source, _ in edges}:
        seen: set[str] = set()
        pending = [start]
        while pending:
            for source, target in edges:
                if source == pending[-1] and target not in seen:
                    seen.add(target)
                    pending.insert(0, target)
            pending.pop()
        reach[start] = seen
    rings = {frozenset({a} | {b for b in seen if a in reach.get(b, set())}) for a, seen in reach.items() if a in seen}
    return [set(ring) for ring in rings if len(ring) > 1]


def longest_chain(edges: set[tuple[str, str]]) -> int:
    """Return how many modules the longest chain of imports has; 0 if there is a cycle."""
    depth: dict[str, int] = {}

    def below(name: str, path: tuple[str, ...] = ()) -> int:
        if name in path:
            raise RecursionError
        if name not in depth:
            depth[name] = 1 + max((below(b, (*path, name)) for a, b in edges if a == name), default=0)
        return depth[name]

    try:
        return max((below(source) for source, _ in edges), default=0)
    except RecursionError:
        return 0


def private_definitions() -> set[str]:
    """Return the private names that the package defines: functions, classes, variables and attributes."""
    names: set[str] = set()
    for path in modules().values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                    names.add(name)
                case ast.Attribute(attr=name, ctx=ast.Store()) if _is_of_self(node):
                    names.add(name)
    return {name for name in names if _is_private(name)}


def private_uses() -> list[tuple[str, int, str]]:
    """Return each use of a private name of another module: by import, or as an attribute of another object.

    Private names of other libraries are not counted.
    """
    defined = private_definitions()
    found = []
    for name, path in modules().items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_of_self(node)}
        own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        own |= {
            node.target.id
            for node in ast.walk(tree)
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and _is_private(node.attr)
                and not _is_of_self(node)
                and node.attr not in own
                and node.attr in defined
            ):
                found.append((name, node.lineno, node.attr))
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("parsieve"):
                found += [
                    (name, node.lineno, one.name) for one in node.names if _is_private(one.name) and one.name != "_core"
                ]
    return found


# Documented methods of the standard library whose names start with an underscore.
DOCUMENTED = {"_asdict", "_exit", "_fields", "_replace"}


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in DOCUMENTED


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def most_positional() -> tuple[int, str]:
    """Return the most positional arguments of a function (without self), and its name."""
    most = (0, "")
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = [
                    one.arg for one in (*node.args.posonlyargs, *node.args.args) if one.arg not in ("self", "cls")
                ]
                most = max(most, (len(arguments), f"{name}.{node.name}"))
    return most


def crowded(root: Path, suffix: str) -> tuple[int, str]:
    """Return the most source files in one folder, without `__init__`, `mod` and tests, and that folder."""
    files = [path for path in root.rglob(f"*{suffix}") if not re.search("^(__init__|mod)$|_tests$", path.stem)]
    folder, count = Counter(path.parent for path in files).most_common(1)[0]
    return count, str(folder.relative_to(ROOT))


def format_tests() -> list[str]:
    """Return the lines outside `lake/` that test a table's format. `FORMAT` is the format of a stored document."""
    tests = (r"\.format (==|!=) (?!FORMAT\b)", r'case "(parquet|hudi|delta|iceberg)"', r"isinstance\(.*ParquetDir")
    pattern = re.compile("|".join(tests))
    lines = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if PACKAGE / "lake" not in path.parents:
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if pattern.search(line):
                    lines.append(f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}")
    return lines


def figures() -> dict[str, str]:
    """Return the figures of the table, as text."""
    imports = all_imports()
    parts = {part_of(name) for name in modules()} - PUBLIC_DOORS
    between = {
        (part_of(one.importer), part_of(one.module))
        for one in imports
        if part_of(one.importer) != part_of(one.module)
        and not {part_of(one.importer), part_of(one.module)} & PUBLIC_DOORS
    }
    loaded = {(one.importer, one.module) for one in imports if not one.is_deferred}
    everything = {(one.importer, one.module) for one in imports}
    fan_out = Counter(importer for importer, _ in everything if importer)
    widest, width = fan_out.most_common(1)[0]
    rows = sum(line.startswith("| `") for line in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines())
    python_files, python_folder = crowded(PACKAGE, ".py")
    rust_files, rust_folder = crowded(ROOT / "src", ".rs")
    positional, function = most_positional()
    return {
        "modules at the package's top": str(len(parts)),
        "imports between parts": str(len(between)),
        "longest chain of parts": str(longest_chain(between)),
        "cycles of modules at load time": str(len(cycles(loaded))),
        "cycles of modules, deferred imports included": " ".join(str(len(ring)) for ring in cycles(everything)) or "0",
        "upward imports": str(len(upward(imports))),
        "most files in a folder, Python": f"{python_files} ({python_folder})",
        "most files in a folder, Rust": f"{rust_files} ({rust_folder})",
        "widest fan-out": f"{width} ({widest})",
        "private names used across modules": str(len(private_uses())),
        "most positional arguments": f"{positional} ({function})",
        "tests of the format outside lake/": str(len(format_tests())),
        "rows of the code map": str(rows),
    }


if __name__ == "__main__":
    for figure, value in figures().items():
        print(f"| {figure} | {value} |")
