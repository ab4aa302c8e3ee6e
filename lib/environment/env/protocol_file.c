/* environment/env/protocol_file.c - a protocol described in YAML or JSON: the row of a
 * table, whose texts belong to the parsed file. */
#include "environment/env/protocol_file.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "environment/env/call_form.h"
#include "text/data/prompt_template.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_BYTES ((size_t)1 << 20)
#define MAX_FILES 64
#define MAX_TAG 64

struct sr1__protocol_file {
    struct sr1__protocol row;
    json_t *text; /* owns what the row points to */
    struct sr1__protocol_file *next;
    char *path;
    struct stat read; /* of the file, when it was read */
};

/* ---- members ---- */

/* One member of a file, and where in the row it goes. */
struct member {
    const char *name;
    size_t at; /* offset in the row; of tags: their role */
    sr1_status (*take)(struct sr1__protocol *p, const struct member *m, const json_t *v);
};

static sr1_status take_text(struct sr1__protocol *p, const struct member *m,
                            const json_t *v)
{
    const char *text = json_string_value(v);

    if (!text || strlen(text) != json_string_length(v))
        return sr1__fail(SR1_E_INVALID, "%s must be text", m->name);
    memcpy((char *)p + m->at, &text, sizeof text);
    return SR1_OK;
}

static sr1_status take_system(struct sr1__protocol *p, const struct member *m,
                              const json_t *v)
{
    struct sr1__prompt_template *t = NULL;

    SR1__TRY(take_text(p, m, v));
    SR1__TRY(sr1__system_template_parse(&t, p->system, m->name));
    sr1__prompt_template_free(t);
    return SR1_OK;
}

static sr1_status take_switch(struct sr1__protocol *p, const struct member *m,
                              const json_t *v)
{
    int32_t on = json_is_true(v);

    if (!json_is_boolean(v))
        return sr1__fail(SR1_E_INVALID, "%s must be true or false", m->name);
    memcpy((char *)p + m->at, &on, sizeof on);
    return SR1_OK;
}

static sr1_status check_tag(const struct member *m, const char *tag)
{
    size_t n = tag ? strlen(tag) : 0, i;

    if (n == 0 || n > MAX_TAG)
        return sr1__fail(SR1_E_INVALID, "%s: a tag has 1 to %d bytes", m->name, MAX_TAG);
    for (i = 0; i < n; i++)
        if (tag[i] <= ' ' || tag[i] == 0x7f)
            return sr1__fail(SR1_E_INVALID,
                             "%s: '%s' has a character other than printable ASCII",
                             m->name, tag);
    return SR1_OK;
}

/* [open, close]; actions may do without the second. */
static sr1_status take_tags(struct sr1__protocol *p, const struct member *m,
                            const json_t *v)
{
    int role = (int)m->at;
    size_t n = json_array_size(v), i;

    if (n != 2 && !(n == 1 && role == SR1__ROLE_ACTION))
        return sr1__fail(SR1_E_INVALID, "%s must be a list of two tags, [open, close]%s",
                         m->name,
                         role == SR1__ROLE_ACTION ? ", or of one, where an action "
                                                    "reaches to the end of its message"
                                                  : "");
    for (i = 0; i < n; i++) {
        const char *tag = json_string_value(json_array_get(v, i));

        SR1__TRY(check_tag(m, tag));
        p->tags[SR1__TAG_OPEN(role) + (int)i] = tag;
    }
    return SR1_OK;
}

static sr1_status take_form(struct sr1__protocol *p, const struct member *m,
                            const json_t *v)
{
    SR1__TRY(take_text(p, m, v));
    return sr1__call_form_find(p->form) ? SR1_OK : SR1_E_NOT_FOUND;
}

static sr1_status take_tools(struct sr1__protocol *p, const struct member *m,
                             const json_t *v)
{
    const char *text = json_string_value(v);

    if (!text || (strcmp(text, "json") != 0 && strcmp(text, "list") != 0))
        return sr1__fail(SR1_E_INVALID, "%s must be json or list", m->name);
    p->tools_json = strcmp(text, "json") == 0;
    return SR1_OK;
}

#define AT(field) offsetof(struct sr1__protocol, field)

static const struct member members[] = {
    {"think", SR1__ROLE_THINK, take_tags},   {"action", SR1__ROLE_ACTION, take_tags},
    {"result", SR1__ROLE_RESULT, take_tags}, {"answer", SR1__ROLE_ANSWER, take_tags},
    {"messages", AT(chat), take_switch},     {"several", AT(several), take_switch},
    {"bare", AT(bare), take_switch},         {"around", AT(around), take_text},
    {"inside", AT(inside), take_text},       {"between", AT(between), take_text},
    {"notice", AT(notice), take_text},       {"calls", AT(form), take_form},
    {"arguments", AT(arguments), take_text}, {"tools", 0, take_tools},
    {"system", AT(system), take_system},     {"ipython", AT(ipython), take_switch},
};

#define N_MEMBERS (sizeof members / sizeof members[0])

static const char *member_name(size_t i)
{
    return i < N_MEMBERS ? members[i].name : NULL;
}

static sr1_status take_member(struct sr1__protocol *p, const char *name, const json_t *v)
{
    size_t i;

    for (i = 0; i < N_MEMBERS; i++)
        if (strcmp(members[i].name, name) == 0)
            return members[i].take(p, &members[i], v);
    return sr1__fail_unknown("key", name, member_name);
}

/* ---- all of them together ---- */

/* Is c the first character of a tag? */
static int begins_tag(const struct sr1__protocol *p, char c)
{
    int t;

    for (t = 0; t < SR1__TAG_COUNT; t++)
        if (p->tags[t][0] == c)
            return 1;
    return 0;
}

/* The matcher finds tags that begin with a character of no tag's middle, and of which
 * none begins another. */
static sr1_status check_tags(const struct sr1__protocol *p)
{
    int t, u;

    for (t = 0; t < SR1__TAG_COUNT; t++)
        for (u = 0; u < SR1__TAG_COUNT; u++)
            if (t != u && p->tags[t][0] &&
                strncmp(p->tags[t], p->tags[u], strlen(p->tags[t])) == 0)
                return sr1__fail(SR1_E_INVALID, "the tag %s begins with %s", p->tags[u],
                                 p->tags[t]);
    for (t = 0; t < SR1__TAG_COUNT; t++)
        for (u = 1; p->tags[t][0] && p->tags[t][u]; u++)
            if (begins_tag(p, p->tags[t][u]))
                return sr1__fail(SR1_E_INVALID,
                                 "the tag %s has a '%c' in it, with which a tag begins",
                                 p->tags[t], p->tags[t][u]);
    return SR1_OK;
}

/* What only a protocol with messages can have. */
static sr1_status check_messages(const struct sr1__protocol *p)
{
    int open_ended = p->tags[SR1__TAG_CLOSE(SR1__ROLE_ACTION)][0] == '\0';

    if (p->chat || !(p->several || p->bare || p->ipython || p->notice || open_ended))
        return SR1_OK;
    return sr1__fail(SR1_E_INVALID,
                     "several, bare, ipython, notice and an action without a closing "
                     "tag need messages: true");
}

static void set_defaults(struct sr1__protocol *p, const char *name)
{
    static const struct sr1__protocol defaults = {
        .tags = {"<think>", "</think>", "<tool_call>", "", "<tool_response>",
                 "</tool_response>", "<answer>", "</answer>"},
        .chat = 1,
        .around = "",
        .inside = "\n",
        .between = "\n",
        .tools_json = 1,
        .arguments = "arguments",
        .prompt = ""};

    *p = defaults;
    p->name = name;
}

static sr1_status read_protocol(struct sr1__protocol_file *f, const char *name)
{
    const char *key;
    json_t *v;

    if (!json_is_object(f->text))
        return sr1__fail(SR1_E_INVALID, "it must be a mapping of keys");
    if (!json_object_get(f->text, "action"))
        return sr1__fail(SR1_E_INVALID,
                         "the key action is missing: the tags of an action, "
                         "[<tool_call>, </tool_call>]");
    set_defaults(&f->row, name);
    json_object_foreach(f->text, key, v) SR1__TRY(take_member(&f->row, key, v));
    SR1__TRY(check_tags(&f->row));
    return check_messages(&f->row);
}

void sr1__protocol_file_free(struct sr1__protocol_file *f)
{
    if (!f)
        return;
    json_decref(f->text);
    sr1__free(f->path);
    sr1__free(f);
}

sr1_status sr1__protocol_file_parse(struct sr1__protocol_file **out, const char *text,
                                    size_t n, const char *name)
{
    struct sr1__protocol_file *f;
    sr1_status st;

    SR1__CALLOC(f, 1, "protocol");
    f->path = sr1__strdup(name);
    st = f->path ? SR1_OK : sr1__fail_nomem("protocol");
    if (st == SR1_OK) /* JSON is YAML too, within what this reader takes */
        st = sr1__yaml_parse(&f->text, text, n, name);
    if (st == SR1_OK)
        st = sr1__context(read_protocol(f, f->path), "protocol %s", name);
    SR1__RETURN_NEW(out, f, st, sr1__protocol_file_free);
}

/* ---- those of the process ---- */

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sr1__protocol_file *files; /* newest first */
static size_t n_files;

int sr1__protocol_is_file(const char *name)
{
    static const char *const ends[] = {".yaml", ".yml", ".json"};
    size_t n = strlen(name), i;

    for (i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (n > strlen(ends[i]) && strcmp(name + n - strlen(ends[i]), ends[i]) == 0)
            return 1;
    return strchr(name, '/') != NULL;
}

static int is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static const struct sr1__protocol_file *find_read(const char *path,
                                                  const struct stat *now)
{
    const struct sr1__protocol_file *f = files;

    while (f && (strcmp(f->path, path) != 0 || (now && !is_same_file(&f->read, now))))
        f = f->next;
    return f;
}

static sr1_status read_file(struct sr1__protocol_file **out, const char *path)
{
    struct sr1__buf text;
    sr1_status st;

    if (n_files >= MAX_FILES)
        return sr1__fail(SR1_E_LIMIT,
                         "protocol %s: more than %d files, or forms of one that was "
                         "changed, in one process; begin a new process (restart the "
                         "notebook's kernel)",
                         path, MAX_FILES);
    SR1__TRY(sr1__context(sr1__file_read(path, MAX_BYTES, &text), "protocol"));
    st = sr1__protocol_file_parse(out, sr1__buf_cstr(&text), text.len, path);
    sr1__buf_free(&text);
    return st;
}

/* With the lock held. A file that has gone keeps its last form. */
static const struct sr1__protocol_file *find_or_read(const char *path)
{
    struct stat now = {0};
    int there = stat(path, &now) == 0;
    const struct sr1__protocol_file *found = find_read(path, there ? &now : NULL);
    struct sr1__protocol_file *f = NULL;

    if (found || read_file(&f, path) != SR1_OK)
        return found;
    f->read = now;
    f->next = files;
    files = f;
    n_files++;
    return f;
}

const struct sr1__protocol *sr1__protocol_from_file(const char *path)
{
    const struct sr1__protocol_file *f;

    pthread_mutex_lock(&files_lock);
    f = find_or_read(path);
    pthread_mutex_unlock(&files_lock);
    return f ? &f->row : NULL;
}
