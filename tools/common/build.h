/* build.h - the facts about the build that --version prints. */
#ifndef SR1_TOOLS_BUILD_H
#define SR1_TOOLS_BUILD_H

/* "commit 9d6d8d1c6f00, libtorch 2.11.0, gcc 12.2.0". */
extern const char build_text[];
/* "9d6d8d1c6f00"; "unknown" without a repository. */
extern const char build_commit[];

#endif
