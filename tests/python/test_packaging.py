"""The recipe for conda-forge has the version, the dependencies and the commands of pyproject.toml and Cargo.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "packaging" / "conda-forge" / "recipe.yaml"


def listed(recipe: str, section: str) -> list[str]:
    """Return the entries of a list in the recipe."""
    section_lines = re.search(rf"^ *{section}:\n((?: +- .*\n)+)", recipe, re.MULTILINE)
    assert section_lines is not None, section
    return re.findall(r"- (.*)", section_lines[1])


def test_the_recipe_agrees_with_the_project() -> None:
    recipe = RECIPE.read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    [version] = re.findall(r"^  version: ([0-9].*)$", recipe, re.MULTILINE)
    assert version == cargo["package"]["version"]
    dependencies = [f"python {project['project']['requires-python']}", *project["project"]["dependencies"]]
    assert listed(recipe, "run") == [re.sub(r"(\w)>=", r"\1 >=", dependency) for dependency in dependencies]
    built_with = [re.sub(r"(\w)>=", r"\1 >=", requirement) for requirement in project["build-system"]["requires"]]
    assert listed(recipe, "host") == ["python", "pip", *built_with]
    scripts = [f"{name} = {target}" for name, target in project["project"]["scripts"].items()]
    assert listed(recipe, "entry_points") == scripts
    assert (ROOT / listed(recipe, "source")[0]).exists()
