/* environment/trajectory/codec.h - the binary form of a trajectory.
 *
 *     record  = "SR1T" version:u32 size:u64 check:u64 payload[size]
 *     payload = sample:u32 query query_id sampling data_source truths text
 *               prompt segments searches stop:u32 answer credit history row versions
 *               copy:u64
 *
 * Numbers are little-endian. A text is its length (u32) and bytes; a name is a text that
 * ends with its only NUL; a list is its count (u32) and items. check is the hash of the
 * payload. versions is a list of (first policy token u32, version u64), empty where all
 * tokens are of the version in `sampling`. Any change of this raises the version; 3,
 * without history, 4, without SR1__CODEC_IN_THOUGHT, 5, without row, 6, without
 * versions, and 7, without copy, are read too. */
#ifndef SR1__TRAJECTORY_CODEC_H
#define SR1__TRAJECTORY_CODEC_H

#include "base/error.h"

#include <searchr1/trajectory.h>

#define SR1__CODEC_MAGIC "SR1T"
#define SR1__CODEC_VERSION 8u
#define SR1__CODEC_OLDEST 3u
#define SR1__CODEC_WITH_HISTORY 4u /* the first version that has it */
#define SR1__CODEC_WITH_ROW 6u
#define SR1__CODEC_WITH_VERSIONS 7u
#define SR1__CODEC_WITH_COPY 8u
#define SR1__CODEC_HEADER 24 /* bytes before the payload */

/* Flags at the head of credit. It ends with a mask (u32) of the columns that are set, bit
 * SR1_COLUMN_*, and these columns. */
enum {
    SR1__CODEC_REWARD = 1,
    SR1__CODEC_ADVANTAGE = 2,
    SR1__CODEC_IN_THOUGHT = 4,
    SR1__CODEC_FLAGS = 7
};

/* Decode a payload whose checksum has been seen to. Errors as sr1_trajectory_decode. */
sr1_status sr1__trajectory_decode_payload(sr1_trajectory **out, const void *bytes,
                                          size_t n, uint32_t version);

#endif
