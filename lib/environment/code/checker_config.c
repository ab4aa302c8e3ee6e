/* environment/code/checker_config.c - open the checker that a configuration describes. */
#include "base/error.h"
#include "base/mem.h"
#include "config/config.h"

#include <searchr1/ext/code.h>

static const char *or_none(const char *text)
{
    return *text != '\0' ? text : NULL;
}

static sr1_status open_sandbox(sr1_sandbox **out, const sr1_config *c)
{
    sr1_sandbox_options o;
    char **folders = NULL;
    sr1_status status;

    sr1_sandbox_options_init(&o);
    SR1__TRY(sr1__config_list(c, "sandbox_read_only", &folders, &o.n_read_only));
    o.read_only = (const char *const *)folders;
    o.interpreter = or_none(sr1__config_str(c, "sandbox_python"));
    o.token_env = or_none(sr1__config_str(c, "sandbox_token_env"));
    o.kind = sr1__config_str(c, "sandbox");
    o.isolation = sr1__config_str(c, "sandbox_isolation");
    o.url = or_none(sr1__config_str(c, "sandbox_url"));
    o.concurrency = (int32_t)sr1__config_int(c, "sandbox_concurrency");
    o.memory_mib = (int32_t)sr1__config_int(c, "sandbox_memory");
    status = sr1_sandbox_open(out, &o);
    sr1__free(folders);
    return sr1__context(status, "sandbox");
}

sr1_status sr1_checker_open(sr1_checker **out, const sr1_config *config)
{
    sr1_checker_options o = {.struct_size = sizeof(o)};
    sr1_sandbox *box = NULL;
    sr1_status status;

    if (out == NULL || config == NULL)
        return sr1__fail(SR1_E_INVALID, "checker: out and a configuration are needed");
    SR1__TRY(open_sandbox(&box, config));
    o.all_or_nothing = sr1__config_is(config, "execution_score", "all");
    o.time_limit = sr1__config_real(config, "execution_time_limit");
    o.judge = sr1__config_str(config, "code_judge");
    o.cache_folder = or_none(sr1__config_str(config, "execution_cache"));
    status = sr1_checker_new(out, box, &o);
    sr1_sandbox_free(box);
    return status;
}
