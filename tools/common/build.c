/* build.c - see build.h. Compiled apart, since the commit changes often. */
#include "build.h"

#include "sr1_commit.h"

const char build_commit[] = SR1_COMMIT;
const char build_text[] = "commit " SR1_COMMIT ", " SR1_TORCH ", " SR1_COMPILER;
