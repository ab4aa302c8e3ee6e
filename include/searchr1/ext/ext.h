/* searchr1/ext/ext.h - every extension of libsearchr1.
 *
 * searchr1/searchr1.h is the core, which is promised: what it declares keeps working. The
 * headers of this folder are usable and tested, but their names may still change
 * before 1.0 (docs/api.md); include them one by one, or all of them with this one. */
#ifndef SEARCHR1_EXT_EXT_H
#define SEARCHR1_EXT_EXT_H

#include <searchr1/ext/batching.h>
#include <searchr1/ext/bm25.h>
#include <searchr1/ext/code.h>
#include <searchr1/ext/config_names.h>
#include <searchr1/ext/critique.h>
#include <searchr1/ext/data_files.h>
#include <searchr1/ext/dense.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/engines.h>
#include <searchr1/ext/episodes.h>
#include <searchr1/ext/estimators.h>
#include <searchr1/ext/eval_figures.h>
#include <searchr1/ext/external.h>
#include <searchr1/ext/faiss.h>
#include <searchr1/ext/judge.h>
#include <searchr1/ext/kl.h>
#include <searchr1/ext/loss.h>
#include <searchr1/ext/mcp.h>
#include <searchr1/ext/model_details.h>
#include <searchr1/ext/openai.h>
#include <searchr1/ext/plan.h>
#include <searchr1/ext/protocol.h>
#include <searchr1/ext/ranks.h>
#include <searchr1/ext/remote.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/run_info.h>
#include <searchr1/ext/sandbox.h>
#include <searchr1/ext/search_arrays.h>
#include <searchr1/ext/search_measures.h>
#include <searchr1/ext/seed_rewards.h>
#include <searchr1/ext/server.h>
#include <searchr1/ext/suite.h>
#include <searchr1/ext/synthesis.h>
#include <searchr1/ext/text_metrics.h>
#include <searchr1/ext/thinking.h>
#include <searchr1/ext/tokenizer.h>
#include <searchr1/ext/trajectory_details.h>
#include <searchr1/ext/world.h>

#endif
