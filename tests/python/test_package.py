"""The package as others get it: installed, loaded, typed."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import searchr1
from searchr1._lib import lib


def test_version():
    assert searchr1.version() == searchr1.__version__ == "0.1.0"


def sources():
    return sorted(Path(searchr1.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.name)
def test_python_3_9_can_read_it(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    imports = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    assert path.name == "__init__.py" or "__future__" in imports


def test_annotations():
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                given = [
                    a
                    for a in (*node.args.args, *node.args.kwonlyargs)
                    if a.arg not in ("self", "cls")
                ]
                assert node.returns is not None, f"{path.name}: {node.name}"
                assert all(a.annotation for a in given), f"{path.name}: {node.name}"


def test_wrong_arguments_are_refused(tmp_path):
    with pytest.raises(TypeError, match="text is wanted here, not int: 7"):
        searchr1.code.extract(7)
    for wrong in (3, "model", True):  # as pointers they would end the process
        with pytest.raises(TypeError, match="object of searchr1"):
            searchr1.Rollout({"model_name_or_path": str(tmp_path)}, model=wrong)
    with searchr1.Mock({"tower": "Paris"}) as engine:
        with pytest.raises(TypeError, match="a list of texts is wanted here, not one"):
            engine.run("Where?")
    with pytest.raises(TypeError, match="a generator is a function"):
        searchr1.critique.Generator(3)


def test_one_question_is_no_list(rollout):
    with pytest.raises(TypeError, match="a list of questions is wanted here, not one"):
        rollout.generate("Where?")
    with pytest.raises(TypeError, match="a question is a text, Query or Row, not 3"):
        rollout.generate([3])


def test_everything_offered_is_there():
    assert all(hasattr(searchr1, name) for name in searchr1.__all__)


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=dict(os.environ, **environment),
    )


def test_library_that_is_not_there():
    done = run("import searchr1", SR1_LIBRARY="/nowhere/lib.so")
    assert (
        done.returncode == 1
        and "SR1_LIBRARY" in done.stderr
        and "/nowhere" in done.stderr
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler here")
def test_library_whose_torch_is_gone(tmp_path):
    for name, needs in (("torch_cpu", []), ("it", ["-Wl,--no-as-needed", "-ltorch_cpu"])):
        subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", f"lib{name}.so",
                        "-L.", *needs], cwd=tmp_path, check=True)  # fmt: skip
    (tmp_path / "libtorch_cpu.so").unlink()
    done = run("import searchr1", SR1_LIBRARY=str(tmp_path / "libit.so"))
    assert done.returncode == 1 and "a library of torch's; the build loads" in done.stderr
    assert "a library of torch's" not in run("import searchr1", SR1_LIBRARY="/no.so").stderr


def test_working_folder_that_is_gone(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = run(f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); import searchr1")
    assert done.returncode == 1 and "the working folder is gone" in done.stderr


def test_library_of_another_kind():
    other = Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib")
    found = sorted(Path("/usr/lib").rglob("libyaml-0.so.2")) or sorted(
        other.glob("libz.so*")
    )
    done = run("import searchr1", SR1_LIBRARY=str(found[0]))
    assert done.returncode == 1 and "has no function sr1_" in done.stderr


def test_threads_wait_quietly():
    code = "import os, searchr1; print(os.environ['OMP_WAIT_POLICY'])"
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip() == "passive"
    assert run(code, OMP_WAIT_POLICY="active").stdout.strip() == "active"


def test_ends_well_with_everything_open():
    done = run(
        "import searchr1 as s\n"
        "m = s.Mock({'a': 'b'}); e = s.PythonSearch(lambda q, k: ['x'] * len(q))\n"
        "v = s.Environment('search', e); e.run(['q']); t = s.RewardSet()\n"
        "t.add('r', lambda ts: [0.0])\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_log(caplog, tmp_path, model_folder):
    import logging

    import tiny

    def engine(queries, top_k):
        return [ValueError("broken")] * len(queries)

    searchr1.log.send_to(logging.getLogger("sr1"))
    try:
        with searchr1.Rollout(tiny.config(model_folder), search=engine) as rollout:
            rollout.generate(["Where?"])
    finally:
        searchr1.log.send_to(None)
    assert any(r.name == "sr1" and "broken" in r.getMessage() for r in caplog.records)


@pytest.mark.parametrize(
    "level, lines",
    [
        ("", ["searchr1: broken"]),
        ("off", []),
        ("warning", ["searchr1: broken"]),
        ("debug", ["searchr1: fine", "searchr1: broken"]),
        ("loud", ["searchr1: SR1_LOG is one of debug, info, warning, off, not 'loud'",
                  "searchr1: broken"]),
    ],
)
def test_messages_reach_stderr(level, lines):
    """By the package's own logger, which the root logger does not repeat."""
    code = (
        "import logging, searchr1; logging.basicConfig()\n"
        "searchr1.log._send(None, 0, b'fine'); searchr1.log._send(None, 2, b'broken')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SR1_LOG": level},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.splitlines()) == (0, lines)


def test_level_of_messages():
    before = searchr1.log.logger.level
    searchr1.log.set_level("debug")
    assert searchr1.log.logger.level == 10
    with pytest.raises(ValueError, match="one of debug, info, warning, off, not 'all'"):
        searchr1.log.set_level("all")
    searchr1.log.logger.setLevel(before)


def installed(python, folder, *arguments):
    """Where `import searchr1` finds the package that pip has put into an environment."""
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-index", *arguments], check=True
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["SR1_LIBRARY"] = lib._name
    code = "import searchr1; searchr1.version(); print(searchr1.__file__)"
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.mark.skipif(
    importlib.util.find_spec("ensurepip") is None, reason="needs python3-venv"
)
def test_installs_into_a_virtual_environment(source, tmp_path):
    """Nothing is fetched, whichever tools the environment has."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    python = tmp_path / "bin" / "python"
    package = source / "bindings" / "python"
    there = installed(python, tmp_path, package)
    assert tmp_path in there.parents and (there.parent / "py.typed").exists()
    for path in sources():
        assert (there.parent / path.name).read_bytes() == path.read_bytes()
    subprocess.run([python, "-m", "pip", "check", "-q"], check=True)
    assert installed(python, tmp_path, "-e", package).parent == package / "searchr1"
    subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", "searchr1"], check=True)
    assert not list(tmp_path.rglob("searchr1*"))


@pytest.mark.parametrize("variable, level", [(None, 40), ("debug", 10), ("odd", 40)])
def test_a_level_that_the_program_set_stays(variable, level):
    environ = {k: v for k, v in os.environ.items() if k != "SR1_LOG"}
    if variable:
        environ["SR1_LOG"] = variable
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import logging; logging.getLogger('searchr1').setLevel(logging.ERROR)\n"
            f"import searchr1; assert searchr1.log.logger.level == {level}",
        ],
        check=True,
        env=environ,
    )
