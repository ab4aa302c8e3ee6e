"""Train a language model to think, search and answer.

A thin layer over libsearchr1: what a function does, its limits and its errors are in the
public headers. A failing call raises a class of searchr1.errors; what a callback raises
comes out of the call that ran it. Arrays are numpy's where numpy is installed.

    import searchr1

    with searchr1.Trainer("train.yaml", search=my_engine) as trainer:
        trainer.run(step=lambda report, planned: print(report.avg_reward))
"""

from . import (
    adapters,
    advantage,
    code,
    critique,
    errors,
    log,
    loss,
    reward,
    thinking,
    tools,
    world,
)
from ._lib import version
from .advantage import register_adv_est
from .config import ELSEWHERE, KEYS, PRESETS, Config, Elsewhere, Key
from .data import Dataset, Row
from .dense import (
    Dense,
    build_dense,
    dense_estimate,
    dense_info,
    import_dense,
    verify_dense,
)
from .embed import Embedder, PythonEmbedder, PythonReranker, Reranker
from .env import Action, Environment, Episode, Reply
from .errors import Error
from .faiss import Faiss, build_faiss
from .loss import register_policy_loss
from .measures import Qrels, SearchMeasures, measure_search
from .memory import Plan, PlanAdvice, plan
from .model import Model
from .openai import Completion, OpenAI
from .ranks import Ranks
from .reward import Judge, RewardSet, Scales
from .rollout import (
    Evaluation,
    Figure,
    Query,
    Rollout,
    Scores,
    Suite,
    SuiteScores,
    SynthReport,
)
from .sandbox import Execution, ExecutionResult, Sandbox, judge_output
from .search import (
    Bm25,
    Chain,
    DiskCache,
    Hit,
    Hybrid,
    Mock,
    OpenSearch,
    PythonSearch,
    Qdrant,
    Remote,
    Rerank,
    Result,
    Search,
    Web,
    build_bm25,
    open_search,
    verify_bm25,
    web_providers,
)
from .server import Server
from .tokenizer import Tokenizer, TokenStream
from .tools import Tool
from .trainer import RunPlan, RunSummary, StepReport, Trainer, alarms
from .trajectory import Trajectory

__version__ = "0.1.0"

__all__ = [
    "Action",
    "Bm25",
    "Chain",
    "Completion",
    "Config",
    "ELSEWHERE",
    "Elsewhere",
    "Dataset",
    "Dense",
    "DiskCache",
    "Embedder",
    "Environment",
    "Episode",
    "Error",
    "Evaluation",
    "Faiss",
    "Figure",
    "Hit",
    "Hybrid",
    "Judge",
    "KEYS",
    "PRESETS",
    "Key",
    "Mock",
    "Model",
    "OpenAI",
    "OpenSearch",
    "Plan",
    "PlanAdvice",
    "PythonEmbedder",
    "PythonReranker",
    "PythonSearch",
    "Qdrant",
    "Qrels",
    "Query",
    "Ranks",
    "Remote",
    "Reply",
    "Rerank",
    "Reranker",
    "Result",
    "RewardSet",
    "Rollout",
    "Row",
    "Execution",
    "RunPlan",
    "ExecutionResult",
    "RunSummary",
    "Sandbox",
    "Scales",
    "Scores",
    "Search",
    "SearchMeasures",
    "Server",
    "StepReport",
    "Suite",
    "SuiteScores",
    "SynthReport",
    "TokenStream",
    "Tokenizer",
    "Tool",
    "Trainer",
    "Trajectory",
    "Web",
    "adapters",
    "advantage",
    "alarms",
    "critique",
    "build_bm25",
    "build_dense",
    "build_faiss",
    "code",
    "dense_estimate",
    "dense_info",
    "errors",
    "import_dense",
    "judge_output",
    "log",
    "loss",
    "measure_search",
    "open_search",
    "plan",
    "register_adv_est",
    "register_policy_loss",
    "reward",
    "thinking",
    "tools",
    "verify_bm25",
    "verify_dense",
    "version",
    "web_providers",
    "world",
]
