"""Structs and callback types of the public headers, field by field.

Written by tools/dev/ctypes_tables.py from the public headers; do not edit.
"""

from __future__ import annotations

from ctypes import (
    c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint64, c_uint8, c_void_p,
    CFUNCTYPE, POINTER,
)

from ._sized import Sized

LogFn = CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
MetricSinkFn = CFUNCTYPE(
    c_int32, c_void_p, c_int64, POINTER(c_char_p), POINTER(c_double), c_size_t,
)
Bm25ProgressFn = CFUNCTYPE(c_int32, c_void_p, c_uint64, c_uint64, c_uint64)
DenseProgressFn = CFUNCTYPE(c_int32, c_void_p, c_uint64, c_uint64, c_uint64, c_uint64)
FaissProgressFn = CFUNCTYPE(c_int32, c_void_p, c_uint64, c_uint64)
WorldProgressFn = CFUNCTYPE(c_int32, c_void_p, c_char_p, c_int64, c_int64)


class AdvantageBatch(Sized):
    _fields_ = [
        ("n", c_size_t),
        ("rewards", POINTER(c_double)),
        ("groups", POINTER(c_uint64)),
        ("token_begin", POINTER(c_int64)),
        ("token_turns", POINTER(c_int32)),
        ("turn_begin", POINTER(c_int64)),
        ("turn_rewards", POINTER(c_double)),
        ("token_rewards", POINTER(c_double)),
        ("values", POINTER(c_float)),
        ("bootstrap", POINTER(c_double)),
        ("completed", POINTER(c_uint8)),
        ("n_components", c_size_t),
        ("component_names", POINTER(c_char_p)),
        ("components", POINTER(c_double)),
        ("component_weights", POINTER(c_double)),
        ("turn_states", POINTER(c_uint64)),
        ("turn_tags", POINTER(c_int32)),
        ("confidences", POINTER(c_double)),
        ("thinking_costs", POINTER(c_double)),
        ("result_turn", POINTER(c_int32)),
        ("baselines", POINTER(c_double)),
        ("step_tokens", POINTER(c_uint8)),
        ("component_absent", POINTER(c_uint8)),
        ("score_norms", POINTER(c_float)),
        ("token_places", POINTER(c_int32)),
    ]


class AdvantageOptions(Sized):
    _fields_ = [
        ("eps", c_double),
        ("divide_by_std", c_int32),
        ("std_kind", c_int32),
        ("single_raw", c_int32),
        ("whiten", c_int32),
        ("gamma", c_double),
        ("lam", c_double),
        ("turn_advantage_coef", c_double),
        ("step_advantage_w", c_double),
        ("step_mode", c_int32),
        ("multiplicative", c_int32),
        ("thinking_diversity_w", c_double),
        ("thinking_cost_w", c_double),
        ("thinking_cost_max", c_double),
        ("pass_k", c_int32),
        ("gpg_nonzero", c_int32),
        ("std_over", c_int32),
    ]


class AdvantageOutputs(Sized):
    _fields_ = [
        ("advantages", POINTER(c_double)),
        ("token_advantages", POINTER(c_float)),
        ("returns", POINTER(c_float)),
        ("turn_advantages", POINTER(c_double)),
    ]


AdvantageOpsEstimate = CFUNCTYPE(
    c_int32, c_void_p, POINTER(AdvantageBatch), POINTER(AdvantageOptions),
    POINTER(AdvantageOutputs),
)


class AdvantageOps(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("estimate", AdvantageOpsEstimate),
        ("needs", c_int32),
        ("gives", c_int32),
        ("options", c_char_p),
        ("defaults", POINTER(AdvantageOptions)),
        ("formula", c_char_p),
        ("source", c_char_p),
    ]


class DatasetOptions(Sized):
    _fields_ = [
        ("question_field", c_char_p),
        ("answer_field", c_char_p),
        ("id_field", c_char_p),
        ("source_field", c_char_p),
        ("answers_optional", c_int32),
        ("skip_check", c_int32),
        ("history_field", c_char_p),
    ]


class EnvAction(Sized):
    _fields_ = [
        ("row", c_int64),
        ("turn", c_int32),
        ("text", c_void_p),
        ("len", c_size_t),
        ("episode", c_int64),
    ]


class EnvEpisode(Sized):
    _fields_ = [
        ("episode", c_int64),
        ("query_id", c_char_p),
        ("query", c_void_p),
        ("query_len", c_size_t),
        ("sample", c_int32),
        ("seed", c_uint64),
        ("row", c_void_p),
        ("row_len", c_size_t),
    ]


EnvOpsAct = CFUNCTYPE(c_int32, c_void_p, POINTER(c_void_p), c_size_t, c_void_p)
EnvOpsDestroy = CFUNCTYPE(None, c_void_p)
EnvOpsBegin = CFUNCTYPE(c_int32, c_void_p, POINTER(EnvEpisode))
EnvOpsFinish = CFUNCTYPE(None, c_void_p, c_int64)


class EnvOps(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("act", EnvOpsAct),
        ("destroy", EnvOpsDestroy),
        ("flags", c_int32),
        ("begin", EnvOpsBegin),
        ("finish", EnvOpsFinish),
    ]


class EnvOptions(Sized):
    _fields_ = [
        ("protocol", c_char_p),
        ("document_format", c_char_p),
        ("top_k", c_int32),
        ("max_parallel_calls", c_int32),
    ]


ToolOpsCall = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, c_void_p)
ToolOpsDestroy = CFUNCTYPE(None, c_void_p)


class ToolOps(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("description", c_char_p),
        ("schema", c_char_p),
        ("call", ToolOpsCall),
        ("destroy", ToolOpsDestroy),
        ("flags", c_int32),
        ("deadline_s", c_double),
    ]


class LossBatch(Sized):
    _fields_ = [
        ("n", c_size_t),
        ("new_log_probs", POINTER(c_float)),
        ("old_log_probs", POINTER(c_float)),
        ("ref_log_probs", POINTER(c_float)),
        ("advantages", POINTER(c_float)),
        ("weights", POINTER(c_float)),
        ("rollout_log_probs", POINTER(c_float)),
        ("entropies", POINTER(c_float)),
        ("n_seqs", c_size_t),
        ("seq_begin", POINTER(c_int64)),
        ("seq_tokens", POINTER(c_int64)),
        ("chosen", POINTER(c_uint8)),
    ]


class LossOptions(Sized):
    _fields_ = [
        ("clip_low", c_double),
        ("clip_high", c_double),
        ("beta", c_double),
        ("dual_clip", c_double),
        ("ratio_cap", c_double),
        ("tau_positive", c_double),
        ("tau_negative", c_double),
        ("k_positive", c_double),
        ("lambda_positive", c_double),
        ("k_negative", c_double),
        ("lambda_negative", c_double),
        ("kl_kind", c_char_p),
        ("kl_weighted", c_int32),
        ("entropy_coef", c_double),
        ("correction", c_char_p),
        ("correction_low", c_double),
        ("correction_high", c_double),
        ("off_policy_delta", c_double),
        ("entropy_threshold", c_double),
        ("clip_cov_ratio", c_double),
        ("clip_cov_lb", c_double),
        ("clip_cov_ub", c_double),
        ("kl_cov_ratio", c_double),
        ("ppo_kl_coef", c_double),
        ("dro_beta", c_double),
    ]


class LossTerms(Sized):
    _fields_ = [
        ("values", c_void_p),
        ("slopes", c_void_p),
        ("bounds", c_void_p),
    ]


LossOpsCompute = CFUNCTYPE(
    c_int32, c_void_p, POINTER(LossBatch), POINTER(LossOptions), POINTER(LossTerms),
)


class LossOps(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("compute", LossOpsCompute),
        ("needs", c_int64),
        ("options", c_char_p),
        ("defaults", POINTER(LossOptions)),
        ("aggregation", c_char_p),
        ("zero_without_advantage", c_int32),
        ("formula", c_char_p),
        ("source", c_char_p),
    ]


class ModelOptions(Sized):
    _fields_ = [
        ("device", c_char_p),
        ("dtype", c_char_p),
        ("threads", c_int32),
        ("init", c_char_p),
        ("base_model", c_char_p),
    ]


RewardOpsScore = CFUNCTYPE(
    c_int32, c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_double),
)
RewardOpsDestroy = CFUNCTYPE(None, c_void_p)
RewardOpsScoreTurns = CFUNCTYPE(c_int32, c_void_p, c_void_p, POINTER(c_double))
RewardOpsBegin = CFUNCTYPE(c_int32, c_void_p, c_void_p)
RewardOpsForget = CFUNCTYPE(None, c_void_p)
RewardOpsScoreStates = CFUNCTYPE(
    c_int32, c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_double), POINTER(c_int32),
)


class RewardOps(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("score", RewardOpsScore),
        ("destroy", RewardOpsDestroy),
        ("level", c_int32),
        ("score_turns", RewardOpsScoreTurns),
        ("begin", RewardOpsBegin),
        ("forget", RewardOpsForget),
        ("may_be_unknown", c_int32),
        ("score_states", RewardOpsScoreStates),
    ]


class Query(Sized):
    _fields_ = [
        ("text", c_char_p),
        ("text_len", c_size_t),
        ("id", c_char_p),
        ("answers", POINTER(c_char_p)),
        ("n_answers", c_size_t),
        ("data_source", c_char_p),
        ("history_roles", POINTER(c_char_p)),
        ("history_texts", POINTER(c_char_p)),
        ("history_sizes", POINTER(c_size_t)),
        ("n_history", c_size_t),
        ("row", c_char_p),
        ("row_len", c_size_t),
        ("copy", c_int64),
    ]


RolloutOptionsProgress = CFUNCTYPE(c_int32, c_void_p, c_int64, c_int64, c_int64)
RolloutOptionsText = CFUNCTYPE(c_int32, c_void_p, c_size_t, c_int32, c_void_p, c_size_t)
RolloutOptionsFinished = CFUNCTYPE(c_int32, c_void_p, c_size_t, c_void_p)
RolloutOptionsDropped = CFUNCTYPE(None, c_void_p)


class RolloutOptions(Sized):
    _fields_ = [
        ("group_size", c_int32),
        ("greedy", c_int32),
        ("seed", c_uint64),
        ("max_tokens", c_int64),
        ("no_search", c_int32),
        ("progress", RolloutOptionsProgress),
        ("user", c_void_p),
        ("text", RolloutOptionsText),
        ("finished", RolloutOptionsFinished),
        ("dropped", RolloutOptionsDropped),
        ("temperature", c_double),
        ("top_p", c_double),
        ("top_k", c_int32),
    ]


class EvalScores(Sized):
    _fields_ = [
        ("data_source", c_char_p),
        ("rows", c_int64),
        ("exact_match", c_double),
        ("f1", c_double),
        ("sub_match", c_double),
        ("bleu", c_double),
        ("rouge1", c_double),
        ("rouge2", c_double),
        ("rougeL", c_double),
        ("format", c_double),
        ("answered", c_double),
        ("searches", c_double),
        ("tokens", c_double),
        ("excluded", c_int64),
        ("embedding", c_double),
        ("reward", c_double),
        ("success", c_double),
        ("thinking", c_double),
        ("with_answers", c_int64),
        ("hit_rate", c_double),
        ("recall", c_double),
        ("with_search", c_int64),
        ("with_gold_ids", c_int64),
    ]


EvalOptionsProgress = CFUNCTYPE(c_int32, c_void_p, c_int64, c_int64, c_int64)
EvalOptionsTrajectory = CFUNCTYPE(c_int32, c_void_p, c_void_p)


class EvalOptions(Sized):
    _fields_ = [
        ("max_rows", c_int64),
        ("greedy", c_int32),
        ("seed", c_uint64),
        ("no_search", c_int32),
        ("progress", EvalOptionsProgress),
        ("user", c_void_p),
        ("trajectory", EvalOptionsTrajectory),
        ("embedder", c_void_p),
        ("rewards", c_void_p),
        ("partial", c_int32),
        ("ranks", c_void_p),
        ("samples", c_int32),
        ("temperature", c_double),
        ("top_p", c_double),
        ("top_k", c_int32),
    ]


SearchOpsSearch = CFUNCTYPE(
    c_int32, c_void_p, POINTER(c_char_p), c_size_t, c_int32, c_void_p,
)
SearchOpsDestroy = CFUNCTYPE(None, c_void_p)


class SearchOps(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("search", SearchOpsSearch),
        ("destroy", SearchOpsDestroy),
        ("flags", c_int32),
        ("identity", c_char_p),
    ]


class SearchHit(Sized):
    _fields_ = [
        ("id", c_char_p),
        ("contents", c_char_p),
        ("row", c_char_p),
        ("score", c_double),
    ]


class StepReport(Sized):
    _fields_ = [
        ("step", c_int64),
        ("loss", c_double),
        ("kl_div", c_double),
        ("avg_reward", c_double),
        ("beta", c_double),
        ("avg_tokens", c_double),
        ("search_trajectories", c_double),
        ("entropy", c_double),
        ("grad_norm", c_double),
        ("learning_rate", c_double),
        ("seconds", c_double),
        ("trajectories", c_int64),
        ("trained", c_int64),
        ("metrics", c_void_p),
    ]


RunCallbacksStep = CFUNCTYPE(c_int32, c_void_p, POINTER(StepReport), c_int64)
RunCallbacksPhase = CFUNCTYPE(c_int32, c_void_p, c_char_p, c_int64, c_int64)
RunCallbacksValidation = CFUNCTYPE(c_int32, c_void_p, c_int64, c_void_p)
RunCallbacksNote = CFUNCTYPE(None, c_void_p, c_char_p)


class RunCallbacks(Sized):
    _fields_ = [
        ("user", c_void_p),
        ("step", RunCallbacksStep),
        ("phase", RunCallbacksPhase),
        ("validation", RunCallbacksValidation),
        ("note", RunCallbacksNote),
        ("command", c_char_p),
        ("commit", c_char_p),
    ]


class ResumeOptions(Sized):
    _fields_ = [
        ("search", c_void_p),
        ("pairs", POINTER(c_char_p)),
        ("n_pairs", c_size_t),
    ]


class ActionEvent(Sized):
    _fields_ = [
        ("turn", c_int32),
        ("status", c_int32),
        ("n_hits", c_int32),
        ("n_hit_ids", c_int32),
        ("query", c_void_p),
        ("query_len", c_size_t),
        ("hit_ids", c_void_p),
        ("reward", c_double),
        ("success", c_int32),
    ]


class QueryStats(Sized):
    _fields_ = [
        ("n", c_size_t),
        ("seen", POINTER(c_int64)),
        ("reward_variance", POINTER(c_double)),
        ("success", POINTER(c_double)),
    ]


class BalanceReport(Sized):
    _fields_ = [
        ("min", c_int64),
        ("max", c_int64),
        ("balanced_min", c_int64),
        ("balanced_max", c_int64),
        ("mean", c_double),
    ]


class Bm25BuildOptions(Sized):
    _fields_ = [
        ("analyzer", c_char_p),
        ("zstd_level", c_int32),
        ("reserved", c_int32),
        ("memory_bytes", c_uint64),
        ("text_format", c_char_p),
        ("threads", c_int32),
        ("force", c_int32),
    ]


class Bm25Options(Sized):
    _fields_ = [
        ("k1", c_double),
        ("b", c_double),
    ]


class Bm25Info(Sized):
    _fields_ = [
        ("documents", c_uint64),
        ("terms", c_uint64),
        ("total_terms", c_uint64),
        ("postings", c_uint64),
        ("file_bytes", c_uint64),
        ("search_bytes", c_uint64),
        ("documents_bytes", c_uint64),
        ("contents_bytes", c_uint64),
        ("analyzer", c_char_p),
        ("k1", c_double),
        ("b", c_double),
    ]


class ProblemsOptions(Sized):
    _fields_ = [
        ("shape", c_char_p),
        ("max_tests", c_int32),
        ("time_limit", c_double),
    ]


class ProblemCase(Sized):
    _fields_ = [
        ("input", c_void_p),
        ("input_len", c_size_t),
        ("expected", c_void_p),
        ("expected_len", c_size_t),
    ]


class JudgementScores(Sized):
    _fields_ = [
        ("n", c_int64),
        ("none", c_int64),
        ("accuracy", c_double),
        ("f1", c_double),
        ("f1_incorrect", c_double),
    ]


class CheckerOptions(Sized):
    _fields_ = [
        ("all_or_nothing", c_int32),
        ("time_limit", c_double),
        ("max_time_limit", c_double),
        ("memory_limit", c_int64),
        ("concurrency", c_int32),
        ("threads", c_int32),
        ("cache_folder", c_char_p),
        ("cache_entries", c_int64),
        ("python", c_char_p),
        ("judge", c_char_p),
    ]


class CheckReport(Sized):
    _fields_ = [
        ("verdict", c_int32),
        ("tests", c_int64),
        ("passed", c_int64),
        ("pass_rate", c_double),
        ("first_failed", c_int64),
        ("cached", c_int32),
        ("seconds", c_double),
        ("got", c_char_p),
        ("error", c_char_p),
        ("judged_inside", c_int32),
    ]


class CheckerStats(Sized):
    _fields_ = [
        ("checks", c_int64),
        ("cached", c_int64),
        ("programs", c_int64),
        ("infrastructure", c_int64),
        ("seconds", c_double),
        ("judged_inside", c_int64),
    ]


class ConfigKeyInfo(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("default_text", c_char_p),
        ("choices", c_char_p),
        ("help", c_char_p),
        ("min", c_double),
        ("max", c_double),
        ("type", c_int32),
        ("status", c_int32),
    ]


class ConfigElsewhere(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("of", c_char_p),
        ("key", c_char_p),
        ("text", c_char_p),
    ]


class ConfigPreset(Sized):
    _fields_ = [
        ("compat", c_char_p),
        ("key", c_char_p),
        ("value", c_char_p),
    ]


class Conversation(Sized):
    _fields_ = [
        ("roles", POINTER(c_char_p)),
        ("contents", POINTER(c_char_p)),
        ("sizes", POINTER(c_size_t)),
        ("n", c_size_t),
        ("id", c_char_p),
        ("sample", c_int32),
    ]


GeneratorOpsWrite = CFUNCTYPE(c_int32, c_void_p, POINTER(c_void_p), c_size_t, c_void_p)
GeneratorOpsDestroy = CFUNCTYPE(None, c_void_p)


class GeneratorOps(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("write", GeneratorOpsWrite),
        ("destroy", GeneratorOpsDestroy),
        ("flags", c_int32),
    ]


class GeneratorOptions(Sized):
    _fields_ = [
        ("max_tokens", c_int64),
        ("temperature", c_double),
        ("top_p", c_double),
        ("top_k", c_int32),
        ("seed", c_uint64),
    ]


RevisionTreeOptionsRun = CFUNCTYPE(
    c_int32, c_void_p, c_void_p, c_void_p, c_size_t, POINTER(c_int32), POINTER(c_double),
)
RevisionTreeOptionsProgress = CFUNCTYPE(c_int32, c_void_p, c_char_p, c_int64, c_int64)


class RevisionTreeOptions(Sized):
    _fields_ = [
        ("problems", c_void_p),
        ("max_problems", c_int64),
        ("solver", c_void_p),
        ("critic", c_void_p),
        ("reviser", c_void_p),
        ("checker", c_void_p),
        ("run", RevisionTreeOptionsRun),
        ("progress", RevisionTreeOptionsProgress),
        ("user", c_void_p),
        ("votes", c_int32),
        ("seed", c_uint64),
        ("path", c_char_p),
        ("hints", c_int32),
        ("style", c_void_p),
        ("made_by", c_char_p),
    ]


class RevisionNode(Sized):
    _fields_ = [
        ("problem", c_char_p),
        ("hash", c_char_p),
        ("parent", c_char_p),
        ("solution", c_char_p),
        ("critique", c_char_p),
        ("kind", c_int32),
        ("depth", c_int32),
        ("judgement", c_int32),
        ("verdict", c_int32),
        ("pass_rate", c_double),
    ]


class RevisionTreeScores(Sized):
    _fields_ = [
        ("revisions", c_int32),
        ("problems", c_int64),
        ("nodes", c_int64),
        ("pass_at_1", c_double),
        ("pass_rate", c_double),
        ("gained", c_double),
        ("lost", c_double),
        ("critiques", c_int64),
        ("no_judgement", c_int64),
        ("accuracy", c_double),
        ("f1", c_double),
        ("f1_incorrect", c_double),
    ]


class CritiqueDemoOptions(Sized):
    _fields_ = [
        ("drop_failed", c_int32),
        ("one_per_problem", c_int32),
        ("drop_unjudged", c_int32),
        ("drop_untrue", c_int32),
        ("tokenizer", c_void_p),
        ("max_prompt_tokens", c_int64),
        ("balance", c_int32),
    ]


class CritiqueDemoReport(Sized):
    _fields_ = [
        ("critiques", c_int64),
        ("written", c_int64),
        ("mentioning", c_int64),
        ("too_long", c_int64),
        ("unwanted", c_int64),
        ("surplus", c_int64),
        ("empty", c_int64),
    ]


class RecordOptions(Sized):
    _fields_ = [
        ("data_source", c_char_p),
        ("split", c_char_p),
    ]


class DenseBuildOptions(Sized):
    _fields_ = [
        ("dtype", c_char_p),
        ("text_format", c_char_p),
        ("zstd_level", c_int32),
        ("batch", c_int32),
        ("embedder_name", c_char_p),
        ("force", c_int32),
        ("reserved", c_int32),
    ]


class DenseEstimate(Sized):
    _fields_ = [
        ("documents", c_uint64),
        ("index_bytes", c_uint64),
        ("search_bytes", c_uint64),
        ("build_bytes", c_uint64),
        ("embed_seconds", c_double),
    ]


class DenseOptions(Sized):
    _fields_ = [
        ("threads", c_int32),
        ("device", c_char_p),
        ("other_weights", c_int32),
    ]


class DenseInfo(Sized):
    _fields_ = [
        ("documents", c_uint64),
        ("file_bytes", c_uint64),
        ("search_bytes", c_uint64),
        ("documents_bytes", c_uint64),
        ("contents_bytes", c_uint64),
        ("dtype", c_char_p),
        ("embedder", c_char_p),
        ("dim", c_int32),
        ("device", c_char_p),
        ("device_bytes", c_uint64),
        ("device_queries", c_uint64),
        ("device_rescans", c_uint64),
    ]


EmbedderOpsEmbed = CFUNCTYPE(
    c_int32, c_void_p, POINTER(c_char_p), c_size_t, c_int32, POINTER(c_float),
)
EmbedderOpsDestroy = CFUNCTYPE(None, c_void_p)


class EmbedderOps(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("embed", EmbedderOpsEmbed),
        ("destroy", EmbedderOpsDestroy),
        ("dim", c_int32),
        ("flags", c_int32),
    ]


RerankerOpsScore = CFUNCTYPE(
    c_int32, c_void_p, c_char_p, POINTER(c_char_p), c_size_t, POINTER(c_double),
)
RerankerOpsDestroy = CFUNCTYPE(None, c_void_p)


class RerankerOps(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("score", RerankerOpsScore),
        ("destroy", RerankerOpsDestroy),
        ("flags", c_int32),
    ]


class EncoderOptions(Sized):
    _fields_ = [
        ("pooling", c_char_p),
        ("query_prefix", c_char_p),
        ("document_prefix", c_char_p),
        ("normalize", c_int32),
        ("query_tokens", c_int32),
        ("document_tokens", c_int32),
        ("document_folder", c_char_p),
        ("device", c_char_p),
        ("dtype", c_char_p),
        ("threads", c_int32),
        ("batch_tokens", c_int32),
    ]


class SearchHttpOptions(Sized):
    _fields_ = [
        ("timeout_s", c_double),
        ("connect_timeout_s", c_double),
        ("retries", c_int32),
        ("retry_first_s", c_double),
        ("retry_max_s", c_double),
        ("retry_after_max_s", c_double),
        ("concurrency", c_int32),
        ("rate_limit", c_double),
        ("breaker_failures", c_int32),
        ("breaker_rest_s", c_double),
        ("max_body_bytes", c_uint64),
        ("key_env", c_char_p),
        ("ca_file", c_char_p),
        ("seed", c_uint64),
        ("probe", c_int32),
        ("url", c_char_p),
        ("engine_id", c_char_p),
        ("fields", c_char_p),
        ("vector", c_char_p),
        ("id_field", c_char_p),
    ]


class DiskCacheOptions(Sized):
    _fields_ = [
        ("ttl_s", c_double),
        ("max_bytes", c_uint64),
        ("scope", c_char_p),
        ("use_stale", c_int32),
    ]


class HybridOptions(Sized):
    _fields_ = [
        ("rrf_k", c_double),
        ("depth", c_int32),
        ("reserved", c_int32),
    ]


class RerankOptions(Sized):
    _fields_ = [
        ("depth", c_int32),
        ("reserved", c_int32),
    ]


class SearchCounters(Sized):
    _fields_ = [
        ("queries", c_int64),
        ("blank", c_int64),
        ("duplicates", c_int64),
        ("cache_hits", c_int64),
        ("sent", c_int64),
        ("failed", c_int64),
        ("requests", c_int64),
        ("retries", c_int64),
        ("rate_waits", c_int64),
        ("refused", c_int64),
        ("disk_hits", c_int64),
        ("disk_stale", c_int64),
        ("fallbacks", c_int64),
        ("calls", c_int64),
    ]


class EnvReply(Sized):
    _fields_ = [
        ("status", c_int32),
        ("flags", c_int32),
        ("done", c_int32),
        ("success", c_int32),
        ("reward", c_double),
    ]


class AdvantageReport(Sized):
    _fields_ = [
        ("trajectories", c_int64),
        ("tokens", c_int64),
        ("turns", c_int64),
        ("groups", c_int64),
        ("zero_variance_groups", c_int64),
        ("turns_compared", c_int64),
        ("turns_alone", c_int64),
        ("turns_unscored", c_int64),
        ("no_result", c_int64),
    ]


class AdvantageInfo(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("formula", c_char_p),
        ("source", c_char_p),
        ("options", c_char_p),
        ("needs", c_int32),
        ("gives", c_int32),
    ]


class ExternalOptions(Sized):
    _fields_ = [
        ("timeout_s", c_double),
    ]


class FaissOptions(Sized):
    _fields_ = [
        ("nprobe", c_int32),
        ("ef_search", c_int32),
    ]


class FaissBuildOptions(Sized):
    _fields_ = [
        ("dim", c_int32),
        ("threads", c_int32),
        ("metric", c_char_p),
        ("train_sample", c_uint64),
        ("force", c_int32),
        ("reserved", c_int32),
    ]


class JudgeOptions(Sized):
    _fields_ = [
        ("base_url", c_char_p),
        ("model", c_char_p),
        ("key_env", c_char_p),
        ("ca_file", c_char_p),
        ("timeout_s", c_double),
        ("retries", c_int32),
        ("concurrency", c_int32),
        ("prompt", c_char_p),
        ("max_score", c_double),
        ("samples", c_int32),
        ("vote", c_int32),
        ("temperature", c_double),
        ("max_tokens", c_int64),
        ("cache_dir", c_char_p),
        ("max_requests", c_int64),
        ("max_total_tokens", c_int64),
        ("seed", c_uint64),
    ]


class JudgeItem(Sized):
    _fields_ = [
        ("question", c_char_p),
        ("answer", c_char_p),
        ("truths", POINTER(c_char_p)),
        ("n_truths", c_size_t),
    ]


class JudgeCounters(Sized):
    _fields_ = [
        ("items", c_int64),
        ("requests", c_int64),
        ("cached", c_int64),
        ("unreadable", c_int64),
        ("failed", c_int64),
        ("unknown", c_int64),
        ("tokens", c_int64),
    ]


class KlController(Sized):
    _fields_ = [
        ("coef", c_double),
        ("target", c_double),
        ("horizon", c_double),
        ("updates", c_int64),
        ("last_kl", c_double),
    ]


class LossReport(Sized):
    _fields_ = [
        ("loss", c_double),
        ("policy_loss", c_double),
        ("kl", c_double),
        ("clip_fraction", c_double),
        ("approx_kl", c_double),
        ("ratio_max", c_double),
        ("log_ratio_max", c_double),
        ("clip_low_fraction", c_double),
        ("clip_high_fraction", c_double),
        ("dual_clip_fraction", c_double),
        ("ratio_mean", c_double),
        ("entropy", c_double),
        ("importance_mean", c_double),
        ("importance_square", c_double),
        ("importance_max", c_double),
        ("importance_cut", c_double),
        ("off_policy_cut", c_double),
        ("weight", c_double),
        ("tokens", c_int64),
    ]


class LossInfo(Sized):
    _fields_ = [
        ("name", c_char_p),
        ("formula", c_char_p),
        ("source", c_char_p),
        ("options", c_char_p),
        ("aggregation", c_char_p),
        ("needs", c_int64),
    ]


class RejectionReport(Sized):
    _fields_ = [
        ("masked_fraction", c_double),
        ("seq_masked_fraction", c_double),
        ("mean", c_double),
        ("std", c_double),
        ("max", c_double),
        ("min", c_double),
        ("fraction_high", c_double),
        ("fraction_low", c_double),
        ("seq_mean", c_double),
        ("seq_std", c_double),
        ("seq_max", c_double),
        ("seq_min", c_double),
        ("seq_max_deviation", c_double),
        ("seq_fraction_high", c_double),
        ("seq_fraction_low", c_double),
    ]


class LossMaps(Sized):
    _fields_ = [
        ("n_seqs", c_size_t),
        ("seq_begin", POINTER(c_int64)),
        ("total_tokens", c_int64),
        ("total_seqs", c_int64),
        ("length", c_double),
        ("groups", POINTER(c_uint64)),
        ("group_tokens", POINTER(c_int64)),
        ("total_groups", c_int64),
    ]


class ValueBatch(Sized):
    _fields_ = [
        ("n", c_size_t),
        ("values", POINTER(c_float)),
        ("returns", POINTER(c_float)),
        ("old_values", POINTER(c_float)),
        ("weights", POINTER(c_float)),
    ]


class ValueOptions(Sized):
    _fields_ = [
        ("clip_range", c_double),
    ]


class ValueReport(Sized):
    _fields_ = [
        ("loss", c_double),
        ("clip_fraction", c_double),
        ("value", c_double),
        ("returns", c_double),
        ("returns_square", c_double),
        ("error", c_double),
        ("error_square", c_double),
        ("weight", c_double),
        ("tokens", c_int64),
    ]


class McpOptions(Sized):
    _fields_ = [
        ("timeout_s", c_double),
        ("start_timeout_s", c_double),
    ]


class OpenaiOptions(Sized):
    _fields_ = [
        ("base_url", c_char_p),
        ("model", c_char_p),
        ("timeout_s", c_double),
        ("connect_timeout_s", c_double),
        ("retries", c_int32),
        ("concurrency", c_int32),
        ("retry_first_s", c_double),
        ("retry_max_s", c_double),
        ("retry_after_max_s", c_double),
        ("rate_limit", c_double),
        ("breaker_failures", c_int32),
        ("dialect", c_int32),
        ("breaker_rest_s", c_double),
        ("max_body_bytes", c_uint64),
        ("key_env", c_char_p),
        ("ca_file", c_char_p),
        ("seed", c_uint64),
    ]


class OpenaiCounters(Sized):
    _fields_ = [
        ("requests", c_int64),
        ("retries", c_int64),
        ("failures", c_int64),
        ("prompt_tokens", c_int64),
        ("completion_tokens", c_int64),
    ]


class OpenaiRequest(Sized):
    _fields_ = [
        ("prompt_ids", POINTER(c_int32)),
        ("n_prompt_ids", c_size_t),
        ("prompt", c_char_p),
        ("prompt_len", c_size_t),
        ("roles", POINTER(c_char_p)),
        ("contents", POINTER(c_char_p)),
        ("content_sizes", POINTER(c_size_t)),
        ("n_messages", c_size_t),
        ("max_tokens", c_int64),
        ("temperature", c_double),
        ("top_p", c_double),
        ("top_k", c_int32),
        ("log_probs", c_int32),
        ("stop", POINTER(c_char_p)),
        ("n_stop", c_size_t),
        ("seed", c_int64),
        ("no_thinking", c_int32),
    ]


class OpenaiResult(Sized):
    _fields_ = [
        ("status", c_int32),
        ("finish", c_int32),
        ("message", c_char_p),
        ("text", c_void_p),
        ("text_len", c_size_t),
        ("stop_text", c_char_p),
        ("stop_text_kept", c_int32),
        ("n_prompt_ids", c_int32),
        ("prompt_ids", c_void_p),
        ("n_tokens", c_size_t),
        ("ids", c_void_p),
        ("log_probs", c_void_p),
        ("tokens", c_void_p),
        ("token_sizes", c_void_p),
        ("prompt_tokens", c_int64),
        ("completion_tokens", c_int64),
        ("http_code", c_int32),
    ]


class RemoteReport(Sized):
    _fields_ = [
        ("answers", c_int64),
        ("exact", c_int64),
        ("spelled", c_int64),
        ("encoded", c_int64),
        ("drifted", c_int64),
        ("prompts_differ", c_int64),
        ("dropped_tokens", c_int64),
        ("server_tokens", c_int64),
        ("failed", c_int64),
    ]


class RewardScales(Sized):
    _fields_ = [
        ("format_reward", c_double),
        ("format_penalty", c_double),
        ("answer_reward", c_double),
        ("exact_match_bonus", c_double),
        ("no_content_reward", c_double),
        ("similarity_threshold", c_double),
        ("no_content_text", c_char_p),
        ("structure_format_score", c_double),
        ("final_format_score", c_double),
        ("retrieval_score", c_double),
        ("closed_thoughts", c_int32),
        ("reserved", c_int32),
        ("repetition_n_grams", c_int64),
        ("repetition_max_penalty", c_double),
        ("search_price", c_double),
    ]


class RewardOptions(Sized):
    _fields_ = [
        ("rewards", c_char_p),
        ("weights", c_char_p),
        ("protocol", c_char_p),
        ("scales", POINTER(RewardScales)),
        ("embedder", c_void_p),
        ("checker", c_void_p),
        ("problems", c_void_p),
        ("judgement_required", c_int32),
        ("judge", c_void_p),
        ("data_source_rewards", c_char_p),
        ("gold_ids_field", c_char_p),
    ]


class RunPlan(Sized):
    _fields_ = [
        ("device", c_char_p),
        ("dtype", c_char_p),
        ("parameters", c_int64),
        ("rows", c_int64),
        ("validation_rows", c_int64),
        ("steps_done", c_int64),
        ("steps", c_int64),
        ("checkpoint_bytes", c_int64),
        ("model_bytes", c_int64),
        ("disk_bytes", c_int64),
        ("disk_free", c_int64),
        ("memory_bytes", c_int64),
        ("trained", c_int64),
        ("reached_exact_match", c_double),
        ("chosen_micro_batch_tokens", c_int64),
        ("chosen_max_rows", c_int64),
        ("stopped_by", c_char_p),
        ("stopped_why", c_char_p),
        ("best_step", c_int64),
        ("best_value", c_double),
    ]


class SandboxOptions(Sized):
    _fields_ = [
        ("kind", c_char_p),
        ("isolation", c_char_p),
        ("concurrency", c_int32),
        ("retries", c_int32),
        ("time_s", c_double),
        ("cpu_s", c_double),
        ("memory_mib", c_int32),
        ("processes", c_int32),
        ("tmp_mib", c_int32),
        ("file_mib", c_int32),
        ("output_bytes", c_int64),
        ("error_bytes", c_int64),
        ("interpreter", c_char_p),
        ("read_only", POINTER(c_char_p)),
        ("n_read_only", c_size_t),
        ("url", c_char_p),
        ("token_env", c_char_p),
        ("ca_file", c_char_p),
        ("connect_timeout_s", c_double),
        ("queue_s", c_double),
        ("retry_first_s", c_double),
        ("retry_max_s", c_double),
        ("rate_limit", c_double),
        ("breaker_failures", c_int32),
        ("breaker_rest_s", c_double),
        ("seed", c_uint64),
        ("queue_max", c_int64),
    ]


class SandboxCounters(Sized):
    _fields_ = [
        ("started", c_int64),
        ("ended", c_int64),
        ("verdicts", c_int64 * 8),
        ("retries", c_int64),
        ("waiting", c_int64),
        ("running", c_int64),
        ("wall_s", c_double),
        ("cpu_s", c_double),
    ]


class Program(Sized):
    _fields_ = [
        ("language", c_char_p),
        ("code", c_char_p),
        ("input", c_char_p),
        ("input_bytes", c_size_t),
        ("expected", c_char_p),
        ("args", POINTER(c_char_p)),
        ("n_args", c_size_t),
        ("file_paths", POINTER(c_char_p)),
        ("file_bytes", POINTER(c_char_p)),
        ("file_sizes", POINTER(c_size_t)),
        ("n_files", c_size_t),
        ("time_s", c_double),
        ("cpu_s", c_double),
        ("memory_mib", c_int32),
        ("processes", c_int32),
        ("output_bytes", c_int64),
        ("expected_bytes", c_size_t),
    ]


class Submission(Sized):
    _fields_ = [
        ("dataset", c_char_p),
        ("dataset_type", c_char_p),
        ("id", c_char_p),
        ("completion", c_char_p),
        ("language", c_char_p),
        ("provided_data", c_char_p),
        ("extra", c_char_p),
        ("time_s", c_double),
        ("all_tests_s", c_double),
    ]


class ExecutionResult(Sized):
    _fields_ = [
        ("verdict", c_int32),
        ("exit_code", c_int32),
        ("signal", c_int32),
        ("attempts", c_int32),
        ("out", c_void_p),
        ("out_bytes", c_size_t),
        ("err", c_void_p),
        ("err_bytes", c_size_t),
        ("err_total", c_int64),
        ("message", c_char_p),
        ("waited_s", c_double),
        ("wall_s", c_double),
        ("cpu_s", c_double),
        ("peak_bytes", c_int64),
        ("accepted", c_int32),
        ("reserved", c_int32),
    ]


class SearchTable(Sized):
    _fields_ = [
        ("queries", c_size_t),
        ("hits", c_size_t),
        ("documents", c_size_t),
        ("status", c_void_p),
        ("ends", c_void_p),
        ("scores", c_void_p),
        ("hit_documents", c_void_p),
        ("ids", c_void_p),
        ("contents", c_void_p),
        ("rows", c_void_p),
    ]


class SearchMeasures(Sized):
    _fields_ = [
        ("questions", c_int64),
        ("failed", c_int64),
        ("judged", c_int64),
        ("recall", c_double),
        ("success", c_double),
        ("reciprocal_rank", c_double),
        ("ndcg", c_double),
        ("with_answers", c_int64),
        ("hit_rate", c_double),
        ("hits", c_double),
    ]


SearchMeasureOptionsProgress = CFUNCTYPE(c_int32, c_void_p, c_int64, c_int64)


class SearchMeasureOptions(Sized):
    _fields_ = [
        ("top_k", c_int32),
        ("reserved", c_int32),
        ("qrels", c_void_p),
        ("gold_ids_field", c_char_p),
        ("progress", SearchMeasureOptionsProgress),
        ("user", c_void_p),
    ]


class ServerOptions(Sized):
    _fields_ = [
        ("address", c_char_p),
        ("token_env", c_char_p),
        ("port", c_int32),
        ("top_k", c_int32),
        ("max_top_k", c_int32),
        ("max_queries", c_int32),
        ("threads", c_int32),
        ("max_connections", c_int32),
        ("idle_seconds", c_int32),
        ("body_seconds", c_int32),
        ("stop_seconds", c_int32),
        ("batch_queries", c_int32),
        ("batch_wait_us", c_int32),
        ("max_body", c_int64),
        ("max_answer", c_int64),
        ("reranker", c_void_p),
    ]


class ServerStats(Sized):
    _fields_ = [
        ("accepted", c_int64),
        ("answered", c_int64),
        ("dropped", c_int64),
        ("in_flight", c_int64),
        ("refused", c_int64),
        ("failed", c_int64),
        ("batches", c_int64),
        ("queries", c_int64),
        ("waiting", c_int64),
        ("connections", c_int64),
    ]


SuiteOptionsProgress = CFUNCTYPE(c_int32, c_void_p, c_int64, c_int64, c_int64)


class SuiteOptions(Sized):
    _fields_ = [
        ("samples", c_int32),
        ("greedy", c_int32),
        ("seed", c_uint64),
        ("max_rows", c_int64),
        ("no_search", c_int32),
        ("results", c_char_p),
        ("progress", SuiteOptionsProgress),
        ("user", c_void_p),
        ("ranks", c_void_p),
    ]


SynthOptionsProgress = CFUNCTYPE(c_int32, c_void_p, c_int64, c_int64, c_int64)


class SynthOptions(Sized):
    _fields_ = [
        ("max_rows", c_int64),
        ("samples", c_int32),
        ("per_question", c_int32),
        ("min_reward", c_double),
        ("greedy", c_int32),
        ("seed", c_uint64),
        ("progress", SynthOptionsProgress),
        ("user", c_void_p),
        ("ranks", c_void_p),
    ]


class SynthReport(Sized):
    _fields_ = [
        ("rows", c_int64),
        ("resumed", c_int64),
        ("trajectories", c_int64),
        ("written", c_int64),
        ("below", c_int64),
        ("unfit", c_int64),
        ("excluded", c_int64),
    ]


class ThinkingStep(Sized):
    _fields_ = [
        ("level", c_int32),
        ("fallbacks", c_int32),
        ("level_begin", c_size_t),
        ("level_len", c_size_t),
        ("think_begin", c_size_t),
        ("think_len", c_size_t),
        ("action_begin", c_size_t),
        ("action_len", c_size_t),
        ("prefix_len", c_size_t),
    ]


class ChatOptions(Sized):
    _fields_ = [
        ("add_generation_prompt", c_int32),
        ("no_thinking", c_int32),
        ("recognise_added", c_int32),
        ("tools", c_char_p),
    ]


class TokenizerTrainOptions(Sized):
    _fields_ = [
        ("vocab_size", c_int32),
        ("min_frequency", c_int32),
        ("special_tokens", POINTER(c_char_p)),
        ("n_special_tokens", c_size_t),
        ("added_tokens", POINTER(c_char_p)),
        ("n_added_tokens", c_size_t),
    ]


class TokenStep(Sized):
    _fields_ = [
        ("token_id", c_int32),
        ("position", c_int32),
        ("turn", c_int32),
        ("source", c_int32),
        ("log_prob", c_double),
        ("text", c_void_p),
        ("text_len", c_size_t),
    ]


class TextSegment(Sized):
    _fields_ = [
        ("source", c_int32),
        ("turn", c_int32),
        ("token_begin", c_size_t),
        ("token_count", c_size_t),
        ("text_begin", c_size_t),
        ("text_len", c_size_t),
        ("body_begin", c_size_t),
        ("body_len", c_size_t),
    ]


class WorldOptions(Sized):
    _fields_ = [
        ("seed", c_uint64),
        ("scale", c_double),
        ("sft_worlds", c_int32),
        ("batch", c_int32),
        ("stage_steps", c_int32 * 5),
        ("test_questions", c_int32),
        ("protocol", c_char_p),
        ("hops", c_int32),
    ]


class RoomsTask(Sized):
    _fields_ = [
        ("shortest", c_int32),
        ("question", c_void_p),
        ("plan", c_void_p),
    ]


class RoomsOptions(Sized):
    _fields_ = [
        ("seed", c_uint64),
        ("train_questions", c_int32),
        ("validation_questions", c_int32),
        ("test_questions", c_int32),
        ("demonstrations", c_int32),
        ("small", c_int32),
    ]


class ProgramsOptions(Sized):
    _fields_ = [
        ("seed", c_uint64),
        ("train_problems", c_int32),
        ("validation_problems", c_int32),
        ("test_problems", c_int32),
        ("copies", c_int32),
        ("demonstrations", c_int32),
        ("careless", c_int32),
        ("correct", c_double),
    ]
