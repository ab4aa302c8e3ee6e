"""commands.py SRC TOOLS LIBRARY - what the pages tell a reader to type works as written.

Read are README.md, CONTRIBUTING.md, docs/*.md and the heads of examples/recipes/*.yaml:
blocks of sh and of yaml, and indented lines that begin with a program of the project.
Commands of sr1-* tools are run in a scratch folder, with a tiny model, rows shaped as they
are published, and CUTS behind the words of the page; others have to be in NOT_RUN, with a
reason. Blocks of yaml are configurations: those that name data are trained, all of them
are read. Blocks of python are run, but for those in PYTHON_NOT_RUN. `key: value` and
`key=value` anywhere in these pages must be a value that the key takes.

COMMANDS_ONLY=TEXT: only pages whose path holds TEXT.
"""

import http.server
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

# Commands that are not run here, by how they begin, and why.
NOT_RUN = {
    "tools/quickstart": "tests/quickstart/run runs it",
    "tools/recipe grpo": "tests/recipes runs recipes",
    "tests/": "a suite does not run suites",
    "FUZZ_": "a suite does not run suites",
    "tools/setup": "needs a network",
    "tar ": "the bundle is for another machine; tests/accelerator runs what is in it",
    "meson ": "builds; tests/install/run installs",
    "ninja ": "builds",
    "tools/build ": "builds",
    "build-x/": "another build",
    "ldconfig": "changes the system",
    "sr1-report runs/first --samples": "needs figures of tools/recipe",
    "cc ": "tests/install/run compiles it",
    "hf ": "needs a network; the folder is a tiny model here",
    "pip ": "needs a network",
    "tools/packages/": "tests/packages/run makes packages",
    "python3 -m venv venv": "tests/packages/run makes such an environment",
    "venv/bin/": "tests/packages/run runs what the wheel installs",
    "python3 -m zipfile": "opens what pip fetched",
    "export ": "sets a variable",
    "torchrun ": "needs torch's Python package; tests/dist sets its variables",
    "mpirun ": "needs Open MPI; tests/dist sets its variables",
    "srun ": "needs Slurm; tests/dist sets its variables",
    "for r in ": "tests/dist/test_rank_tool.c starts such ranks",
    "data ": "a line of a recipe; tests/recipes/steps.sh runs such",
    "model ": "a line of a recipe",
    "train ": "a line of a recipe",
    "evaluate ": "a line of a recipe",
    "shows ": "a line of a recipe",
    "promises ": "a line of a recipe",
    "build/tools/sr1-sandbox run plot.py": "needs a virtual environment in /opt",
    "sr1-search index --vectors": "needs embeddings of 21 million passages; "
    "tests/cli/16-search-vectors runs this form",
    "sr1-search serve wiki.dense": "its index is that of the line before",
    "sr1-search serve wiki-18.jsonl --faiss": "needs an index of FAISS; "
    "tests/unit/search/test_faiss.c reads some",
}

# As many are excused as there are: one more is a decision, made here.
MOST_NOT_RUN = 34
MOST_PYTHON_NOT_RUN = 6

# Blocks of yaml that are read, not trained, by a line in them, and why.
NOT_TRAINED = {
    "weight_sync_backend:": "needs servers that load weights; test_weight_push.c has them",
}

# Blocks of python that are not run here, by a line in them, and why.
PYTHON_NOT_RUN = {
    "from trl import GRPOConfig": "TRL's own",
    "from searchr1.adapters import of_trl": "needs datasets; "
    "test_a_script_of_trl in tests/python/test_example.py has such a script",
    "tools=[query_biogrid]": "goes on with a script of TRL's; "
    "test_a_script_of_trl_with_a_tool in the same file",
    "from my_environment import Towns": "needs verifiers; tests/python/test_adapters.py",
    'vf.load_environment("wordle")': "the same",
    'Gymnasium("FrozenLake-v1"': "needs gymnasium; test_the_port_of_a_lake_itself there",
}

# Blocks of python that are run only where numpy is installed, by a line in them.
PYTHON_OF_NUMPY = ("batch.rewards.mean()",)

# What a block of python takes as there, by a line in it, and what is done with what it made.
PYTHON_AROUND = {
    '@searchr1.register_adv_est("centred")': ("", "searchr1.Trainer(config).run()"),
    "with searchr1.Sandbox() as box:": ("programs = ['print(1)', '1 / 0']", ""),
    'searchr1.Embedder("all-MiniLM-L6-v2")': ("passages = ['Hamlet is a play.', 'Rome.']", ""),
}

# Before each: the library, and runs of seconds, as CUTS. Demonstrations of a tiny model say
# nothing, and a tree's are others in their place, as in AFTER.
PYTHON_CUT = """
import functools, shutil
import searchr1, searchr1.code, searchr1.critique

def cut(made, words):
    def make(config, *arguments, **more):
        config = searchr1.Config(config)
        for word in words:
            config.set(word)
        return made(config, *arguments, **more)
    return make

def write_demos(self, path, *arguments, **more):
    written = wrote(self, path, *arguments, **more)
    shutil.copy("taught.jsonl", path)
    return written

wrote = searchr1.critique.RevisionTrees.write_demos
searchr1.critique.RevisionTrees.write_demos = write_demos
searchr1.critique.Generator.model = functools.partial(
    searchr1.critique.Generator.model, max_tokens=16)
searchr1.code.Checker = functools.partial(
    searchr1.code.Checker, sandbox_isolation="none")
searchr1.Sandbox = functools.partial(searchr1.Sandbox, isolation="none")
searchr1.Trainer = cut(searchr1.Trainer, CUTS)
"""

# Commands that go on with a path of their own, and end when they are told to.
SERVES = "sr1-search serve"

# What follows the words of a page: a run of seconds on a CPU.
CUTS = (
    "device=cpu dtype=fp32 workers=1 threads=1 max_steps=2 batch_size=2 "
    "mini_batch_size=0 group_size=2 max_tokens=24 max_tokens_per_turn=0 max_prompt_tokens=2048 "
    "filter_overlong_prompts=false max_turns=2 max_env_steps=1 "
    "gradient_checkpointing=false level_max_tokens=16 validate_interval=0 save_interval=0 update_times=1 "
    "proxy_max_tokens=16 sandbox_isolation=none"
).split()
CUT_GENERATION = (
    "device=cpu dtype=fp32 workers=1 threads=1 max_tokens=24 max_turns=1"
).split()
CUT_TOOLS = {
    "sr1-train": CUTS,
    "sr1-infer": CUT_GENERATION,
    "sr1-eval": [*CUT_GENERATION, "sandbox_isolation=none"],
    "sr1-data synth": [*CUT_GENERATION, "openai_retries=0"],
    "sr1-data critiques": [
        *CUT_GENERATION,
        "proxy_max_tokens=16",
        "sandbox_isolation=none",
    ],
}

# What a page takes as there.
MADE_RUN = "sr1-train run.yaml out=runs/{} " + " ".join(CUTS)
TEXTS = "mkdir texts && printf 'Ada Moor keeps the lighthouse.\\n' >texts/harbour.txt"
BEFORE = {
    "docs/guides.md": [TEXTS],
    "docs/formats.md": [MADE_RUN.format("first"), MADE_RUN.format("second")],
    "examples/recipes/search-r1-grpo.yaml": ["rm train.jsonl test.jsonl"],
    "docs/recipes.md": [
        "cp critics.jsonl held-out-problems.jsonl",
        "cp critics.jsonl held-out-rows.jsonl",
    ],
}

# What is put in a file's place behind a command: a tiny model says nothing that could be
# learned from.
AFTER = {"sr1-data critiques": "for f in sft*.jsonl; do cp taught.jsonl $f; done"}

MODELS = (
    "Qwen3-0.6B",
    "Qwen3-4B",
    "models/qwen3-0.6b",
    "models/qwen2.5-3b",
    "models/qwen2.5-7b",
    "models/coder",
    "models/Qwen2.5-Coder-7B-Instruct",
    "runs/levels/model",
)

NQ_OPEN = [
    {"question": "when was anyone last on the moon", "answer": ["December 1972"]},
    {"question": "when did the eagles win last super bowl", "answer": ["2017"]},
]
NQ_OPEN_RECORDS = [
    {"question": row["question"], "golden_answers": row["answer"]} for row in NQ_OPEN
]
TRIVIAQA = [
    {
        "question": "Who wrote Dune?",
        "question_id": "tc_1",
        "question_source": "http://example.org/",
        "entity_pages": {"title": []},
        "search_results": {"title": []},
        "answer": {
            "value": "Frank Herbert",
            "aliases": ["Herbert", "Frank Herbert"],
            "normalized_aliases": ["herbert", "frank herbert"],
            "matched_wiki_entity_name": "",
            "type": "WikipediaEntity",
        },
    }
]


MBPP = [
    {
        "task_id": 2,
        "text": "Write a function to find the similar elements of two lists.",
        "code": "def similar_elements(a, b):\n    return set(a) & set(b)",
        "test_setup_code": "",
        "test_list": ["assert similar_elements([1, 2], [2, 3]) == {2}"],
        "challenge_test_list": [],
    }
]
RUN = """model_name_or_path: tiny
search_engine: bm25
search_index: corpus.bm25
train_file: questions.jsonl
"""
TAUGHT = [
    {
        "messages": [
            {"role": "user", "content": "Is x = 1 right?"},
            {"role": "assistant", "content": "Overall judgment: Correct"},
        ]
    }
] * 2
CRITICS = [
    {
        "id": "c1",
        "problem": "Let x be 1.",
        "solution": "x = 1",
        "tests": ["assert x == 1"],
        "critique_prompt": "Let x be 1. Is x = 1 right?",
    }
]


def taco(question):
    return {
        "question": question,
        "solutions": json.dumps(["print(input())"]),
        "starter_code": "",
        "input_output": json.dumps({"inputs": ["a\n"], "outputs": ["a\n"]}),
        "difficulty": "EASY",
        "raw_tags": "[]",
        "name": None,
        "source": "codeforces",
        "tags": "[]",
        "skill_types": "[]",
        "url": None,
        "Expected Auxiliary Space": None,
        "time_limit": "2.0 seconds",
        "date": None,
        "picture_num": None,
        "memory_limit": None,
        "Expected Time Complexity": None,
    }


# ---- reading pages ----


class Block:
    """Lines of a page that belong together; of kind sh, yaml, or plain (indented)."""

    def __init__(self, kind, line):
        self.kind, self.line, self.lines = kind, line, []


def page_blocks(text):
    block = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if block is not None and block.kind != "plain":
                yield block
                block = None
            else:
                block = Block(line[3:].strip() or "text", number + 1)
        elif block is not None and block.kind != "plain":
            block.lines.append(line)
        elif line.startswith("    "):
            block = block or Block("plain", number)
            block.lines.append(line[4:])
        elif block is not None:
            yield block
            block = None


def head_blocks(text):
    """Of the comment at the top of a recipe."""
    block = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#     "):
            block = block or Block("plain", number)
            block.lines.append(line[6:].lstrip())
        else:
            if block is not None:
                yield block
            block = None
            if not line.startswith("#"):
                return


def is_whole(command):
    quotes = re.sub(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"", "", command)
    return not command.endswith("\\") and "'" not in quotes and '"' not in quotes


def commands_of(block):
    """(line, command), continued lines joined."""
    command, at = "", 0
    for number, line in enumerate(block.lines, block.line):
        at = at if command else number
        if command.endswith("\\"):
            command = command[:-1].rstrip() + " " + line.strip()
        else:
            command += ("\n" if command else "") + line.rstrip()
        if is_whole(command):
            if command and not command.startswith("#"):
                yield at, command
            command = ""


OURS = r"(^|[ /])(sr1-[a-z]+|tools/recipe)\b|^echo |^python3 examples/"
PROGRAM = re.compile(r"(build/)?tools/|sr1-[a-z]+ |hf |[a-z_]+=\S+ [a-z_]+=")


def is_command(block, command):
    return block.kind == "sh" or bool(PROGRAM.match(command))


def uncommented(command):
    return re.sub(r"\s+#[^'\"]*$", "", command)


def imitation(text):
    """The configuration of stage sft in docs/recipes.md, which other pages name sft.yaml."""
    blocks = ["\n".join(b.lines) + "\n" for b in page_blocks(text) if b.kind == "yaml"]
    return next(b for b in blocks if "stage: sft" in b)


# ---- a scene ----


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


class Model(http.server.BaseHTTPRequestHandler):
    """Answers as vLLM does (VLLM_SERVER_DEV_MODE=1), with tokens of no meaning; weights are
    taken and not looked at."""

    def log_message(self, *args):
        pass

    def say(self, body, code=200):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        answers = {
            "/v1/models": {"data": [{"id": "tiny", "max_model_len": 4096}]},
            "/version": {"version": "0.30.0"},
            "/health": {},
            "/is_paused": {"is_paused": False},
            "/weight_info": {"weight_version": getattr(self.server, "weights", "default")},
        }
        answer = answers.get(self.path)
        self.say({} if answer is None else answer, 404 if answer is None else 200)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
        if not self.path.startswith("/v1/"):
            self.server.weights = body.get("new_version", getattr(self.server, "weights", ""))
            self.say({})
            return
        ids = [10] * min(body.get("max_tokens", 4), 24)
        choice = {"finish_reason": "length", "token_ids": ids, "text": ""}
        choice["logprobs"] = {
            "tokens": [f"token_id:{i}" for i in ids],
            "token_logprobs": [-1.0] * len(ids),
        }
        if "messages" in body:
            text = "<answer> Paris </answer>"
            choice["message"] = {"role": "assistant", "content": text}
        read = len(body.get("prompt", []))
        usage = {"prompt_tokens": read, "completion_tokens": len(ids)}
        self.say({"choices": [choice], "usage": usage})


class Scene:
    def __init__(self, src, tools, work):
        self.src, self.work = src, work
        self.base = work / "base"
        self.base.mkdir()
        self.env = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}")
        self.env.pop("OPENAI_API_KEY", None)
        self.tools = tools
        self.make_base()
        self.model_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
        threading.Thread(target=self.model_server.serve_forever, daemon=True).start()
        self.model_url = f"http://127.0.0.1:{self.model_server.server_port}/v1"
        self.search = self.serve("sr1-search serve corpus.bm25 --port 0", self.base)
        self.search_url = self.search[1]

    def run(self, command, folder, timeout=300):
        return subprocess.run(
            ["sh", "-c", command],
            cwd=folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
        )

    def need(self, command):
        done = self.run(command, self.base)
        if done.returncode:
            sys.exit(f"{command}\n{done.stdout.decode()}")

    def make_base(self):
        base, src = self.base, self.src
        self.need("sr1-data world world --scale 0.05 --seed 1")
        shape = json.loads((src / "examples/quickstart/model.json").read_text())
        shape["max_position_embeddings"] = 8192
        (base / "shape.json").write_text(json.dumps(shape))
        self.need("sr1-data model shape.json tiny --tokenizer world/tokenizer")
        self.need("sr1-search index world/corpus.jsonl corpus.bm25")
        rows = (base / "world/train.jsonl").read_text().splitlines(True)[:6]
        for name in ("questions", "test", "held-out"):
            (base / f"{name}.jsonl").write_text("".join(rows))
        for name in ("corpus", "wiki", "wiki-18"):
            shutil.copy(base / "world/corpus.jsonl", base / f"{name}.jsonl")
        for name in ("wiki", "scifact"):
            shutil.copy(base / "corpus.bm25", base / f"{name}.bm25")
        write_rows(base / "queries.jsonl", [{"_id": "1", "text": "Where is it?"}])
        (base / "qrels").mkdir()
        (base / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n1\tp1\t1\n")
        write_rows(base / "train.jsonl", NQ_OPEN_RECORDS)
        write_rows(base / "NQ-open.train.jsonl", NQ_OPEN)
        write_rows(base / "NQ-open.dev.jsonl", NQ_OPEN)
        write_rows(base / "triviaqa-train.jsonl", TRIVIAQA)
        write_rows(base / "triviaqa-validation.jsonl", TRIVIAQA)
        write_rows(base / "taco-train.jsonl", [taco("Echo."), taco("Say it again.")])
        write_rows(base / "taco-test.jsonl", [taco("Repeat.")])
        write_rows(base / "mbpp.jsonl", MBPP)
        for name in ("run", "train"):
            (base / f"{name}.yaml").write_text(RUN)
        write_rows(base / "taught.jsonl", TAUGHT)
        write_rows(base / "critics.jsonl", CRITICS)
        (base / "sft.yaml").write_text(imitation((src / "docs/recipes.md").read_text()))
        for name in MODELS:
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).symlink_to(base / "tiny")
        encoders = src / "tests/golden/encoder"
        for name in ("e5-base-v2", "all-MiniLM-L6-v2"):
            (base / name).symlink_to(encoders / "bert-gelu")
        (base / "ms-marco-MiniLM-L-6-v2").symlink_to(encoders / "cross-encoder")
        (base / "examples").symlink_to(src / "examples")
        (base / "tools").symlink_to(src / "tools")
        (base / "build").mkdir()
        (base / "build/tools").symlink_to(self.tools)

    def page_folder(self, page, line=""):
        folder = self.work / re.sub(r"\W", "-", f"{page}{line}")
        shutil.copytree(self.base, folder, symlinks=True)
        for command in BEFORE.get(page, ()):
            done = self.run(command, folder)
            if done.returncode:
                sys.exit(f"{page}: {command}\n{done.stdout.decode()}")
        return folder

    def serve(self, command, folder):
        """Start it; (process, address) once it says that it listens."""
        process = subprocess.Popen(
            ["sh", "-c", "exec " + command],
            cwd=folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said = process.stdout.readline().decode()
        found = re.search(r"http://127\.0\.0\.1:\d+/retrieve", said)
        if not found:
            process.kill()
            raise RuntimeError(said + process.stdout.read().decode())
        return process, found.group(0)

    def close(self):
        self.search[0].terminate()
        self.search[0].wait()
        self.model_server.shutdown()


# ---- running ----


def tool_of(command):
    found = re.search(r"sr1-(?:data [a-z]+|[a-z]+)", command)
    name = found.group(0) if found else ""
    return name if name.startswith("sr1-data") else name.split(" ")[0]


def cut(command, scene):
    tool = tool_of(command)
    words = list(CUT_TOOLS.get(tool, ()))
    if tool == "sr1-train" and re.search(r"sr1-train \S+\.yaml", command):
        words.append(f"search_url={scene.search_url}")
    elif tool == "sr1-train":
        words = []
    if "use_openai=true" in command:
        words.append(f"openai_base_url={scene.model_url}")
        words.append("weight_sync_max_log_prob_diff=0")  # of tokens of no meaning
    return " ".join([command, *words])


class Pages:
    def __init__(self, scene, config):
        self.scene, self.config = scene, config
        self.failures, self.run_count, self.kept = [], 0, set()
        self.untrained = set()
        self.last = {}  # what was typed last, by page, for words that follow it

    def fail(self, page, line, command, said):
        self.failures.append(f"{page}:{line}: {command}\n    " + said.strip()[-1500:])

    def not_run(self, command):
        for begin in NOT_RUN:
            if command.startswith(begin):
                self.kept.add(begin)
                return True
        return False

    def do(self, page, line, command, folder):
        command = uncommented(command)
        if re.match(r"[a-z_]+=\S+ [a-z_]+=", command):  # words behind those of before
            command = f"{self.last[page]} {command} out=runs/with-a-server"
        self.last[page] = command
        if self.not_run(command):
            return
        if not re.search(OURS, command):
            self.fail(page, line, command, "is neither run nor in NOT_RUN")
            return
        self.run_count += 1
        try:
            if SERVES in command:
                command = re.sub(r" --port \d+", "", command) + " --port 0"
                process, _ = self.scene.serve(command, folder)
                process.terminate()
                code, said = process.wait(60), "did not end well"
            else:
                done = self.scene.run(cut(command, self.scene), folder)
                code, said = done.returncode, done.stdout.decode(errors="replace")
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            code, said = 1, str(error)
        self.scene.run(AFTER.get(tool_of(command), "true"), folder)
        if not code and re.search(r"sr1-train .*use_openai=true", command):
            code, said = self.old_samples(folder)
        if code:
            self.fail(page, line, command, f"exit code {code}: {said}")

    def old_samples(self, folder):
        """1 if a step trained on samples of older weights than its own."""
        rows = (folder / "runs/with-a-server/metrics.jsonl").read_text().splitlines()
        steps = [json.loads(row) for row in rows]
        old = [row["step"] for row in steps if row["rollout/staleness"] != 0]
        return int(len(steps) < 2 or bool(old)), f"{len(steps)} steps, samples of {old} are old"

    def do_yaml(self, page, block, folder, trains):
        text = "\n".join(block.lines) + "\n"
        name = "train.yaml"
        (folder / name).write_text(text)
        try:
            self.config(folder / name)
        except Exception as error:  # a text of the library
            self.fail(page, block.line, "yaml", str(error))
            return
        excused = {part for part in NOT_TRAINED if part in text}
        self.untrained |= excused
        if excused or not trains:
            return
        if re.search(r"^(train|sft)_file:", text, re.M):
            self.do(page, block.line, f"sr1-train {name}", folder)

    def do_python(self, page, block, blocks):
        """In a folder of its own, with the problems and the runs' configurations above it."""
        text = "\n".join(block.lines)
        excused = [line for line in PYTHON_NOT_RUN if line in text]
        self.kept.update(excused)
        if excused:
            return
        around = [row for line, row in PYTHON_AROUND.items() if line in text]
        self.kept.update(line for line in PYTHON_AROUND if line in text)
        if not importlib.util.find_spec("numpy"):
            if any(line in text for line in PYTHON_OF_NUMPY):
                return
        folder = self.scene.page_folder(page, block.line)
        for other in blocks[: blocks.index(block)]:
            words = "\n".join(other.lines) + "\n"
            out = re.search(r"^out: runs/(\S+)$", words, re.M)
            if other.kind == "json":
                (folder / "problems.jsonl").write_text(words)
            elif other.kind == "yaml" and out:
                (folder / f"{out.group(1)}.yaml").write_text(words)
        parts = [PYTHON_CUT.replace("CUTS", repr(CUTS)), *(row[0] for row in around), text,
                 *(row[1] for row in around)]
        (folder / "block.py").write_text("\n".join(parts) + "\n")
        self.run_count += 1
        try:
            done = self.scene.run(f"{sys.executable} block.py", folder)
            code, said = done.returncode, done.stdout.decode(errors="replace")
        except subprocess.TimeoutExpired as error:
            code, said = 1, str(error)
        if code:
            self.fail(page, block.line, "python", said)
        shutil.rmtree(folder)

    def read(self, page, blocks):
        folder = self.scene.page_folder(page)
        blocks = list(blocks)
        typed = "\n".join("\n".join(b.lines) for b in blocks if b.kind != "yaml")
        for block in blocks:
            if block.kind == "yaml":
                self.do_yaml(page, block, folder, "sr1-train train.yaml" not in typed)
            elif block.kind == "json":
                (folder / "problems.jsonl").write_text("\n".join(block.lines) + "\n")
            elif block.kind == "python":
                self.do_python(page, block, blocks)
            elif block.kind in ("sh", "plain"):
                for line, command in commands_of(block):
                    if is_command(block, command):
                        self.do(page, line, command, folder)
        shutil.rmtree(folder)


PAIR = re.compile(r"\b([a-z][a-z0-9_]*)(?:=|: )(\"[^\"]*\"|\[[^]]*\]|[^\s`,;()|]+)")


NAMES_FILES = ("path", "secret")
LEFT_TO_USER = {"validation_file": "rows.jsonl", "search_index": "corpus.bm25"}  # by a recipe
PLACEHOLDER = re.compile(r"[A-Z]{2}|\.\.\.|^[A-Za-z]$|\$")


def check_pairs(page, path, keys, config, pages):
    """Values that a page gives to keys: in its backquotes, or in a recipe's comments, where those of
    a line are set together over the recipe's own."""
    is_recipe = path.suffix != ".md"
    places = r"#(.*)" if is_recipe else r"(?<!`)`([^`\n]+)`(?!`)"
    for place in re.findall(places, path.read_text()):
        pairs = [(key, value.strip('"[].').rstrip(":")) for key, value in PAIR.findall(place)]
        pairs = [(k, v) for k, v in pairs if k in keys and v and not PLACEHOLDER.search(v)]
        try:
            if is_recipe:
                settings = config(path)
                left = {k: v for k, v in LEFT_TO_USER.items() if not settings.is_set(k)}
                pairs = [*left.items(), *pairs]
            else:
                settings = config()
                pairs = [(k, v) for k, v in pairs if keys[k].type not in NAMES_FILES]
            for key, value in pairs:
                settings.set(f"{key}={value}")
            if is_recipe:
                settings.validate()
        except Exception as error:  # a text of the library
            pages.fail(page, 0, " ".join(f"{k}: {v}" for k, v in pairs), str(error))


def main():
    src, tools, library = (Path(p).resolve() for p in sys.argv[1:4])
    os.environ["SR1_LIBRARY"] = str(library)
    os.environ["PYTHONPATH"] = str(src / "bindings/python")
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.path.insert(0, str(src / "bindings/python"))
    sys.dont_write_bytecode = True
    import searchr1

    only = os.environ.get("COMMANDS_ONLY", "")
    found = [src / "README.md", src / "CONTRIBUTING.md", *sorted((src / "docs").glob("*.md"))]
    found += sorted((src / "examples/recipes").glob("*.yaml"))
    work = Path(tempfile.mkdtemp())
    scene = None
    try:
        scene = Scene(src, tools, work)
        pages = Pages(scene, searchr1.Config)
        for path in found:
            page, text = str(path.relative_to(src)), path.read_text()
            if only not in page:
                continue
            blocks = page_blocks(text) if path.suffix == ".md" else head_blocks(text)
            pages.read(page, blocks)
            check_pairs(page, path, searchr1.KEYS, searchr1.Config, pages)
        if not only:
            for begin in sorted({*NOT_RUN, *PYTHON_NOT_RUN, *PYTHON_AROUND} - pages.kept):
                pages.fail("NOT_RUN", 0, begin, "no page has such a command any more")
            if len(NOT_RUN) != MOST_NOT_RUN:
                said = f"{len(NOT_RUN)} commands are excused, MOST_NOT_RUN is {MOST_NOT_RUN}"
                pages.fail("NOT_RUN", 0, "its length", said)
            if len(PYTHON_NOT_RUN) != MOST_PYTHON_NOT_RUN:
                said = f"{len(PYTHON_NOT_RUN)} blocks are excused, not {MOST_PYTHON_NOT_RUN}"
                pages.fail("PYTHON_NOT_RUN", 0, "its length", said)
            for part in sorted(set(NOT_TRAINED) - pages.untrained):
                pages.fail("NOT_TRAINED", 0, part, "no page has such a block any more")
    finally:
        if scene:
            scene.close()
        shutil.rmtree(work)
    for failure in pages.failures:
        print("FAILED:", failure)
    print(f"{pages.run_count} commands run, {len(pages.failures)} failures")
    sys.exit(bool(pages.failures) or pages.run_count < (1 if only else 40))


main()
