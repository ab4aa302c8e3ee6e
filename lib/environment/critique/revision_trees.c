/* environment/critique/revision_trees.c - revision trees: nodes, and the file that stores
 * them.
 *
 * A line is {"task_id", "hash", "prev_hash", "node_type", "solution",
 * "sanitized_solution", "critique", "success", "metadata": {"judgement", "verdict",
 * "pass_rate", "made_by"}}, the names of the published code, plus "made_by". Roots are
 * not written: they are the problems. */
#include "environment/critique/revision_trees.h"

#include "base/file.h"
#include "base/map_watch.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "environment/code/problems.h"
#include "text/data/row_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *const kinds[] = {"root", "generation", "critique_revision"};

/* ---- nodes ---- */

/* The hash of the k-th child of a node. */
static void hash_child_node(const struct sr1__revision_node *parent, int32_t k,
                            char out[SR1__REVISION_NODE_HASH + 1])
{
    uint64_t h[3];

    for (uint64_t i = 0; i < 3; i++)
        h[i] = sr1__hash64(parent->hash, SR1__REVISION_NODE_HASH, 3 * (uint64_t)k + i);
    snprintf(out, SR1__REVISION_NODE_HASH + 1, "%016" PRIx64 "%016" PRIx64 "%08" PRIx32,
             h[0], h[1], (uint32_t)h[2]);
}

static void hash_root(const sr1_problem *p, char out[SR1__REVISION_NODE_HASH + 1])
{
    const char *id = sr1_problem_id(p);
    uint64_t a = sr1__hash64(id, strlen(id), 1), b = sr1__hash64(id, strlen(id), 2);

    snprintf(out, SR1__REVISION_NODE_HASH + 1, "%016" PRIx64 "%016" PRIx64 "%08x", a, b,
             0u);
}

static uint64_t hash_node_key(const char *hash)
{
    return sr1__hash64(hash, strlen(hash), 0);
}

static sr1_status reserve_node(struct sr1_revision_trees *f)
{
    SR1__RESERVE(f->nodes, f->cap, f->n + 1, "nodes");
    return sr1__hash_index_reserve(&f->by_hash);
}

/* After reserve_node. */
static void add_node(struct sr1_revision_trees *f, const struct sr1__revision_node *n)
{
    (void)sr1__hash_index_add(&f->by_hash, hash_node_key(n->hash), f->n);
    f->nodes[f->n++] = *n;
}

/* ---- who made it ---- */

#define MADE_BY 16 /* hexadecimal digits */

/* The inputs of a node besides its position in the tree. */
static void write_made_by(const struct sr1_revision_trees *f, const sr1_problem *p,
                          char out[MADE_BY + 1])
{
    const char *texts[] = {sr1_problem_text(p), sr1_problem_solution(p)};
    uint64_t h = sr1__hash64(p->digest, sizeof(p->digest), f->made_by);

    for (size_t i = 0; i < 2; i++)
        if (texts[i])
            h = sr1__hash64(texts[i], strlen(texts[i]), h);
    snprintf(out, MADE_BY + 1, "%016" PRIx64, h);
}

static sr1_status check_made_by(const struct sr1_revision_trees *f, const json_t *meta,
                                const sr1_problem *p)
{
    const char *said = json_string_value(json_object_get(meta, "made_by"));
    char wanted[MADE_BY + 1];

    if (!f->made_by || !said)
        return SR1_OK;
    write_made_by(f, p, wanted);
    if (strcmp(said, wanted) == 0)
        return SR1_OK;
    return sr1__fail(SR1_E_STATE,
                     "an answer to '%.64s' was made by other models or settings, or the "
                     "problem was another; name another file",
                     sr1_problem_id(p));
}

/* ---- the file ---- */

static json_t *build_node_json(const struct sr1_revision_trees *f,
                               const struct sr1__revision_node *n, const char *sanitized)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:{s:i, s:s, s:f}}",
                     "task_id", sr1_problem_id(n->problem), "hash", n->hash, "prev_hash",
                     f->nodes[n->parent].hash, "node_type", kinds[n->kind], "solution",
                     n->solution, "sanitized_solution", sanitized, "critique",
                     n->critique ? n->critique : "", "success",
                     n->verdict == SR1_RUN_PASSED, "metadata", "judgement",
                     (int)n->judgement, "verdict", sr1_execution_verdict_name(n->verdict),
                     "pass_rate", n->pass_rate);
}

/* -1 without memory. */
static int add_made_by(const struct sr1_revision_trees *f,
                       const struct sr1__revision_node *n, json_t *line)
{
    char made_by[MADE_BY + 1];

    if (!f->made_by)
        return 0;
    write_made_by(f, n->problem, made_by);
    return json_object_set_new(json_object_get(line, "metadata"), "made_by",
                               json_string(made_by));
}

static sr1_status write_node_line(struct sr1_revision_trees *f,
                                  const struct sr1__revision_node *n)
{
    char *sanitized = NULL;
    json_t *line;
    sr1_status st;

    if (!f->file)
        return SR1_OK;
    SR1__TRY(sr1_critique_sanitize(n->solution, strlen(n->solution), &sanitized));
    line = build_node_json(f, n, sanitized);
    sr1_free(sanitized);
    if (!line || add_made_by(f, n, line) != 0) {
        json_decref(line);
        return sr1__fail_nomem("a node");
    }
    st = sr1__jsonl_add(f->file, line);
    json_decref(line);
    return st;
}

sr1_status sr1__revision_trees_add(struct sr1_revision_trees *f,
                                   const struct sr1__revision_node *given)
{
    struct sr1__revision_node n = *given, *parent;

    SR1__TRY(reserve_node(f));
    parent = &f->nodes[n.parent];
    n.depth = parent->depth + 1;
    n.answer = n.depth == 1 ? f->n : parent->answer;
    n.children = 0;
    hash_child_node(parent, parent->children, n.hash);
    SR1__TRY(write_node_line(f, &n));
    if (parent->children++ == 0)
        parent->first_child = f->n;
    add_node(f, &n);
    return SR1_OK;
}

/* ---- reading it back ---- */

static sr1_status find_parent(const struct sr1_revision_trees *f, const char *hash,
                              size_t *out)
{
    struct sr1__hash_probe p = {hash_node_key(hash)};

    while (sr1__hash_index_next(&f->by_hash, &p)) {
        if (strcmp(f->nodes[p.item].hash, hash) == 0) {
            *out = p.item;
            return SR1_OK;
        }
    }
    return sr1__fail(
        SR1_E_INVALID,
        "no node before it has the hash '%.40s': the file is of other problems, "
        "or incomplete; name another file",
        hash);
}

static sr1_status read_verdict(const json_t *meta, struct sr1__revision_node *n)
{
    const char *name;
    int64_t judgement;

    SR1__TRY(sr1__json_get_str(meta, "verdict", &name));
    SR1__TRY(sr1__json_get_int(meta, "judgement", &judgement));
    SR1__TRY(sr1__json_get_num(meta, "pass_rate", &n->pass_rate));
    n->judgement = (int32_t)judgement;
    for (n->verdict = 0; n->verdict < SR1_RUN_INFRASTRUCTURE; n->verdict++)
        if (strcmp(sr1_execution_verdict_name(n->verdict), name) == 0)
            break;
    if (n->verdict == SR1_RUN_INFRASTRUCTURE || judgement < SR1_JUDGEMENT_NONE ||
        judgement > SR1_JUDGEMENT_INCORRECT || !(n->pass_rate >= 0 && n->pass_rate <= 1))
        return sr1__fail(SR1_E_PARSE,
                         "metadata: verdict, judgement or pass_rate is none");
    return SR1_OK;
}

static sr1_status copy_json_text(const json_t *line, const char *key, char **out)
{
    const char *text;

    SR1__TRY(sr1__json_get_str(line, key, &text));
    *out = sr1__strdup(text);
    return *out ? SR1_OK : sr1__fail_nomem("a node");
}

static sr1_status read_node(const struct sr1_revision_trees *f, const json_t *line,
                            struct sr1__revision_node *n)
{
    const char *hash, *parent;

    SR1__TRY(sr1__json_get_str(line, "hash", &hash));
    SR1__TRY(sr1__json_get_str(line, "prev_hash", &parent));
    SR1__TRY(find_parent(f, parent, &n->parent));
    n->problem = f->nodes[n->parent].problem;
    n->kind = f->nodes[n->parent].depth ? SR1_NODE_REVISION : SR1_NODE_ANSWER;
    hash_child_node(&f->nodes[n->parent], f->nodes[n->parent].children, n->hash);
    if (strcmp(hash, n->hash) != 0)
        return sr1__fail(SR1_E_INVALID, "the hash '%.40s' is not that of its place",
                         hash);
    SR1__TRY(check_made_by(f, json_object_get(line, "metadata"), n->problem));
    SR1__TRY(read_verdict(json_object_get(line, "metadata"), n));
    SR1__TRY(copy_json_text(line, "solution", &n->solution));
    return n->kind == SR1_NODE_REVISION ? copy_json_text(line, "critique", &n->critique)
                                        : SR1_OK;
}

sr1_status sr1__revision_trees_read(struct sr1_revision_trees *f, const json_t *line)
{
    struct sr1__revision_node n = {0};
    sr1_status st = read_node(f, line, &n);

    if (st == SR1_OK)
        st = sr1__revision_trees_add(f, &n); /* the file is not open to write yet */
    if (st != SR1_OK) {
        sr1__free(n.solution);
        sr1__free(n.critique);
    }
    return st;
}

/* A killed call may leave a line without its end: *torn. A
 * last line without an end that does not begin as ours do is not ours to cut. */
static sr1_status check_last_line(const char *path, int *torn)
{
    static const char ours[] = "{\"task_id\"";
    size_t n, same = sizeof(ours) - 1;
    struct sr1__map m;
    const char *end;
    sr1_status st;
    int foreign;

    SR1__TRY(sr1__map_open_watched(&m, path, 0));
    end = m.size > 0 ? memrchr(m.data, '\n', m.size) : NULL;
    end = end ? end + 1 : (const char *)m.data;
    n = m.size - (size_t)(end - (const char *)m.data);
    foreign = memcmp(end, ours, n < same ? n : same) != 0;
    st = sr1__map_check(&m);
    sr1__map_close(&m);
    SR1__TRY(st);
    *torn = n > 0;
    return foreign ? sr1__fail(SR1_E_INVALID,
                               "%s: it ends in what is no node; name "
                               "another file",
                               path)
                   : SR1_OK;
}

/* torn: the last line has no end. Where it is no whole record either, opening to write
 * will cut it off. */
static sr1_status read_node_lines(struct sr1_revision_trees *f,
                                  const struct sr1__row_files *rows, int torn)
{
    int64_t n = sr1__row_files_count(rows);
    sr1_status st = SR1_OK;

    for (int64_t i = 0; st == SR1_OK && i < n; i++) {
        json_t *line = NULL;

        st = sr1__row_files_read(rows, i, &line);
        if (st == SR1_E_PARSE && torn && i + 1 == n)
            return SR1_OK;
        if (st == SR1_OK)
            st = sr1__row_files_context(rows, i, sr1__revision_trees_read(f, line));
        json_decref(line);
    }
    return st;
}

static int is_empty(const char *path)
{
    struct stat st;

    return stat(path, &st) != 0 || (S_ISREG(st.st_mode) && st.st_size == 0);
}

/* All of it is read before anything of it is changed. */
static sr1_status read_nodes_file(struct sr1_revision_trees *f, const char *path)
{
    struct sr1__row_files *rows = NULL;
    int torn = 0;
    sr1_status st = SR1_OK;

    if (!is_empty(path)) {
        SR1__TRY(check_last_line(path, &torn));
        SR1__TRY(sr1__row_files_open(&rows, &path, 1));
        st = read_node_lines(f, rows, torn);
    }
    sr1__row_files_free(rows);
    return st == SR1_OK ? sr1__jsonl_open(&f->file, path) : st;
}

/* ---- the handle ---- */

static sr1_status add_root_nodes(struct sr1_revision_trees *f)
{
    size_t n = sr1_problems_count(f->o.problems);

    if (f->o.max_problems > 0 && (size_t)f->o.max_problems < n)
        n = (size_t)f->o.max_problems;
    for (size_t i = 0; i < n; i++) {
        struct sr1__revision_node root = {.problem = sr1_problems_at(f->o.problems, i),
                                          .parent = i,
                                          .answer = i,
                                          .kind = SR1_NODE_ROOT};

        hash_root(root.problem, root.hash);
        SR1__TRY(reserve_node(f));
        add_node(f, &root);
    }
    return SR1_OK;
}

/* Another file would be written, and not be read again. */
static int is_json_lines(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot && strcmp(dot, ".jsonl") == 0;
}

static sr1_status check_tree_options(const sr1_revision_tree_options *o)
{
    if (!o->problems || (!o->checker && !o->run))
        return sr1__fail(
            SR1_E_INVALID,
            "revision trees: problems, and a checker or a function to run answers, are "
            "needed");
    if (!o->critic != !o->reviser)
        return sr1__fail(SR1_E_INVALID, "revision trees: critic and reviser go together");
    if (o->path && !is_json_lines(o->path))
        return sr1__fail(
            SR1_E_INVALID,
            "revision trees: the file of nodes '%.256s' has to end in .jsonl", o->path);
    if (o->votes < 0 || o->votes > 1000 || o->max_problems < 0)
        return sr1__fail(SR1_E_INVALID,
                         "revision trees: votes or max_problems is out of range");
    return SR1_OK;
}

void sr1_revision_tree_options_init(sr1_revision_tree_options *options)
{
    static const sr1_revision_tree_options defaults;

    sr1__struct_init(options, &defaults, sizeof(defaults));
}

sr1_status sr1_revision_trees_open(sr1_revision_trees **out,
                                   const sr1_revision_tree_options *options)
{
    sr1_revision_tree_options o = {0};
    struct sr1_revision_trees *f;
    sr1_status st;

    if (!out)
        return sr1__fail(SR1_E_INVALID, "revision trees: out is NULL");
    SR1__TRY(sr1__struct_take(&o, sizeof(o), options,
                              SR1__STRUCT_END(sr1_revision_tree_options, problems),
                              "revision tree options"));
    SR1__TRY(check_tree_options(&o));
    SR1__CALLOC(f, 1, "revision trees");
    f->o = o;
    f->o.votes = o.votes ? o.votes : 1;
    f->o.made_by = NULL;
    f->o.path = NULL;
    if (o.made_by)
        f->made_by = sr1__hash64(o.made_by, strlen(o.made_by), 1) | 1;
    (void)sr1_problems_retain(o.problems);
    (void)sr1_generator_retain(o.solver);
    (void)sr1_generator_retain(o.critic);
    (void)sr1_generator_retain(o.reviser);
    (void)sr1_checker_retain(o.checker);
    (void)sr1_critique_style_retain(o.style);
    st = add_root_nodes(f);
    if (st == SR1_OK && o.path)
        st = read_nodes_file(f, o.path);
    if (st == SR1_OK && o.path) {
        f->path = sr1__strdup(o.path);
        st = f->path ? SR1_OK : sr1__fail_nomem("revision trees");
    }
    SR1__RETURN_NEW(out, f, st, sr1_revision_trees_free);
}

void sr1_revision_trees_free(sr1_revision_trees *f)
{
    if (!f || !sr1__life_drop(&f->life))
        return;
    for (size_t i = 0; i < f->n; i++) {
        sr1__free(f->nodes[i].solution);
        sr1__free(f->nodes[i].critique);
    }
    sr1__free(f->nodes);
    sr1__hash_index_free(&f->by_hash);
    sr1__jsonl_close(f->file);
    sr1__free(f->path);
    sr1_problems_free(f->o.problems);
    sr1_generator_free(f->o.solver);
    sr1_generator_free(f->o.critic);
    sr1_generator_free(f->o.reviser);
    sr1_checker_free(f->o.checker);
    sr1_critique_style_free(f->o.style);
    sr1__free(f);
}

size_t sr1_revision_trees_count(const sr1_revision_trees *f)
{
    return f ? f->n : 0;
}

sr1_status sr1_revision_trees_node(const sr1_revision_trees *f, size_t index,
                                   sr1_revision_node *out)
{
    const struct sr1__revision_node *n;
    sr1_revision_node given;

    if (!f || index >= f->n)
        return sr1__fail(SR1_E_INVALID, "revision trees: no node %zu", index);
    n = &f->nodes[index];
    given = (sr1_revision_node){.problem = sr1_problem_id(n->problem),
                                .hash = n->hash,
                                .parent = n->depth ? f->nodes[n->parent].hash : "",
                                .solution = n->solution ? n->solution : "",
                                .critique = n->critique ? n->critique : "",
                                .kind = n->kind,
                                .depth = n->depth,
                                .judgement = n->judgement,
                                .verdict = n->verdict,
                                .pass_rate = n->pass_rate};
    return sr1__struct_give(out, &given, sizeof(given), "revision tree node");
}
