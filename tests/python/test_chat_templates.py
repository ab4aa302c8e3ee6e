"""Templates in the manner of published ones, over fresh conversations, against Jinja2 itself;
skipped where it is not installed. SR1_CONVERSATIONS: how many with each template and seed
(20; with 800 they are more than 100,000)."""
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

pytest.importorskip("jinja2")
GOLDEN = pathlib.Path(os.environ.get("SR1_SRC", ".")) / "tests" / "golden"
PROGRAM = pathlib.Path(os.environ.get("SR1_BUILD", "build")) / "tests" / "unit" / "jinja" / "jinja-lines"
COUNT = int(os.environ.get("SR1_CONVERSATIONS", "20"))
sys.path.insert(0, str(GOLDEN))
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="needs SR1_BUILD, a build folder with its tests")


def run_lines(lines):
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([str(PROGRAM)], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("seed", [1, 2])
def test_templates_render_as_jinja2_does(seed):
    import jinja_reference
    import make_jinja_vectors as vectors

    env, rng = jinja_reference.environment(), random.Random(seed)
    for path in vectors.templates():
        source = path.read_bytes().decode()
        conversations = [vectors.conversation(rng) for _ in range(COUNT)]
        got = run_lines([{"template": source, "vars": c} for c in conversations])
        template = env.from_string(source)
        for answer, c in zip(got, conversations):
            try:
                want = template.render(**json.loads(json.dumps(c)))
            except Exception:  # what a template may raise is not bounded
                want = None
            assert answer.get("text") == want, (path.name, answer.get("error"))
