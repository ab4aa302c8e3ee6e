"""Code of verl and TRL, or of a checkout, by name, without importing the packages (they
need many others): what is wanted is cut out of their sources and executed as it stands.

    pip install --no-deps verl==0.9.1 trl==1.16.0; pip install torch numpy
"""
import ast
import functools
import importlib.metadata
import importlib.util
import pathlib
import types

import torch

VERL, TRL = (f"{name} {importlib.metadata.version(name)}" for name in ("verl", "trl"))


@functools.cache
def source(package, path):
    """Of an installed package, or of a folder."""
    root = (package if pathlib.Path(package).is_dir()
            else importlib.util.find_spec(package).submodule_search_locations[0])
    return ast.parse(pathlib.Path(root, path).read_text())


def execute(body, scope, name):
    exec(compile(ast.Module(list(body), []), name, "exec"), scope)
    return types.SimpleNamespace(**scope)


def functions(package, path, names, **scope):
    """The functions (or classes, or methods) of these names; scope is what they see."""
    found = [n for n in ast.walk(source(package, path))
             if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name in names]
    assert sorted(n.name for n in found) == sorted(names), (path, names)
    return execute(found, {"torch": torch, **scope}, package)


def value_of(package, path, name):
    """The compiled expression that is assigned to the name first."""
    for n in ast.walk(source(package, path)):
        if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == name:
            return compile(ast.Expression(n.value), package, "eval")


def block_before(package, path, function, name):
    """The body of the smallest `if` of a function below which the name is assigned first."""
    inside = next(n for n in ast.walk(source(package, path))
                  if isinstance(n, ast.FunctionDef) and n.name == function)
    found = [n for n in inside.body + [m for n in inside.body for m in ast.walk(n)]
             if isinstance(n, ast.If) and any(
                 isinstance(m, ast.Assign) and getattr(m.targets[0], "id", "") == name
                 for m in n.body)]
    return compile(ast.Module(found[0].body, []), package, "exec")
