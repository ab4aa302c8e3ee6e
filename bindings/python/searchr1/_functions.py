"""Every function of the public headers: result type, then argument types, by header.

STATUS marks a sr1_status that is raised as an exception when it is not SR1_OK. Handles
are c_void_p; so is a result that is an array, or text that comes with its length.
"""

from __future__ import annotations

from ctypes import (
    POINTER,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint64,
    c_void_p,
)
from typing import Any, Dict, Tuple

from ._structs import (
    AdvantageBatch,
    AdvantageOptions,
    Bm25BuildOptions,
    Bm25Info,
    Bm25Options,
    Bm25ProgressFn,
    ChatOptions,
    ConfigKeyInfo,
    DatasetOptions,
    EnvOps,
    EnvOptions,
    EvalOptions,
    EvalScores,
    LogFn,
    LossBatch,
    LossOptions,
    LossReport,
    ModelOptions,
    Query,
    RewardOps,
    RewardOptions,
    RewardScales,
    RolloutOptions,
    RunCallbacks,
    SearchCounters,
    SearchEvent,
    SearchHit,
    SearchOps,
    StepReport,
    TextSegment,
    TokenizerTrainOptions,
    TokenStep,
    WorldOptions,
    WorldProgressFn,
)

STATUS = object()

# fmt: off
FUNCTIONS: Dict[str, Tuple[Any, ...]] = {
    # base.h
    "sr1_last_error": (c_char_p,),
    "sr1_status_name": (c_char_p, c_int32),
    "sr1_status_text": (c_char_p, c_int32),
    "sr1_set_error": (c_int32, c_int32, c_char_p),
    "sr1_version": (c_char_p,),
    "sr1_free": (None, c_void_p),
    "sr1_log_set": (None, LogFn, c_void_p),
    # config.h
    "sr1_config_new": (STATUS, POINTER(c_void_p)),
    "sr1_config_free": (None, c_void_p),
    "sr1_config_copy": (STATUS, POINTER(c_void_p), c_void_p),
    "sr1_config_load": (STATUS, c_void_p, c_char_p),
    "sr1_config_set": (STATUS, c_void_p, c_char_p, c_char_p),
    "sr1_config_set_pair": (STATUS, c_void_p, c_char_p),
    "sr1_config_get_int": (STATUS, c_void_p, c_char_p, POINTER(c_int64)),
    "sr1_config_get_real": (STATUS, c_void_p, c_char_p, POINTER(c_double)),
    "sr1_config_get_bool": (STATUS, c_void_p, c_char_p, POINTER(c_int32)),
    "sr1_config_get_str": (STATUS, c_void_p, c_char_p, POINTER(c_char_p)),
    "sr1_config_is_set": (STATUS, c_void_p, c_char_p, POINTER(c_int32)),
    "sr1_config_validate": (STATUS, c_void_p),
    "sr1_config_to_json": (STATUS, c_void_p, POINTER(c_void_p)),
    "sr1_config_key_count": (c_size_t,),
    "sr1_config_key_describe": (STATUS, c_size_t, POINTER(ConfigKeyInfo)),
    # data.h
    "sr1_dataset_open": (
        STATUS, POINTER(c_void_p), POINTER(c_char_p), c_size_t,
        POINTER(DatasetOptions),
    ),
    "sr1_dataset_split": (
        STATUS, POINTER(c_void_p), c_void_p, c_double, c_double, c_uint64, c_int32,
    ),
    "sr1_dataset_free": (None, c_void_p),
    "sr1_dataset_count": (c_int64, c_void_p),
    "sr1_dataset_read": (STATUS, c_void_p, c_int64, POINTER(c_void_p)),
    "sr1_row_free": (None, c_void_p),
    "sr1_row_id": (c_char_p, c_void_p),
    "sr1_row_question": (c_char_p, c_void_p),
    "sr1_row_data_source": (c_char_p, c_void_p),
    "sr1_row_answer_count": (c_size_t, c_void_p),
    "sr1_row_answer": (c_char_p, c_void_p, c_size_t),
    "sr1_row_json": (STATUS, c_void_p, POINTER(c_void_p)),
    # tokenizer.h
    "sr1_tokenizer_open": (STATUS, POINTER(c_void_p), c_char_p),
    "sr1_tokenizer_free": (None, c_void_p),
    "sr1_tokenizer_save": (STATUS, c_void_p, c_char_p),
    "sr1_tokenizer_encode": (
        STATUS, c_void_p, c_char_p, c_size_t, c_int32, POINTER(c_void_p),
        POINTER(c_size_t),
    ),
    "sr1_tokenizer_decode": (
        STATUS, c_void_p, POINTER(c_int32), c_size_t, c_int32, POINTER(c_void_p),
        POINTER(c_size_t),
    ),
    "sr1_tokenizer_vocab_size": (c_int32, c_void_p),
    "sr1_tokenizer_token_to_id": (c_int32, c_void_p, c_char_p),
    "sr1_tokenizer_special_id": (c_int32, c_void_p, c_int32),
    "sr1_tokenizer_stop_ids": (c_void_p, c_void_p, POINTER(c_size_t)),
    "sr1_token_stream_new": (STATUS, POINTER(c_void_p), c_void_p, c_int32),
    "sr1_token_stream_free": (None, c_void_p),
    "sr1_token_stream_push": (
        STATUS, c_void_p, c_int32, POINTER(c_char_p), POINTER(c_size_t),
    ),
    "sr1_token_stream_finish": (STATUS, c_void_p, POINTER(c_char_p), POINTER(c_size_t)),
    "sr1_tokenizer_chat": (
        STATUS, c_void_p, POINTER(c_char_p), POINTER(c_char_p), POINTER(c_size_t),
        c_size_t, POINTER(ChatOptions), POINTER(c_void_p), POINTER(c_size_t),
        POINTER(c_void_p), POINTER(c_size_t),
    ),
    "sr1_tokenizer_chat_json": (
        STATUS, c_void_p, c_char_p, c_size_t, POINTER(ChatOptions),
        POINTER(c_void_p), POINTER(c_size_t), POINTER(c_void_p), POINTER(c_size_t),
    ),
    "sr1_tokenizer_chat_family": (c_char_p, c_void_p),
    "sr1_tokenizer_train": (
        STATUS, POINTER(c_char_p), POINTER(c_size_t), POINTER(c_int64), c_size_t,
        POINTER(TokenizerTrainOptions), c_char_p,
    ),
    # search.h
    "sr1_search_new": (STATUS, POINTER(c_void_p), POINTER(SearchOps), c_void_p),
    "sr1_search_sink_hit": (STATUS, c_void_p, c_size_t, c_char_p, c_char_p, c_double),
    "sr1_search_sink_row": (STATUS, c_void_p, c_size_t, c_char_p),
    "sr1_search_sink_status": (STATUS, c_void_p, c_size_t, c_int32, c_char_p),
    "sr1_search_retain": (c_void_p, c_void_p),
    "sr1_search_free": (None, c_void_p),
    "sr1_search_name": (c_char_p, c_void_p),
    "sr1_search_set_cache": (STATUS, c_void_p, c_uint64),
    "sr1_search_set_threads": (STATUS, c_void_p, c_int32),
    "sr1_search_run": (
        STATUS, c_void_p, POINTER(c_char_p), c_size_t, c_int32, POINTER(c_void_p),
    ),
    "sr1_search_results_count": (c_size_t, c_void_p),
    "sr1_search_results_status": (c_int32, c_void_p, c_size_t),
    "sr1_search_results_message": (c_char_p, c_void_p, c_size_t),
    "sr1_search_results_hit_count": (c_int32, c_void_p, c_size_t),
    "sr1_search_results_hit": (STATUS, c_void_p, c_size_t, c_int32, POINTER(SearchHit)),
    "sr1_search_results_free": (None, c_void_p),
    "sr1_search_counters_get": (STATUS, c_void_p, POINTER(SearchCounters)),
    "sr1_search_open_mock": (
        STATUS, POINTER(c_void_p), POINTER(c_char_p), POINTER(c_char_p), c_size_t,
    ),
    "sr1_search_open_mock_file": (STATUS, POINTER(c_void_p), c_char_p),
    "sr1_bm25_build_options_init": (None, POINTER(Bm25BuildOptions)),
    "sr1_bm25_build": (
        STATUS, c_char_p, c_char_p, POINTER(Bm25BuildOptions), Bm25ProgressFn,
        c_void_p,
    ),
    "sr1_bm25_options_init": (None, POINTER(Bm25Options)),
    "sr1_search_open_bm25": (STATUS, POINTER(c_void_p), c_char_p, POINTER(Bm25Options)),
    "sr1_bm25_verify": (STATUS, c_char_p),
    "sr1_bm25_info_get": (STATUS, c_void_p, POINTER(Bm25Info)),
    # trajectory.h
    "sr1_stop_reason_name": (c_char_p, c_int32),
    "sr1_trajectory_retain": (c_void_p, c_void_p),
    "sr1_trajectory_free": (None, c_void_p),
    "sr1_trajectory_query": (c_void_p, c_void_p, POINTER(c_size_t)),
    "sr1_trajectory_query_id": (c_char_p, c_void_p),
    "sr1_trajectory_sample": (c_int32, c_void_p),
    "sr1_trajectory_group_key": (c_uint64, c_void_p),
    "sr1_trajectory_data_source": (c_char_p, c_void_p),
    "sr1_trajectory_ground_truth_count": (c_size_t, c_void_p),
    "sr1_trajectory_ground_truth": (c_void_p, c_void_p, c_size_t, POINTER(c_size_t)),
    "sr1_trajectory_temperature": (c_double, c_void_p),
    "sr1_trajectory_top_p": (c_double, c_void_p),
    "sr1_trajectory_top_k": (c_int32, c_void_p),
    "sr1_trajectory_weights_version": (c_int64, c_void_p),
    "sr1_trajectory_stop_reason": (c_int32, c_void_p),
    "sr1_trajectory_token_count": (c_size_t, c_void_p),
    "sr1_trajectory_prompt_count": (c_size_t, c_void_p),
    "sr1_trajectory_policy_count": (c_size_t, c_void_p),
    "sr1_trajectory_environment_count": (c_size_t, c_void_p),
    "sr1_trajectory_turn_count": (c_int32, c_void_p),
    "sr1_trajectory_ids": (c_void_p, c_void_p),
    "sr1_trajectory_sources": (c_void_p, c_void_p),
    "sr1_trajectory_turns": (c_void_p, c_void_p),
    "sr1_trajectory_log_probs": (c_void_p, c_void_p),
    "sr1_trajectory_policy_mask": (c_void_p, c_void_p),
    "sr1_trajectory_policy_positions": (c_void_p, c_void_p),
    "sr1_trajectory_policy_log_probs": (c_void_p, c_void_p),
    "sr1_trajectory_step": (STATUS, c_void_p, c_size_t, POINTER(TokenStep)),
    "sr1_trajectory_token": (STATUS, c_void_p, c_size_t, POINTER(TokenStep)),
    "sr1_trajectory_generated_text": (c_void_p, c_void_p, POINTER(c_size_t)),
    "sr1_trajectory_text_ends": (c_void_p, c_void_p),
    "sr1_trajectory_final_answer": (c_void_p, c_void_p, POINTER(c_size_t)),
    "sr1_trajectory_segment_count": (c_size_t, c_void_p),
    "sr1_trajectory_segment": (STATUS, c_void_p, c_size_t, POINTER(TextSegment)),
    "sr1_trajectory_search_count": (c_size_t, c_void_p),
    "sr1_trajectory_search": (STATUS, c_void_p, c_size_t, POINTER(SearchEvent)),
    "sr1_trajectory_has_reward": (c_int32, c_void_p),
    "sr1_trajectory_reward": (c_double, c_void_p),
    "sr1_trajectory_reward_part_count": (c_size_t, c_void_p),
    "sr1_trajectory_reward_part": (
        STATUS, c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_double),
        POINTER(c_double),
    ),
    "sr1_trajectory_set_reward": (STATUS, c_void_p, c_double),
    "sr1_trajectory_has_advantage": (c_int32, c_void_p),
    "sr1_trajectory_advantage": (c_double, c_void_p),
    "sr1_trajectory_set_advantage": (STATUS, c_void_p, c_double),
    "sr1_trajectory_token_advantages": (c_void_p, c_void_p),
    "sr1_trajectory_set_token_advantages": (STATUS, c_void_p, POINTER(c_float), c_size_t),
    "sr1_trajectory_encode": (STATUS, c_void_p, POINTER(c_void_p), POINTER(c_size_t)),
    "sr1_trajectory_decode": (STATUS, POINTER(c_void_p), c_void_p, c_size_t),
    "sr1_trajectory_to_json": (STATUS, c_void_p, POINTER(c_void_p), POINTER(c_size_t)),
    "sr1_trajectory_from_json": (STATUS, POINTER(c_void_p), c_char_p, c_size_t),
    "sr1_trajectory_equal": (c_int32, c_void_p, c_void_p),
    # env.h
    "sr1_env_sink_text": (STATUS, c_void_p, c_size_t, c_char_p, c_size_t),
    "sr1_env_sink_hit": (STATUS, c_void_p, c_size_t, c_char_p),
    "sr1_env_sink_status": (STATUS, c_void_p, c_size_t, c_int32),
    "sr1_env_sink_done": (STATUS, c_void_p, c_size_t),
    "sr1_env_open": (STATUS, POINTER(c_void_p), c_char_p, c_void_p, POINTER(EnvOptions)),
    "sr1_env_new": (
        STATUS, POINTER(c_void_p), POINTER(EnvOps), c_void_p, POINTER(EnvOptions),
    ),
    "sr1_env_free": (None, c_void_p),
    "sr1_env_name": (c_char_p, c_void_p),
    "sr1_env_answer": (
        STATUS, c_void_p, c_char_p, c_size_t, POINTER(c_void_p), POINTER(c_size_t),
    ),
    "sr1_protocol_parse": (
        STATUS, c_char_p, c_char_p, c_size_t, POINTER(c_int32), POINTER(c_size_t),
        POINTER(c_size_t),
    ),
    # reward.h
    "sr1_reward_scales_default": (STATUS, POINTER(RewardScales)),
    "sr1_reward_check_format": (
        STATUS, c_char_p, c_size_t, POINTER(RewardScales), POINTER(c_double),
    ),
    "sr1_reward_check_answer": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t,
        POINTER(RewardScales), POINTER(c_double),
    ),
    "sr1_reward_total": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t,
        POINTER(RewardScales), POINTER(c_double),
    ),
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
    "sr1_reward_exact_match": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(c_double),
    ),
    "sr1_reward_sub_match": (
        STATUS, c_char_p, c_size_t, POINTER(c_char_p), c_size_t, POINTER(c_double),
    ),
    "sr1_reward_f1": (
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
    "sr1_reward_set_new": (STATUS, POINTER(c_void_p), POINTER(RewardOptions)),
    "sr1_reward_set_free": (None, c_void_p),
    "sr1_reward_set_add": (STATUS, c_void_p, POINTER(RewardOps), c_void_p, c_double),
    "sr1_reward_set_count": (c_size_t, c_void_p),
    "sr1_reward_set_name": (c_char_p, c_void_p, c_size_t),
    "sr1_reward_set_score": (
        STATUS, c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_double),
        POINTER(c_double),
    ),
    "sr1_reward_set_apply": (STATUS, c_void_p, POINTER(c_void_p), c_size_t),
    # advantage.h
    "sr1_advantage_group": (
        STATUS, POINTER(c_double), c_size_t, c_double, POINTER(c_double),
    ),
    "sr1_advantage_compute": (
        STATUS, c_char_p, POINTER(AdvantageBatch), POINTER(AdvantageOptions),
        POINTER(c_double), POINTER(c_float),
    ),
    "sr1_advantage_name": (c_char_p, c_size_t),
    "sr1_advantage_dead_groups": (
        STATUS, POINTER(c_double), POINTER(c_uint64), c_size_t, POINTER(c_uint8),
        POINTER(c_size_t), POINTER(c_size_t),
    ),
    "sr1_kl_k3": (
        STATUS, POINTER(c_double), POINTER(c_double), c_size_t, POINTER(c_double),
    ),
    "sr1_kl_k3_f32": (
        STATUS, POINTER(c_float), POINTER(c_float), c_size_t, POINTER(c_double),
    ),
    # loss.h
    "sr1_loss_grpo": (
        STATUS, POINTER(LossBatch), POINTER(LossOptions), POINTER(c_float),
        POINTER(LossReport),
    ),
    "sr1_loss_nll": (
        STATUS, POINTER(LossBatch), POINTER(LossOptions), POINTER(c_float),
        POINTER(LossReport),
    ),
    # model.h
    "sr1_model_open": (STATUS, POINTER(c_void_p), c_char_p, POINTER(ModelOptions)),
    "sr1_model_new_random": (
        STATUS, POINTER(c_void_p), c_char_p, c_uint64, POINTER(ModelOptions),
    ),
    "sr1_model_save": (STATUS, c_void_p, c_char_p),
    "sr1_model_free": (None, c_void_p),
    "sr1_model_info": (c_int64, c_void_p, c_int32),
    "sr1_model_dtype": (c_char_p, c_void_p),
    "sr1_model_device": (c_char_p, c_void_p),
    "sr1_model_logits": (STATUS, c_void_p, POINTER(c_int32), c_size_t, POINTER(c_float)),
    # rollout.h
    "sr1_search_open": (STATUS, POINTER(c_void_p), c_void_p),
    "sr1_rollout_new": (
        STATUS, POINTER(c_void_p), c_void_p, c_void_p, c_void_p, c_void_p,
    ),
    "sr1_rollout_free": (None, c_void_p),
    "sr1_rollout_model": (c_void_p, c_void_p),
    "sr1_rollout_tokenizer": (c_void_p, c_void_p),
    "sr1_rollout_generate": (
        STATUS, c_void_p, POINTER(Query), c_size_t, POINTER(RolloutOptions),
        POINTER(c_void_p),
    ),
    "sr1_rollout_log_probs": (
        STATUS, c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_float), c_size_t,
    ),
    "sr1_evaluate": (STATUS, POINTER(c_void_p), c_void_p, c_void_p, POINTER(EvalOptions)),
    "sr1_evaluation_free": (None, c_void_p),
    "sr1_evaluation_count": (c_size_t, c_void_p),
    "sr1_evaluation_scores": (STATUS, c_void_p, c_size_t, POINTER(EvalScores)),
    # trainer.h
    "sr1_trainer_new": (STATUS, POINTER(c_void_p), c_void_p, c_void_p),
    "sr1_trainer_free": (None, c_void_p),
    "sr1_trainer_add_reward": (STATUS, c_void_p, POINTER(RewardOps), c_void_p, c_double),
    "sr1_trainer_rollout": (c_void_p, c_void_p),
    "sr1_trainer_steps_done": (c_int64, c_void_p),
    "sr1_trainer_steps_planned": (c_int64, c_void_p),
    "sr1_trainer_update": (
        STATUS, c_void_p, POINTER(c_void_p), c_size_t, POINTER(StepReport),
    ),
    "sr1_trainer_train_step": (
        STATUS, c_void_p, POINTER(Query), c_size_t, c_int32, POINTER(StepReport),
        POINTER(c_void_p),
    ),
    "sr1_trainer_run": (STATUS, c_void_p, POINTER(RunCallbacks)),
    "sr1_trainer_resume": (STATUS, POINTER(c_void_p), c_char_p, c_void_p),
    "sr1_trainer_stop": (None, c_void_p),
    "sr1_trainer_save_model": (STATUS, c_void_p, c_char_p),
    "sr1_trainer_run_folder": (c_char_p, c_void_p),
    # world.h
    "sr1_world_options_init": (None, POINTER(WorldOptions)),
    "sr1_world_write": (
        STATUS, c_char_p, POINTER(WorldOptions), WorldProgressFn, c_void_p,
    ),
}
