"""Every function of the public headers: result type, then argument types.

Written by tools/dev/ctypes_tables.py from the public headers; do not edit.
STATUS marks a sr1_status that is raised as an exception when it is not SR1_OK.
"""

from __future__ import annotations

from ctypes import (
    c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint64, c_uint8, c_void_p,
    POINTER,
)
from typing import Any, Dict, Tuple

from ._address import handle
from ._structs import (
    ActionEvent, AdvantageBatch, AdvantageInfo, AdvantageOps, AdvantageOptions,
    AdvantageOutputs, AdvantageReport, BalanceReport, Bm25BuildOptions, Bm25Info,
    Bm25Options, Bm25ProgressFn, ChatOptions, CheckerOptions, CheckerStats, CheckReport,
    ConfigElsewhere, ConfigKeyInfo, ConfigPreset, Conversation, CritiqueDemoOptions,
    CritiqueDemoReport, DatasetOptions, DenseBuildOptions, DenseEstimate, DenseInfo,
    DenseOptions, DenseProgressFn, DiskCacheOptions, EmbedderOps, EncoderOptions, EnvOps,
    EnvOptions, EnvReply, EvalOptions, EvalScores, ExecutionResult, ExternalOptions,
    FaissBuildOptions, FaissOptions, FaissProgressFn, GeneratorOps, GeneratorOptions,
    HybridOptions, JudgeCounters, JudgeItem, JudgementScores, JudgeOptions, KlController,
    LogFn, LossBatch, LossInfo, LossMaps, LossOps, LossOptions, LossReport, McpOptions,
    MetricSinkFn, ModelOptions, OpenaiCounters, OpenaiOptions, OpenaiRequest,
    OpenaiResult, ProblemCase, ProblemsOptions, Program, ProgramsOptions, Query,
    QueryStats, RecordOptions, RejectionReport, RemoteReport, RerankerOps, RerankOptions,
    ResumeOptions, RevisionNode, RevisionTreeOptions, RevisionTreeScores, RewardOps,
    RewardOptions, RewardScales, RolloutOptions, RoomsOptions, RoomsTask, RunCallbacks,
    RunPlan, SandboxCounters, SandboxOptions, SearchCounters, SearchHit,
    SearchHttpOptions, SearchMeasureOptions, SearchMeasures, SearchOps, SearchTable,
    ServerOptions, ServerStats, StepReport, Submission, SuiteOptions, SynthOptions,
    SynthReport, TextSegment, ThinkingStep, TokenizerTrainOptions, TokenStep, ToolOps,
    ValueBatch, ValueOptions, ValueReport, WorldOptions, WorldProgressFn,
)

STATUS = object()

CHECK = handle("sr1_check")
CHECKER = handle("sr1_checker")
CONFIG = handle("sr1_config")
CRITIQUE_STYLE = handle("sr1_critique_style")
DATASET = handle("sr1_dataset")
EMBEDDER = handle("sr1_embedder")
ENV = handle("sr1_env")
ENV_SINK = handle("sr1_env_sink")
EVALUATION = handle("sr1_evaluation")
EXECUTION = handle("sr1_execution")
GENERATOR = handle("sr1_generator")
GENERATOR_SINK = handle("sr1_generator_sink")
JUDGE = handle("sr1_judge")
LINES = handle("sr1_lines")
MODEL = handle("sr1_model")
OPENAI = handle("sr1_openai")
OPENAI_RESULTS = handle("sr1_openai_results")
PLAN = handle("sr1_plan")
PROBLEM = handle("sr1_problem")
PROBLEMS = handle("sr1_problems")
QRELS = handle("sr1_qrels")
RANKS = handle("sr1_ranks")
RERANKER = handle("sr1_reranker")
REVISION_TREES = handle("sr1_revision_trees")
REWARD_SET = handle("sr1_reward_set")
ROLLOUT = handle("sr1_rollout")
ROW = handle("sr1_row")
SANDBOX = handle("sr1_sandbox")
SEARCH = handle("sr1_search")
SEARCH_RESULTS = handle("sr1_search_results")
SEARCH_SINK = handle("sr1_search_sink")
SERVER = handle("sr1_server")
SUITE = handle("sr1_suite")
TOKENIZER = handle("sr1_tokenizer")
TOKEN_STREAM = handle("sr1_token_stream")
TOOL_SINK = handle("sr1_tool_sink")
TRAINER = handle("sr1_trainer")
TRAJECTORY = handle("sr1_trajectory")

# fmt: off
FUNCTIONS: Dict[str, Tuple[Any, ...]] = {
    # advantage.h
    "sr1_advantage_register": (STATUS, POINTER(AdvantageOps), c_void_p),
    # base.h
    "sr1_last_error": (c_char_p,),
    "sr1_status_name": (c_char_p, c_int32),
    "sr1_status_text": (c_char_p, c_int32),
    "sr1_set_error": (c_int32, c_int32, c_char_p),
    "sr1_set_call_mark": (c_uint64, c_uint64),
    "sr1_call_mark": (c_uint64,),
    "sr1_version": (c_char_p,),
    "sr1_free": (None, c_void_p),
    "sr1_log_set": (None, LogFn, c_void_p),
    # config.h
    "sr1_config_new": (STATUS, POINTER(c_void_p)),
    "sr1_config_free": (None, CONFIG),
    "sr1_config_copy": (STATUS, POINTER(c_void_p), CONFIG),
    "sr1_config_load": (STATUS, CONFIG, c_char_p),
    "sr1_config_load_run": (STATUS, CONFIG, c_char_p),
    "sr1_config_set": (STATUS, CONFIG, c_char_p, c_char_p),
    "sr1_config_unset": (STATUS, CONFIG, c_char_p),
    "sr1_config_get_int": (STATUS, CONFIG, c_char_p, POINTER(c_int64)),
    "sr1_config_get_real": (STATUS, CONFIG, c_char_p, POINTER(c_double)),
    "sr1_config_get_bool": (STATUS, CONFIG, c_char_p, POINTER(c_int32)),
    "sr1_config_get_str": (STATUS, CONFIG, c_char_p, POINTER(c_char_p)),
    "sr1_config_is_set": (STATUS, CONFIG, c_char_p, POINTER(c_int32)),
    "sr1_config_validate": (STATUS, CONFIG),
    "sr1_config_to_json": (STATUS, CONFIG, POINTER(c_void_p)),
    # data.h
    "sr1_dataset_options_init": (None, POINTER(DatasetOptions)),
    "sr1_dataset_open": (
        STATUS, POINTER(c_void_p), POINTER(c_char_p), c_size_t, POINTER(DatasetOptions),
    ),
    "sr1_dataset_split": (
        STATUS, POINTER(c_void_p), DATASET, c_double, c_double, c_uint64, c_int32,
    ),
    "sr1_dataset_free": (None, DATASET),
    "sr1_dataset_count": (c_int64, DATASET),
    "sr1_dataset_read": (STATUS, DATASET, c_int64, POINTER(c_void_p)),
    "sr1_row_free": (None, ROW),
    "sr1_row_id": (c_char_p, ROW),
    "sr1_row_question": (c_char_p, ROW),
    "sr1_row_data_source": (c_char_p, ROW),
    "sr1_row_answer_count": (c_size_t, ROW),
    "sr1_row_answer": (c_char_p, ROW, c_size_t),
    "sr1_row_json": (STATUS, ROW, POINTER(c_void_p)),
    # env.h
    "sr1_env_sink_text": (STATUS, ENV_SINK, c_size_t, c_char_p, c_size_t),
    "sr1_env_sink_hit": (STATUS, ENV_SINK, c_size_t, c_char_p),
    "sr1_env_sink_status": (STATUS, ENV_SINK, c_size_t, c_int32),
    "sr1_env_sink_done": (STATUS, ENV_SINK, c_size_t),
    "sr1_env_sink_reward": (STATUS, ENV_SINK, c_size_t, c_double),
    "sr1_env_sink_success": (STATUS, ENV_SINK, c_size_t),
    "sr1_env_sink_flags": (STATUS, ENV_SINK, c_size_t, c_int32),
    "sr1_env_options_init": (None, POINTER(EnvOptions)),
    "sr1_env_open": (STATUS, POINTER(c_void_p), c_char_p, SEARCH, POINTER(EnvOptions)),
    "sr1_env_new": (
        STATUS, POINTER(c_void_p), POINTER(EnvOps), c_void_p, POINTER(EnvOptions),
    ),
    "sr1_env_free": (None, ENV),
    "sr1_tool_sink_text": (STATUS, TOOL_SINK, c_char_p, c_size_t),
    "sr1_tool_sink_hit": (STATUS, TOOL_SINK, c_char_p),
    "sr1_tool_sink_status": (STATUS, TOOL_SINK, c_int32),
    "sr1_env_add_tool": (STATUS, ENV, POINTER(ToolOps), c_void_p),
    "sr1_env_tools": (c_char_p, ENV),
    # loss.h
    "sr1_loss_register": (STATUS, POINTER(LossOps), c_void_p),
    # model.h
    "sr1_model_options_init": (None, POINTER(ModelOptions)),
    "sr1_model_open": (STATUS, POINTER(c_void_p), c_char_p, POINTER(ModelOptions)),
    "sr1_model_save": (STATUS, MODEL, c_char_p),
    "sr1_model_save_merged": (STATUS, MODEL, c_char_p),
    "sr1_model_free": (None, MODEL),
    "sr1_model_dtype": (c_char_p, MODEL),
    "sr1_model_device": (c_char_p, MODEL),
    # reward.h
    "sr1_reward_exact_match": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(c_double),
    ),
    "sr1_reward_f1": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(c_double),
    ),
    "sr1_reward_set_open": (STATUS, POINTER(c_void_p), CONFIG),
    "sr1_reward_set_free": (None, REWARD_SET),
    "sr1_reward_set_add": (STATUS, REWARD_SET, POINTER(RewardOps), c_void_p, c_double),
    "sr1_reward_set_count": (c_size_t, REWARD_SET),
    "sr1_reward_set_name": (c_char_p, REWARD_SET, c_size_t),
    "sr1_reward_set_score": (
        STATUS, REWARD_SET, POINTER(c_void_p), c_size_t, POINTER(c_double),
        POINTER(c_double),
    ),
    "sr1_reward_set_apply": (STATUS, REWARD_SET, POINTER(c_void_p), c_size_t),
    # rollout.h
    "sr1_rollout_new": (STATUS, POINTER(c_void_p), CONFIG, MODEL, TOKENIZER, SEARCH),
    "sr1_rollout_free": (None, ROLLOUT),
    "sr1_rollout_model": (c_void_p, ROLLOUT),
    "sr1_rollout_set_env": (STATUS, ROLLOUT, ENV),
    "sr1_rollout_options_init": (None, POINTER(RolloutOptions)),
    "sr1_rollout_generate": (
        STATUS, ROLLOUT, POINTER(Query), c_size_t, POINTER(RolloutOptions),
        POINTER(c_void_p),
    ),
    "sr1_rollout_log_probs": (
        STATUS, ROLLOUT, POINTER(c_void_p), c_size_t, POINTER(c_float), c_size_t,
    ),
    "sr1_eval_options_init": (None, POINTER(EvalOptions)),
    "sr1_evaluate": (STATUS, POINTER(c_void_p), ROLLOUT, DATASET, POINTER(EvalOptions)),
    "sr1_evaluation_free": (None, EVALUATION),
    "sr1_evaluation_count": (c_size_t, EVALUATION),
    "sr1_evaluation_scores": (STATUS, EVALUATION, c_size_t, POINTER(EvalScores)),
    # search.h
    "sr1_search_open": (STATUS, POINTER(c_void_p), CONFIG),
    "sr1_search_new": (STATUS, POINTER(c_void_p), POINTER(SearchOps), c_void_p),
    "sr1_search_sink_hit": (STATUS, SEARCH_SINK, c_size_t, c_char_p, c_char_p, c_double),
    "sr1_search_sink_status": (STATUS, SEARCH_SINK, c_size_t, c_int32, c_char_p),
    "sr1_search_retain": (c_void_p, SEARCH),
    "sr1_search_free": (None, SEARCH),
    "sr1_search_name": (c_char_p, SEARCH),
    "sr1_search_set_cache": (STATUS, SEARCH, c_uint64),
    "sr1_search_set_threads": (STATUS, SEARCH, c_int32),
    "sr1_search_run": (
        STATUS, SEARCH, POINTER(c_char_p), c_size_t, c_int32, POINTER(c_void_p),
    ),
    "sr1_search_results_count": (c_size_t, SEARCH_RESULTS),
    "sr1_search_results_status": (c_int32, SEARCH_RESULTS, c_size_t),
    "sr1_search_results_message": (c_char_p, SEARCH_RESULTS, c_size_t),
    "sr1_search_results_hit_count": (c_int32, SEARCH_RESULTS, c_size_t),
    "sr1_search_results_hit": (
        STATUS, SEARCH_RESULTS, c_size_t, c_int32, POINTER(SearchHit),
    ),
    "sr1_search_results_free": (None, SEARCH_RESULTS),
    # trainer.h
    "sr1_trainer_check": (STATUS, CONFIG),
    "sr1_trainer_new": (STATUS, POINTER(c_void_p), CONFIG, SEARCH),
    "sr1_trainer_free": (None, TRAINER),
    "sr1_trainer_add_reward": (STATUS, TRAINER, POINTER(RewardOps), c_void_p, c_double),
    "sr1_trainer_rollout": (c_void_p, TRAINER),
    "sr1_trainer_config": (c_void_p, TRAINER),
    "sr1_trainer_steps_done": (c_int64, TRAINER),
    "sr1_trainer_steps_planned": (c_int64, TRAINER),
    "sr1_trainer_update": (
        STATUS, TRAINER, POINTER(c_void_p), c_size_t, POINTER(StepReport),
    ),
    "sr1_trainer_train_step": (
        STATUS, TRAINER, POINTER(Query), c_size_t, c_int32, POINTER(StepReport),
        POINTER(c_void_p),
    ),
    "sr1_step_metric_name": (c_char_p, c_size_t),
    "sr1_step_metric": (STATUS, POINTER(StepReport), c_char_p, POINTER(c_double)),
    "sr1_step_metric_at": (c_char_p, POINTER(StepReport), c_size_t, POINTER(c_double)),
    "sr1_trainer_set_metric_sink": (STATUS, TRAINER, MetricSinkFn, c_void_p),
    "sr1_trainer_run": (STATUS, TRAINER, POINTER(RunCallbacks)),
    "sr1_resume_options_init": (None, POINTER(ResumeOptions)),
    "sr1_trainer_resume": (STATUS, POINTER(c_void_p), c_char_p, POINTER(ResumeOptions)),
    "sr1_trainer_stop": (None, TRAINER),
    "sr1_trainer_save_model": (STATUS, TRAINER, c_char_p),
    "sr1_trainer_run_folder": (c_char_p, TRAINER),
    # trajectory.h
    "sr1_stop_reason_name": (c_char_p, c_int32),
    "sr1_trajectory_retain": (c_void_p, TRAJECTORY),
    "sr1_trajectory_free": (None, TRAJECTORY),
    "sr1_trajectory_query": (c_void_p, TRAJECTORY, POINTER(c_size_t)),
    "sr1_trajectory_query_id": (c_char_p, TRAJECTORY),
    "sr1_trajectory_sample": (c_int32, TRAJECTORY),
    "sr1_trajectory_data_source": (c_char_p, TRAJECTORY),
    "sr1_trajectory_ground_truth_count": (c_size_t, TRAJECTORY),
    "sr1_trajectory_ground_truth": (c_void_p, TRAJECTORY, c_size_t, POINTER(c_size_t)),
    "sr1_trajectory_row_json": (c_void_p, TRAJECTORY, POINTER(c_size_t)),
    "sr1_trajectory_stop_reason": (c_int32, TRAJECTORY),
    "sr1_trajectory_token_count": (c_size_t, TRAJECTORY),
    "sr1_trajectory_prompt_count": (c_size_t, TRAJECTORY),
    "sr1_trajectory_policy_count": (c_size_t, TRAJECTORY),
    "sr1_trajectory_turn_count": (c_int32, TRAJECTORY),
    "sr1_trajectory_ids": (c_void_p, TRAJECTORY),
    "sr1_trajectory_turns": (c_void_p, TRAJECTORY),
    "sr1_trajectory_log_probs": (c_void_p, TRAJECTORY),
    "sr1_trajectory_policy_mask": (c_void_p, TRAJECTORY),
    "sr1_trajectory_generated_text": (c_void_p, TRAJECTORY, POINTER(c_size_t)),
    "sr1_trajectory_final_answer": (c_void_p, TRAJECTORY, POINTER(c_size_t)),
    "sr1_trajectory_search_count": (c_size_t, TRAJECTORY),
    "sr1_trajectory_search": (STATUS, TRAJECTORY, c_size_t, POINTER(ActionEvent)),
    "sr1_trajectory_has_reward": (c_int32, TRAJECTORY),
    "sr1_trajectory_reward": (c_double, TRAJECTORY),
    "sr1_trajectory_reward_component_count": (c_size_t, TRAJECTORY),
    "sr1_trajectory_reward_component": (
        STATUS, TRAJECTORY, c_size_t, POINTER(c_char_p), POINTER(c_double),
        POINTER(c_double),
    ),
    "sr1_trajectory_set_reward": (STATUS, TRAJECTORY, c_double),
    "sr1_trajectory_has_advantage": (c_int32, TRAJECTORY),
    "sr1_trajectory_advantage": (c_double, TRAJECTORY),
    "sr1_trajectory_set_advantage": (STATUS, TRAJECTORY, c_double),
    "sr1_trajectory_to_json": (STATUS, TRAJECTORY, POINTER(c_void_p), POINTER(c_size_t)),
    "sr1_trajectory_from_json": (STATUS, POINTER(c_void_p), c_char_p, c_size_t),
    # ext/batching.h
    "sr1_overlong_penalty": (
        STATUS, POINTER(c_int64), c_size_t, c_int64, c_int64, c_double, POINTER(c_double),
    ),
    "sr1_dynamic_sampling": (
        STATUS, POINTER(c_double), POINTER(c_uint64), c_size_t, c_double, c_double,
        POINTER(c_uint8), POINTER(c_size_t), POINTER(c_size_t),
    ),
    "sr1_query_select": (
        STATUS, c_char_p, POINTER(QueryStats), c_size_t, c_uint64, c_uint64,
        POINTER(c_int64),
    ),
    "sr1_balance": (
        STATUS, POINTER(c_int64), c_size_t, c_size_t, c_int32, POINTER(c_int32),
        POINTER(BalanceReport),
    ),
    # ext/bm25.h
    "sr1_bm25_build_options_init": (None, POINTER(Bm25BuildOptions)),
    "sr1_bm25_build": (
        STATUS, c_char_p, c_char_p, POINTER(Bm25BuildOptions), Bm25ProgressFn, c_void_p,
    ),
    "sr1_bm25_options_init": (None, POINTER(Bm25Options)),
    "sr1_search_open_bm25": (STATUS, POINTER(c_void_p), c_char_p, POINTER(Bm25Options)),
    "sr1_bm25_verify": (STATUS, c_char_p),
    "sr1_bm25_info_get": (STATUS, SEARCH, POINTER(Bm25Info)),
    # ext/code.h
    "sr1_problems_options_init": (None, POINTER(ProblemsOptions)),
    "sr1_problems_load": (
        STATUS, POINTER(c_void_p), POINTER(c_char_p), c_size_t, POINTER(ProblemsOptions),
    ),
    "sr1_problems_parse": (
        STATUS, POINTER(c_void_p), c_char_p, c_size_t, c_char_p, POINTER(ProblemsOptions),
    ),
    "sr1_problems_retain": (c_void_p, PROBLEMS),
    "sr1_problems_free": (None, PROBLEMS),
    "sr1_problems_count": (c_size_t, PROBLEMS),
    "sr1_problems_left_out": (c_size_t, PROBLEMS),
    "sr1_problems_at": (c_void_p, PROBLEMS, c_size_t),
    "sr1_problems_find": (c_void_p, PROBLEMS, c_char_p),
    "sr1_problem_id": (c_char_p, PROBLEM),
    "sr1_problem_text": (c_char_p, PROBLEM),
    "sr1_problem_solution": (c_char_p, PROBLEM),
    "sr1_problem_reference": (c_char_p, PROBLEM),
    "sr1_problem_entry_point": (c_char_p, PROBLEM),
    "sr1_problem_data_source": (c_char_p, PROBLEM),
    "sr1_problem_style": (c_int32, PROBLEM),
    "sr1_problem_time_limit": (c_double, PROBLEM),
    "sr1_problem_test_count": (c_size_t, PROBLEM),
    "sr1_problem_test": (STATUS, PROBLEM, c_size_t, POINTER(ProblemCase)),
    "sr1_problem_prompt": (STATUS, PROBLEM, POINTER(c_void_p)),
    "sr1_code_extract": (
        STATUS, c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t),
        POINTER(c_int32),
    ),
    "sr1_critique_judgement": (c_int32, c_char_p, c_size_t),
    "sr1_critique_text": (None, c_char_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t)),
    "sr1_judgement_score": (
        STATUS, POINTER(c_int32), POINTER(c_int32), c_size_t, POINTER(JudgementScores),
    ),
    "sr1_checker_options_init": (None, POINTER(CheckerOptions)),
    "sr1_checker_new": (STATUS, POINTER(c_void_p), SANDBOX, POINTER(CheckerOptions)),
    "sr1_checker_open": (STATUS, POINTER(c_void_p), CONFIG),
    "sr1_checker_retain": (c_void_p, CHECKER),
    "sr1_checker_free": (None, CHECKER),
    "sr1_checker_submit": (
        STATUS, CHECKER, PROBLEM, c_int32, c_char_p, c_size_t, POINTER(c_void_p),
    ),
    "sr1_checker_run": (
        STATUS, CHECKER, PROBLEM, c_int32, c_char_p, c_size_t, POINTER(c_void_p),
    ),
    "sr1_check_wait": (STATUS, CHECK, c_double),
    "sr1_check_done": (c_int32, CHECK),
    "sr1_check_cancel": (None, CHECK),
    "sr1_check_free": (None, CHECK),
    "sr1_check_report_get": (STATUS, CHECK, POINTER(CheckReport)),
    "sr1_check_verdict": (c_int32, CHECK, c_size_t),
    "sr1_checker_stats_get": (STATUS, CHECKER, POINTER(CheckerStats)),
    # ext/config_names.h
    "sr1_config_key_count": (c_size_t,),
    "sr1_config_key_describe": (STATUS, c_size_t, POINTER(ConfigKeyInfo)),
    "sr1_config_set_pair": (STATUS, CONFIG, c_char_p),
    "sr1_config_elsewhere_count": (c_size_t,),
    "sr1_config_elsewhere_describe": (STATUS, c_size_t, POINTER(ConfigElsewhere)),
    "sr1_config_preset_count": (c_size_t,),
    "sr1_config_preset_describe": (STATUS, c_size_t, POINTER(ConfigPreset)),
    # ext/critique.h
    "sr1_critique_sanitize": (STATUS, c_char_p, c_size_t, POINTER(c_void_p)),
    "sr1_critique_style_open": (STATUS, POINTER(c_void_p), c_char_p, c_char_p),
    "sr1_critique_style_retain": (c_void_p, CRITIQUE_STYLE),
    "sr1_critique_style_free": (None, CRITIQUE_STYLE),
    "sr1_critique_solve_prompt": (STATUS, CRITIQUE_STYLE, PROBLEM, POINTER(c_void_p)),
    "sr1_critique_prompt": (
        STATUS, CRITIQUE_STYLE, PROBLEM, c_char_p, c_size_t, c_char_p, POINTER(c_void_p),
    ),
    "sr1_critique_revision": (
        STATUS, CRITIQUE_STYLE, PROBLEM, c_char_p, c_size_t, c_char_p, c_size_t,
        POINTER(c_void_p),
    ),
    "sr1_critique_execution_feedback": (
        STATUS, PROBLEM, c_char_p, c_size_t, CHECK, POINTER(c_void_p),
    ),
    "sr1_generator_sink_text": (STATUS, GENERATOR_SINK, c_size_t, c_char_p, c_size_t),
    "sr1_generator_new": (STATUS, POINTER(c_void_p), POINTER(GeneratorOps), c_void_p),
    "sr1_generator_retain": (c_void_p, GENERATOR),
    "sr1_generator_free": (None, GENERATOR),
    "sr1_generator_name": (c_char_p, GENERATOR),
    "sr1_generator_generate": (
        STATUS, GENERATOR, POINTER(Conversation), c_size_t, POINTER(c_void_p),
        POINTER(c_size_t),
    ),
    "sr1_generator_options_init": (None, POINTER(GeneratorOptions)),
    "sr1_generator_open_model": (
        STATUS, POINTER(c_void_p), c_char_p, CONFIG, POINTER(GeneratorOptions),
    ),
    "sr1_generator_open_remote": (
        STATUS, POINTER(c_void_p), CONFIG, POINTER(GeneratorOptions),
    ),
    "sr1_generator_open_reviser": (STATUS, POINTER(c_void_p), CONFIG),
    "sr1_critique_env_open": (
        STATUS, POINTER(c_void_p), PROBLEMS, GENERATOR, CRITIQUE_STYLE,
        POINTER(EnvOptions),
    ),
    "sr1_revision_tree_options_init": (None, POINTER(RevisionTreeOptions)),
    "sr1_revision_trees_open": (STATUS, POINTER(c_void_p), POINTER(RevisionTreeOptions)),
    "sr1_revision_trees_free": (None, REVISION_TREES),
    "sr1_revision_trees_expand": (
        STATUS, REVISION_TREES, POINTER(c_int32), c_size_t, POINTER(c_int64),
    ),
    "sr1_revision_trees_count": (c_size_t, REVISION_TREES),
    "sr1_revision_trees_node": (STATUS, REVISION_TREES, c_size_t, POINTER(RevisionNode)),
    "sr1_revision_trees_scores": (
        STATUS, REVISION_TREES, c_int32, POINTER(RevisionTreeScores),
    ),
    "sr1_pass_at_k": (STATUS, c_int64, c_int64, c_int64, POINTER(c_double)),
    "sr1_revision_trees_pass_at_k": (
        STATUS, REVISION_TREES, c_int32, c_int64, POINTER(c_double),
    ),
    "sr1_critique_demo_options_init": (None, POINTER(CritiqueDemoOptions)),
    "sr1_revision_trees_write_demos": (
        STATUS, REVISION_TREES, c_char_p, POINTER(CritiqueDemoOptions),
        POINTER(CritiqueDemoReport),
    ),
    "sr1_revision_trees_write_rows": (
        STATUS, REVISION_TREES, POINTER(c_char_p), c_size_t, c_char_p, POINTER(c_int64),
    ),
    # ext/data_files.h
    "sr1_record_options_init": (None, POINTER(RecordOptions)),
    "sr1_dataset_write_records": (STATUS, DATASET, c_char_p, POINTER(RecordOptions)),
    "sr1_row_history_count": (c_size_t, ROW),
    "sr1_row_history": (c_char_p, ROW, c_size_t, POINTER(c_char_p)),
    "sr1_lines_open": (STATUS, POINTER(c_void_p), c_char_p),
    "sr1_lines_next": (STATUS, LINES, POINTER(c_char_p), POINTER(c_size_t)),
    "sr1_lines_free": (None, LINES),
    # ext/dense.h
    "sr1_dense_build_options_init": (None, POINTER(DenseBuildOptions)),
    "sr1_dense_build": (
        STATUS, c_char_p, c_char_p, EMBEDDER, POINTER(DenseBuildOptions), DenseProgressFn,
        c_void_p,
    ),
    "sr1_dense_import": (
        STATUS, c_char_p, c_char_p, c_int32, c_char_p, POINTER(DenseBuildOptions),
        DenseProgressFn, c_void_p,
    ),
    "sr1_dense_estimate_get": (
        STATUS, c_char_p, EMBEDDER, c_int32, POINTER(DenseBuildOptions),
        POINTER(DenseEstimate),
    ),
    "sr1_dense_options_init": (None, POINTER(DenseOptions)),
    "sr1_search_open_dense": (
        STATUS, POINTER(c_void_p), c_char_p, EMBEDDER, POINTER(DenseOptions),
    ),
    "sr1_dense_verify": (STATUS, c_char_p),
    "sr1_dense_info_get": (STATUS, SEARCH, POINTER(DenseInfo)),
    "sr1_dense_info_read": (STATUS, c_char_p, POINTER(DenseInfo)),
    "sr1_dense_embedder_name": (STATUS, c_char_p, POINTER(c_void_p)),
    # ext/embed.h
    "sr1_embedder_new": (STATUS, POINTER(c_void_p), POINTER(EmbedderOps), c_void_p),
    "sr1_embedder_retain": (c_void_p, EMBEDDER),
    "sr1_embedder_free": (None, EMBEDDER),
    "sr1_embedder_name": (c_char_p, EMBEDDER),
    "sr1_embedder_dim": (c_int32, EMBEDDER),
    "sr1_embedder_embed": (
        STATUS, EMBEDDER, POINTER(c_char_p), c_size_t, c_int32, POINTER(c_float),
    ),
    "sr1_embedder_similarity": (STATUS, EMBEDDER, c_char_p, c_char_p, POINTER(c_double)),
    "sr1_reranker_new": (STATUS, POINTER(c_void_p), POINTER(RerankerOps), c_void_p),
    "sr1_reranker_retain": (c_void_p, RERANKER),
    "sr1_reranker_free": (None, RERANKER),
    "sr1_reranker_name": (c_char_p, RERANKER),
    "sr1_reranker_score": (
        STATUS, RERANKER, c_char_p, POINTER(c_char_p), c_size_t, POINTER(c_double),
    ),
    "sr1_encoder_options_init": (None, POINTER(EncoderOptions)),
    "sr1_embedder_open": (STATUS, POINTER(c_void_p), c_char_p, POINTER(EncoderOptions)),
    "sr1_reranker_open": (STATUS, POINTER(c_void_p), c_char_p, POINTER(EncoderOptions)),
    # ext/engines.h
    "sr1_index_kind": (c_char_p, c_char_p),
    "sr1_search_open_mock": (
        STATUS, POINTER(c_void_p), POINTER(c_char_p), POINTER(c_char_p), c_size_t,
    ),
    "sr1_search_open_mock_file": (STATUS, POINTER(c_void_p), c_char_p),
    "sr1_search_http_options_init": (None, POINTER(SearchHttpOptions)),
    "sr1_search_open_remote": (
        STATUS, POINTER(c_void_p), c_char_p, POINTER(SearchHttpOptions),
    ),
    "sr1_search_open_opensearch": (
        STATUS, POINTER(c_void_p), c_char_p, POINTER(SearchHttpOptions),
    ),
    "sr1_search_open_qdrant": (
        STATUS, POINTER(c_void_p), c_char_p, EMBEDDER, POINTER(SearchHttpOptions),
    ),
    "sr1_search_open_web": (
        STATUS, POINTER(c_void_p), c_char_p, POINTER(SearchHttpOptions),
    ),
    "sr1_search_web_provider": (c_char_p, c_size_t),
    "sr1_search_open_chain": (STATUS, POINTER(c_void_p), POINTER(c_void_p), c_size_t),
    "sr1_disk_cache_options_init": (None, POINTER(DiskCacheOptions)),
    "sr1_search_open_disk_cache": (
        STATUS, POINTER(c_void_p), SEARCH, c_char_p, POINTER(DiskCacheOptions),
    ),
    "sr1_hybrid_options_init": (None, POINTER(HybridOptions)),
    "sr1_search_open_hybrid": (
        STATUS, POINTER(c_void_p), POINTER(c_void_p), POINTER(c_double), c_size_t,
        POINTER(HybridOptions),
    ),
    "sr1_rerank_options_init": (None, POINTER(RerankOptions)),
    "sr1_search_open_rerank": (
        STATUS, POINTER(c_void_p), SEARCH, RERANKER, POINTER(RerankOptions),
    ),
    "sr1_search_sink_row": (STATUS, SEARCH_SINK, c_size_t, c_char_p),
    "sr1_search_counters_get": (STATUS, SEARCH, POINTER(SearchCounters)),
    # ext/episodes.h
    "sr1_env_name": (c_char_p, ENV),
    "sr1_env_answer": (
        STATUS, ENV, c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t),
    ),
    "sr1_env_begin": (
        STATUS, ENV, c_char_p, c_char_p, c_size_t, c_uint64, POINTER(c_int64),
    ),
    "sr1_env_step": (
        STATUS, ENV, c_int64, c_char_p, c_size_t, POINTER(EnvReply), POINTER(c_void_p),
        POINTER(c_size_t),
    ),
    "sr1_env_finish": (None, ENV, c_int64),
    # ext/estimators.h
    "sr1_advantage_options_init": (STATUS, POINTER(AdvantageOptions), c_char_p),
    "sr1_advantage_estimate": (
        STATUS, c_char_p, POINTER(AdvantageBatch), POINTER(AdvantageOptions),
        POINTER(AdvantageOutputs), POINTER(AdvantageReport),
    ),
    "sr1_advantage_name": (c_char_p, c_size_t),
    "sr1_advantage_describe": (STATUS, c_size_t, POINTER(AdvantageInfo)),
    "sr1_advantage_need": (c_char_p, c_size_t),
    "sr1_advantage_group": (
        STATUS, POINTER(c_double), c_size_t, c_double, POINTER(c_double),
    ),
    "sr1_advantage_zero_variance_groups": (
        STATUS, POINTER(c_double), POINTER(c_uint64), c_size_t, POINTER(c_uint8),
        POINTER(c_size_t), POINTER(c_size_t),
    ),
    # ext/eval_figures.h
    "sr1_evaluation_figure_name": (c_char_p, EVALUATION, c_size_t),
    "sr1_evaluation_figure": (
        STATUS, EVALUATION, c_size_t, c_char_p, c_char_p, POINTER(c_double),
    ),
    # ext/external.h
    "sr1_external_options_init": (None, POINTER(ExternalOptions)),
    "sr1_search_open_external": (
        STATUS, POINTER(c_void_p), c_char_p, POINTER(ExternalOptions),
    ),
    "sr1_env_open_external": (
        STATUS, POINTER(c_void_p), c_char_p, POINTER(EnvOptions),
        POINTER(ExternalOptions),
    ),
    "sr1_reward_set_add_external": (
        STATUS, REWARD_SET, c_char_p, c_char_p, c_double, POINTER(ExternalOptions),
    ),
    # ext/faiss.h
    "sr1_faiss_options_init": (None, POINTER(FaissOptions)),
    "sr1_search_open_faiss": (
        STATUS, POINTER(c_void_p), c_char_p, c_char_p, EMBEDDER, POINTER(FaissOptions),
    ),
    "sr1_faiss_build_options_init": (None, POINTER(FaissBuildOptions)),
    "sr1_faiss_build": (
        STATUS, c_char_p, c_char_p, c_char_p, POINTER(FaissBuildOptions), FaissProgressFn,
        c_void_p,
    ),
    # ext/judge.h
    "sr1_judge_options_init": (None, POINTER(JudgeOptions)),
    "sr1_judge_open": (STATUS, POINTER(c_void_p), POINTER(JudgeOptions)),
    "sr1_judge_open_config": (STATUS, POINTER(c_void_p), CONFIG),
    "sr1_judge_retain": (c_void_p, JUDGE),
    "sr1_judge_free": (None, JUDGE),
    "sr1_judge_score": (STATUS, JUDGE, POINTER(JudgeItem), c_size_t, POINTER(c_double)),
    "sr1_judge_counters_get": (STATUS, JUDGE, POINTER(JudgeCounters)),
    # ext/kl.h
    "sr1_kl_k3": (
        STATUS, POINTER(c_double), POINTER(c_double), c_size_t, POINTER(c_double),
    ),
    "sr1_kl_k3_f32": (
        STATUS, POINTER(c_float), POINTER(c_float), c_size_t, POINTER(c_double),
    ),
    "sr1_kl_tokens": (
        STATUS, c_char_p, POINTER(c_double), POINTER(c_double), c_size_t,
        POINTER(c_double), POINTER(c_double),
    ),
    "sr1_kl_full": (
        STATUS, POINTER(c_double), POINTER(c_double), c_size_t, c_size_t,
        POINTER(c_double), POINTER(c_double),
    ),
    "sr1_kl_penalty": (
        STATUS, c_char_p, c_double, POINTER(c_float), POINTER(c_float), c_size_t,
        POINTER(c_double), POINTER(c_double),
    ),
    "sr1_kl_controller_update": (STATUS, POINTER(KlController), c_double, c_int64),
    # ext/loss.h
    "sr1_loss_name": (c_char_p, c_size_t),
    "sr1_loss_describe": (STATUS, c_size_t, POINTER(LossInfo)),
    "sr1_loss_options_init": (STATUS, POINTER(LossOptions), c_char_p),
    "sr1_loss_compute": (
        STATUS, c_char_p, POINTER(LossBatch), POINTER(LossOptions), POINTER(c_float),
        POINTER(c_float), POINTER(LossReport),
    ),
    "sr1_loss_choose": (
        STATUS, c_char_p, POINTER(LossBatch), POINTER(LossOptions), c_uint64,
        POINTER(c_uint8),
    ),
    "sr1_loss_grpo": (
        STATUS, POINTER(LossBatch), POINTER(LossOptions), POINTER(c_float),
        POINTER(LossReport),
    ),
    "sr1_loss_nll": (
        STATUS, POINTER(LossBatch), POINTER(LossOptions), POINTER(c_float),
        POINTER(LossReport),
    ),
    "sr1_loss_kl_name": (c_char_p, c_size_t),
    "sr1_loss_correction_name": (c_char_p, c_size_t),
    "sr1_loss_rejection_name": (c_char_p, c_size_t),
    "sr1_loss_reject": (
        STATUS, POINTER(LossBatch), c_char_p, c_char_p, POINTER(c_uint8),
        POINTER(RejectionReport),
    ),
    "sr1_loss_weights": (STATUS, c_char_p, POINTER(LossMaps), POINTER(c_float)),
    "sr1_loss_aggregation_name": (c_char_p, c_size_t),
    "sr1_loss_entropy_threshold": (
        STATUS, POINTER(c_float), c_size_t, c_double, POINTER(c_double),
    ),
    "sr1_value_options_init": (None, POINTER(ValueOptions)),
    "sr1_value_loss": (
        STATUS, POINTER(ValueBatch), POINTER(ValueOptions), POINTER(c_float),
        POINTER(ValueReport),
    ),
    "sr1_value_explained_variance": (STATUS, POINTER(ValueReport), POINTER(c_double)),
    # ext/mcp.h
    "sr1_mcp_options_init": (None, POINTER(McpOptions)),
    "sr1_env_add_mcp": (STATUS, ENV, c_char_p, POINTER(McpOptions)),
    # ext/model_details.h
    "sr1_model_new_random": (
        STATUS, POINTER(c_void_p), c_char_p, c_uint64, POINTER(ModelOptions),
    ),
    "sr1_model_info": (c_int64, MODEL, c_int32),
    "sr1_model_logits": (STATUS, MODEL, POINTER(c_int32), c_size_t, POINTER(c_float)),
    # ext/openai.h
    "sr1_openai_options_init": (None, POINTER(OpenaiOptions)),
    "sr1_openai_new": (STATUS, POINTER(c_void_p), POINTER(OpenaiOptions)),
    "sr1_openai_open": (STATUS, POINTER(c_void_p), CONFIG),
    "sr1_openai_free": (None, OPENAI),
    "sr1_openai_model": (c_char_p, OPENAI),
    "sr1_openai_context": (c_int64, OPENAI),
    "sr1_openai_dialect": (c_int32, OPENAI),
    "sr1_openai_cancel": (None, OPENAI),
    "sr1_openai_counters_get": (STATUS, OPENAI, POINTER(OpenaiCounters)),
    "sr1_openai_run": (
        STATUS, OPENAI, POINTER(OpenaiRequest), c_size_t, POINTER(c_void_p),
    ),
    "sr1_openai_results_free": (None, OPENAI_RESULTS),
    "sr1_openai_results_count": (c_size_t, OPENAI_RESULTS),
    "sr1_openai_results_get": (STATUS, OPENAI_RESULTS, c_size_t, POINTER(OpenaiResult)),
    # ext/plan.h
    "sr1_plan_new": (STATUS, POINTER(c_void_p), CONFIG, c_double),
    "sr1_plan_free": (None, PLAN),
    "sr1_plan_text": (c_char_p, PLAN),
    "sr1_plan_json": (c_char_p, PLAN),
    "sr1_plan_peak": (c_int64, PLAN, c_char_p),
    "sr1_plan_fits": (c_int32, PLAN),
    # ext/protocol.h
    "sr1_protocol_parse": (
        STATUS, c_char_p, c_char_p, c_size_t, POINTER(c_int32), POINTER(c_size_t),
        POINTER(c_size_t),
    ),
    "sr1_tool_call_parse": (STATUS, c_char_p, c_size_t, POINTER(c_void_p)),
    "sr1_protocol_result_turn": (STATUS, c_char_p, TRAJECTORY, POINTER(c_int32)),
    # ext/ranks.h
    "sr1_ranks_open": (STATUS, POINTER(c_void_p), CONFIG),
    "sr1_ranks_free": (None, RANKS),
    "sr1_ranks_rank": (c_int32, RANKS),
    "sr1_ranks_size": (c_int32, RANKS),
    "sr1_ranks_config": (STATUS, RANKS, POINTER(c_void_p)),
    "sr1_ranks_agree": (STATUS, RANKS, c_int32),
    # ext/remote.h
    "sr1_rollout_remote_get": (STATUS, ROLLOUT, POINTER(RemoteReport)),
    # ext/reward_set.h
    "sr1_reward_options_init": (None, POINTER(RewardOptions)),
    "sr1_reward_set_new": (STATUS, POINTER(c_void_p), POINTER(RewardOptions)),
    "sr1_reward_set_level": (c_int32, REWARD_SET, c_size_t),
    "sr1_reward_set_score_turns": (
        STATUS, REWARD_SET, POINTER(c_void_p), c_size_t, POINTER(c_int64),
        POINTER(c_double), POINTER(c_double),
    ),
    "sr1_reward_set_begin": (STATUS, REWARD_SET, TRAJECTORY),
    "sr1_reward_set_begins": (c_int32, REWARD_SET),
    "sr1_reward_set_forget": (None, REWARD_SET),
    # ext/run_info.h
    "sr1_trainer_plan": (STATUS, TRAINER, POINTER(RunPlan)),
    "sr1_trainer_steps_saved": (c_int64, TRAINER),
    "sr1_trainer_rank": (c_int32, TRAINER),
    "sr1_trainer_world_size": (c_int32, TRAINER),
    "sr1_alarm_name": (c_char_p, c_size_t),
    "sr1_alarm_text": (c_char_p, c_size_t),
    # ext/sandbox.h
    "sr1_execution_verdict_name": (c_char_p, c_int32),
    "sr1_sandbox_options_init": (None, POINTER(SandboxOptions)),
    "sr1_sandbox_open": (STATUS, POINTER(c_void_p), POINTER(SandboxOptions)),
    "sr1_sandbox_retain": (c_void_p, SANDBOX),
    "sr1_sandbox_free": (None, SANDBOX),
    "sr1_sandbox_describe": (c_char_p, SANDBOX),
    "sr1_sandbox_counters_get": (STATUS, SANDBOX, POINTER(SandboxCounters)),
    "sr1_program_init": (None, POINTER(Program)),
    "sr1_submission_init": (None, POINTER(Submission)),
    "sr1_sandbox_start": (STATUS, SANDBOX, POINTER(Program), POINTER(c_void_p)),
    "sr1_sandbox_submit": (STATUS, SANDBOX, POINTER(Submission), POINTER(c_void_p)),
    "sr1_sandbox_run": (STATUS, SANDBOX, POINTER(Program), POINTER(c_void_p)),
    "sr1_execution_wait": (STATUS, EXECUTION, c_double),
    "sr1_execution_cancel": (None, EXECUTION),
    "sr1_execution_free": (None, EXECUTION),
    "sr1_execution_result_get": (STATUS, EXECUTION, POINTER(ExecutionResult)),
    "sr1_execution_test_count": (c_size_t, EXECUTION),
    "sr1_execution_test_get": (STATUS, EXECUTION, c_size_t, POINTER(ExecutionResult)),
    "sr1_judge_output": (c_int32, c_char_p, c_char_p),
    # ext/search_arrays.h
    "sr1_search_results_table": (STATUS, SEARCH_RESULTS, POINTER(SearchTable)),
    # ext/search_measures.h
    "sr1_qrels_open": (STATUS, POINTER(c_void_p), c_char_p),
    "sr1_qrels_free": (None, QRELS),
    "sr1_qrels_count": (c_size_t, QRELS),
    "sr1_qrels_query_count": (c_size_t, QRELS),
    "sr1_qrels_grade": (c_int32, QRELS, c_char_p, c_char_p),
    "sr1_qrels_measure": (
        STATUS, QRELS, c_char_p, POINTER(c_char_p), c_size_t, c_int32,
        POINTER(SearchMeasures),
    ),
    "sr1_search_measure_options_init": (None, POINTER(SearchMeasureOptions)),
    "sr1_search_measure": (
        STATUS, SEARCH, DATASET, POINTER(SearchMeasureOptions), POINTER(SearchMeasures),
    ),
    # ext/seed_rewards.h
    "sr1_reward_scales_init": (None, POINTER(RewardScales)),
    "sr1_reward_check_format": (
        STATUS, c_char_p, c_size_t, POINTER(RewardScales), POINTER(c_double),
    ),
    "sr1_reward_check_answer": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(RewardScales),
        POINTER(c_double),
    ),
    "sr1_reward_total": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(RewardScales),
        POINTER(c_double),
    ),
    # ext/server.h
    "sr1_server_options_init": (None, POINTER(ServerOptions)),
    "sr1_server_open": (STATUS, POINTER(c_void_p), SEARCH, POINTER(ServerOptions)),
    "sr1_server_port": (c_int32, SERVER),
    "sr1_server_url": (c_char_p, SERVER),
    "sr1_server_run": (STATUS, SERVER),
    "sr1_server_stop": (None, SERVER),
    "sr1_server_stats_get": (STATUS, SERVER, POINTER(ServerStats)),
    "sr1_server_free": (None, SERVER),
    # ext/suite.h
    "sr1_suite_options_init": (None, POINTER(SuiteOptions)),
    "sr1_suite_run": (
        STATUS, POINTER(c_void_p), ROLLOUT, CONFIG, c_char_p, POINTER(SuiteOptions),
    ),
    "sr1_suite_free": (None, SUITE),
    "sr1_suite_count": (c_size_t, SUITE),
    "sr1_suite_name": (c_char_p, SUITE, c_size_t),
    "sr1_suite_rows": (c_int64, SUITE, c_size_t),
    "sr1_suite_excluded": (c_int64, SUITE, c_size_t),
    "sr1_suite_samples": (c_int32, SUITE),
    "sr1_suite_figure": (
        STATUS, SUITE, c_size_t, c_char_p, c_int32, POINTER(c_double), POINTER(c_double),
        POINTER(c_double),
    ),
    # ext/synthesis.h
    "sr1_rollout_demonstration": (
        STATUS, ROLLOUT, TRAJECTORY, POINTER(c_void_p), POINTER(c_size_t),
    ),
    "sr1_synth_options_init": (None, POINTER(SynthOptions)),
    "sr1_synthesise": (
        STATUS, c_char_p, ROLLOUT, REWARD_SET, DATASET, POINTER(SynthOptions),
        POINTER(SynthReport),
    ),
    # ext/text_metrics.h
    "sr1_reward_find_answer": (
        STATUS, c_char_p, c_size_t, POINTER(c_size_t), POINTER(c_size_t),
        POINTER(c_int32),
    ),
    "sr1_similarity_ratio": (
        STATUS, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(c_double),
    ),
    "sr1_reward_normalize": (
        STATUS, c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t),
    ),
    "sr1_reward_sub_match": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(c_double),
    ),
    "sr1_reward_gsm8k": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(c_double),
    ),
    "sr1_reward_math_reward": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(c_double),
    ),
    "sr1_reward_math_dapo": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(c_double),
    ),
    "sr1_metric_bleu": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(c_double),
    ),
    "sr1_metric_rouge_n": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, c_int32,
        POINTER(c_double),
    ),
    "sr1_metric_rouge_l": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(c_double),
    ),
    # ext/thinking.h
    "sr1_thinking_level": (STATUS, c_int32, POINTER(c_char_p), POINTER(c_char_p)),
    "sr1_thinking_parse": (STATUS, c_char_p, c_size_t, POINTER(ThinkingStep)),
    "sr1_thinking_confidence": (
        STATUS, c_char_p, POINTER(c_float), POINTER(c_float), POINTER(c_uint8), c_size_t,
        POINTER(c_double),
    ),
    # ext/tokenizer.h
    "sr1_tokenizer_open": (STATUS, POINTER(c_void_p), c_char_p),
    "sr1_tokenizer_free": (None, TOKENIZER),
    "sr1_tokenizer_save": (STATUS, TOKENIZER, c_char_p),
    "sr1_tokenizer_encode": (
        STATUS, TOKENIZER, c_char_p, c_size_t, c_int32, POINTER(c_void_p),
        POINTER(c_size_t),
    ),
    "sr1_tokenizer_encode_input": (
        STATUS, TOKENIZER, c_char_p, c_char_p, c_size_t, POINTER(c_void_p),
        POINTER(c_void_p), POINTER(c_size_t),
    ),
    "sr1_tokenizer_decode": (
        STATUS, TOKENIZER, POINTER(c_int32), c_size_t, c_int32, POINTER(c_void_p),
        POINTER(c_size_t),
    ),
    "sr1_tokenizer_vocab_size": (c_int32, TOKENIZER),
    "sr1_tokenizer_token_to_id": (c_int32, TOKENIZER, c_char_p),
    "sr1_tokenizer_special_id": (c_int32, TOKENIZER, c_int32),
    "sr1_tokenizer_stop_ids": (c_void_p, TOKENIZER, POINTER(c_size_t)),
    "sr1_token_stream_new": (STATUS, POINTER(c_void_p), TOKENIZER, c_int32),
    "sr1_token_stream_free": (None, TOKEN_STREAM),
    "sr1_token_stream_push": (
        STATUS, TOKEN_STREAM, c_int32, POINTER(c_char_p), POINTER(c_size_t),
    ),
    "sr1_token_stream_finish": (
        STATUS, TOKEN_STREAM, POINTER(c_char_p), POINTER(c_size_t),
    ),
    "sr1_chat_options_init": (None, POINTER(ChatOptions)),
    "sr1_tokenizer_chat": (
        STATUS, TOKENIZER, POINTER(c_char_p), POINTER(c_char_p), POINTER(c_size_t),
        c_size_t, POINTER(ChatOptions), POINTER(c_void_p), POINTER(c_size_t),
        POINTER(c_void_p), POINTER(c_size_t),
    ),
    "sr1_tokenizer_chat_json": (
        STATUS, TOKENIZER, c_char_p, c_size_t, POINTER(ChatOptions), POINTER(c_void_p),
        POINTER(c_size_t), POINTER(c_void_p), POINTER(c_size_t),
    ),
    "sr1_tokenizer_chat_family": (c_char_p, TOKENIZER),
    "sr1_tokenizer_chat_family_name": (c_char_p, c_size_t),
    "sr1_tokenizer_set_chat_family": (STATUS, TOKENIZER, c_char_p),
    "sr1_tokenizer_chat_template_name": (c_char_p, TOKENIZER, c_size_t),
    "sr1_tokenizer_set_chat_template": (STATUS, TOKENIZER, c_char_p),
    "sr1_tokenizer_train_options_init": (None, POINTER(TokenizerTrainOptions)),
    "sr1_tokenizer_train": (
        STATUS, POINTER(c_char_p), POINTER(c_size_t), POINTER(c_int64), c_size_t,
        POINTER(TokenizerTrainOptions), c_char_p,
    ),
    "sr1_rollout_tokenizer": (c_void_p, ROLLOUT),
    # ext/trajectory_details.h
    "sr1_trajectory_history_count": (c_size_t, TRAJECTORY),
    "sr1_trajectory_history": (
        c_void_p, TRAJECTORY, c_size_t, POINTER(c_char_p), POINTER(c_size_t),
    ),
    "sr1_trajectory_temperature": (c_double, TRAJECTORY),
    "sr1_trajectory_top_p": (c_double, TRAJECTORY),
    "sr1_trajectory_top_k": (c_int32, TRAJECTORY),
    "sr1_trajectory_weights_version": (c_int64, TRAJECTORY),
    "sr1_trajectory_token_weights_version": (c_int64, TRAJECTORY, c_size_t),
    "sr1_trajectory_begins_in_thought": (c_int32, TRAJECTORY),
    "sr1_trajectory_group_key": (c_uint64, TRAJECTORY),
    "sr1_trajectory_episode": (c_int64, TRAJECTORY),
    "sr1_trajectory_copy": (c_int64, TRAJECTORY),
    "sr1_trajectory_environment_count": (c_size_t, TRAJECTORY),
    "sr1_trajectory_sources": (c_void_p, TRAJECTORY),
    "sr1_trajectory_policy_positions": (c_void_p, TRAJECTORY),
    "sr1_trajectory_policy_log_probs": (c_void_p, TRAJECTORY),
    "sr1_trajectory_step": (STATUS, TRAJECTORY, c_size_t, POINTER(TokenStep)),
    "sr1_trajectory_token": (STATUS, TRAJECTORY, c_size_t, POINTER(TokenStep)),
    "sr1_trajectory_text_ends": (c_void_p, TRAJECTORY),
    "sr1_trajectory_segment_count": (c_size_t, TRAJECTORY),
    "sr1_trajectory_segment": (STATUS, TRAJECTORY, c_size_t, POINTER(TextSegment)),
    "sr1_column_name": (c_char_p, c_int32),
    "sr1_trajectory_column": (c_void_p, TRAJECTORY, c_int32),
    "sr1_trajectory_set_column": (
        STATUS, TRAJECTORY, c_int32, POINTER(c_float), c_size_t,
    ),
    "sr1_trajectory_encode": (STATUS, TRAJECTORY, POINTER(c_void_p), POINTER(c_size_t)),
    "sr1_trajectory_decode": (STATUS, POINTER(c_void_p), c_void_p, c_size_t),
    "sr1_trajectory_equal": (c_int32, TRAJECTORY, TRAJECTORY),
    # ext/world.h
    "sr1_world_options_init": (None, POINTER(WorldOptions)),
    "sr1_world_write": (
        STATUS, c_char_p, POINTER(WorldOptions), WorldProgressFn, c_void_p,
    ),
    "sr1_rooms_env_open": (STATUS, POINTER(c_void_p), POINTER(EnvOptions)),
    "sr1_rooms_make": (STATUS, c_char_p, c_uint64, POINTER(RoomsTask)),
    "sr1_rooms_options_init": (None, POINTER(RoomsOptions)),
    "sr1_rooms_write": (
        STATUS, c_char_p, POINTER(RoomsOptions), WorldProgressFn, c_void_p,
    ),
    "sr1_programs_options_init": (None, POINTER(ProgramsOptions)),
    "sr1_programs_write": (
        STATUS, c_char_p, POINTER(ProgramsOptions), WorldProgressFn, c_void_p,
    ),
}
