/* environment/mcp/mcp_file.c - the file mcp.json, as other clients of MCP read it.
 *
 * ${NAME}, ${env:NAME} and ${NAME:-DEFAULT} in commands, arguments, environments,
 * addresses and headers stand for variables of the environment: keys do not belong into
 * files. */
#include "environment/mcp/mcp.h"

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SERVERS 64
#define MAX_ITEMS 1024

static void free_texts(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        sr1__free(list[i]);
    sr1__free(list);
}

void sr1__mcp_servers_free(struct sr1__mcp_servers *s)
{
    for (size_t i = 0; s->v && i < s->n; i++) {
        struct sr1__mcp_server *v = &s->v[i];

        sr1__free(v->name);
        sr1__free(v->folder);
        sr1__free(v->url);
        free_texts(v->argv);
        free_texts(v->extra);
        free_texts(v->headers);
        free_texts(v->include);
        free_texts(v->exclude);
    }
    sr1__free(s->v);
    *s = (struct sr1__mcp_servers){0};
}

/* ---- texts ---- */

/* Append the variable that ${...} at text names, or its default, and go behind it. */
static sr1_status expand_variable(const char **text, struct sr1__buf *out)
{
    const char *begin = *text + 2, *end = strchr(begin, '}'), *other = NULL, *value;
    char name[128];
    size_t n;

    if (strncmp(begin, "env:", 4) == 0)
        begin += 4;
    if (end)
        other = memmem(begin, (size_t)(end - begin), ":-", 2);
    n = end ? (size_t)((other ? other : end) - begin) : 0;
    if (n == 0 || n >= sizeof name)
        return sr1__fail(SR1_E_INVALID, "'%.64s' names no variable", *text);
    memcpy(name, begin, n);
    name[n] = '\0';
    value = getenv(name);
    if (!value && !other)
        return sr1__fail(SR1_E_INVALID, "the environment has no variable %s", name);
    if (value)
        sr1__buf_str(out, value);
    else
        sr1__buf_add(out, other + 2, (size_t)(end - other) - 2);
    *text = end + 1;
    return SR1_OK;
}

/* A text of the file with its variables in it; caller frees it. */
static sr1_status read_text(const json_t *v, const char *prefix, const char *key,
                            char **out)
{
    const char *text = json_string_value(v);
    struct sr1__buf all;
    sr1_status st = SR1_OK;

    if (!text || strlen(text) != json_string_length(v))
        return sr1__fail(SR1_E_INVALID, "%s must be text", key);
    sr1__buf_init(&all, 0);
    sr1__buf_str(&all, prefix);
    while (st == SR1_OK && *text) {
        if (text[0] == '$' && text[1] == '{')
            st = sr1__context(expand_variable(&text, &all), "%s", key);
        else
            sr1__buf_char(&all, *text++);
    }
    if (st == SR1_OK)
        st = sr1__buf_status(&all, key);
    *out = st == SR1_OK ? sr1__buf_take(&all) : NULL;
    sr1__buf_free(&all);
    return st == SR1_OK && !*out ? sr1__fail_nomem(key) : st;
}

static sr1_status new_list(const char *key, size_t n, char ***list)
{
    if (n > MAX_ITEMS)
        return sr1__fail(SR1_E_LIMIT, "%s has more than %d entries", key, MAX_ITEMS);
    *list = sr1__calloc(n + 2, sizeof **list);
    return *list ? SR1_OK : sr1__fail_nomem(key);
}

/* A list of texts; `first` becomes the first of them (NULL: none does). */
static sr1_status read_texts(const json_t *v, char *first, const char *key, char ***list)
{
    size_t k = first != NULL;
    sr1_status st = new_list(key, json_array_size(v), list);

    if (st != SR1_OK) {
        sr1__free(first);
        return st;
    }
    (*list)[0] = first;
    if (v && !json_is_array(v))
        return sr1__fail(SR1_E_INVALID, "%s must be a list of texts", key);
    for (size_t i = 0; i < json_array_size(v); i++)
        SR1__TRY(read_text(json_array_get(v, i), "", key, &(*list)[k + i]));
    return SR1_OK;
}

/* An object of texts as "name", separator, "value". */
static sr1_status read_pairs(const json_t *v, const char *separator, const char *key,
                             char ***list)
{
    const char *name;
    json_t *value;
    size_t i = 0;

    SR1__TRY(new_list(key, json_object_size(v), list));
    if (v && !json_is_object(v))
        return sr1__fail(SR1_E_INVALID, "%s must be an object of texts", key);
    json_object_foreach((json_t *)(uintptr_t)v, name, value)
    {
        char prefix[256];
        size_t n = strlen(name);

        if (n == 0 || n > 200 || strpbrk(name, "=:\r\n"))
            return sr1__fail(SR1_E_INVALID, "%s: '%.64s' is no name", key, name);
        snprintf(prefix, sizeof prefix, "%s%s", name, separator);
        SR1__TRY(read_text(value, prefix, key, &(*list)[i]));
        if (strpbrk((*list)[i++], "\r\n"))
            return sr1__fail(SR1_E_INVALID, "%s: '%.64s' has a line end in it", key,
                             name);
    }
    return SR1_OK;
}

/* ---- a server ---- */

static sr1_status read_command(struct sr1__mcp_server *s, const json_t *o)
{
    char *command = NULL;

    SR1__TRY(read_text(json_object_get(o, "command"), "", "command", &command));
    SR1__TRY(read_texts(json_object_get(o, "args"), command, "args", &s->argv));
    SR1__TRY(read_pairs(json_object_get(o, "env"), "=", "env", &s->extra));
    return json_object_get(o, "cwd")
               ? read_text(json_object_get(o, "cwd"), "", "cwd", &s->folder)
               : SR1_OK;
}

static sr1_status read_address(struct sr1__mcp_server *s, const json_t *o)
{
    const json_t *url = json_object_get(o, "url");

    SR1__TRY(read_text(url ? url : json_object_get(o, "httpUrl"), "", "url", &s->url));
    return read_pairs(json_object_get(o, "headers"), ": ", "headers", &s->headers);
}

static sr1_status check_type(const json_t *o)
{
    const char *type = json_string_value(json_object_get(o, "type"));

    if (type && strcmp(type, "sse") == 0)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "the transport sse was replaced in MCP 2025-03-26; ask for the "
                         "server's address of streamable HTTP, or run it by a command");
    return SR1_OK;
}

static sr1_status read_filter(const json_t *o, const char *key, char ***list)
{
    const json_t *v = json_object_get(o, key);

    return v ? read_texts(v, NULL, key, list) : SR1_OK;
}

/* Members that do nothing here, and why. */
static const struct {
    const char *key, *why;
} other_members[] = {
    {"timeout", "the key tools_timeout is the limit of every call"},
    {"alwaysAllow", "no call is asked about"},
    {"autoApprove", "no call is asked about"},
    {"trust", "no call is asked about"},
    {"description", "it is for readers"},
    {"gallery", "it is for readers"},
    {"version", "it is for readers"},
};

static const char *explain_member(const char *key)
{
    for (size_t i = 0; i < sizeof other_members / sizeof other_members[0]; i++)
        if (strcmp(other_members[i].key, key) == 0)
            return other_members[i].why;
    return "it is not known";
}

static int is_known_member(const char *key)
{
    static const char *const known[] = {"command",  "args",         "env",         "cwd",
                                        "url",      "httpUrl",      "headers",     "type",
                                        "disabled", "includeTools", "excludeTools"};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i], key) == 0)
            return 1;
    return 0;
}

/* A limit that its writer counts on is worth a warning, as is a slip of the pen. */
static void warn_of_other_members(const struct sr1__mcp_server *s, const json_t *o)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)o, key, v)
    {
        if (!is_known_member(key))
            sr1__log(SR1_LOG_WARN,
                     "MCP server '%.64s': the key '%.64s' does nothing here: %s", s->name,
                     key, explain_member(key));
    }
}

static sr1_status read_server(struct sr1__mcp_server *s, const char *name,
                              const json_t *o)
{
    int command = json_object_get(o, "command") != NULL;
    int url = json_object_get(o, "url") || json_object_get(o, "httpUrl");

    s->name = sr1__strdup(name);
    SR1__CHECK_ALLOC(s->name, "MCP server");
    if (!json_is_object(o) || command == url)
        return sr1__fail(SR1_E_INVALID,
                         "it must be an object with either command or url");
    SR1__TRY(check_type(o));
    SR1__TRY(command ? read_command(s, o) : read_address(s, o));
    SR1__TRY(read_filter(o, "includeTools", &s->include));
    SR1__TRY(read_filter(o, "excludeTools", &s->exclude));
    warn_of_other_members(s, o);
    return SR1_OK;
}

static int is_text_listed(char *const *list, const char *text)
{
    for (size_t i = 0; list && list[i]; i++)
        if (strcmp(list[i], text) == 0)
            return 1;
    return 0;
}

int sr1__mcp_server_takes(const struct sr1__mcp_server *s, const char *tool)
{
    return (!s->include || is_text_listed(s->include, tool)) &&
           !is_text_listed(s->exclude, tool);
}

/* ---- the file ---- */

static sr1_status read_servers(struct sr1__mcp_servers *out, const json_t *all)
{
    const json_t *servers = json_object_get(all, "mcpServers");
    const char *name;
    json_t *o;

    if (!servers) /* VS Code's name for it */
        servers = json_object_get(all, "servers");
    if (!json_is_object(servers) || json_object_size(servers) == 0)
        return sr1__fail(SR1_E_INVALID,
                         "it has no servers; write {\"mcpServers\": {NAME: "
                         "{\"command\": ..., \"args\": [...]}}}");
    if (json_object_size(servers) > MAX_SERVERS)
        return sr1__fail(SR1_E_LIMIT, "more than %d servers", MAX_SERVERS);
    out->v = sr1__calloc(json_object_size(servers), sizeof *out->v);
    SR1__CHECK_ALLOC(out->v, "MCP servers");
    json_object_foreach((json_t *)(uintptr_t)servers, name, o)
    {
        const json_t *disabled = json_object_get(o, "disabled");

        if (disabled && !json_is_boolean(disabled))
            return sr1__fail(SR1_E_INVALID,
                             "server '%.64s': disabled must be true or false", name);
        if (json_is_true(disabled))
            continue;
        SR1__TRY(sr1__context(read_server(&out->v[out->n++], name, o), "server '%.64s'",
                              name));
    }
    return out->n > 0 ? SR1_OK
                      : sr1__fail(SR1_E_INVALID,
                                  "all its servers are disabled; enable one, or name no "
                                  "file of tools");
}

sr1_status sr1__mcp_servers_parse(struct sr1__mcp_servers *out, const char *text,
                                  size_t n, const char *name)
{
    json_t *all = NULL;
    sr1_status st;

    *out = (struct sr1__mcp_servers){0};
    SR1__TRY(sr1__json_parse(&all, text, n, name));
    st = sr1__context(read_servers(out, all), "%s", name);
    json_decref(all);
    if (st != SR1_OK)
        sr1__mcp_servers_free(out);
    return st;
}
