/* doc_tables.c - the tables of docs/ that have a source: doc_tables NAME
 *
 *     config    every configuration key, from the table in lib/config
 *     elsewhere what names of other programs are here, from the table there
 *     presets   defaults under each value of compat, from the table there
 *     losses    every loss, from the table in lib/signal/loss
 *     statuses  every status, from searchr1/base.h
 *     advantages  every estimator, from the table in lib/signal/advantage
 *
 * Each is printed as Markdown; tests/docs/check.sh compares it with the page. */
#include <searchr1/ext/estimators.h>
#include <searchr1/config.h>
#include <searchr1/ext/config_names.h>
#include <searchr1/ext/loss.h>

#include <stdio.h>
#include <string.h>

/* ---- configuration ---- */

static const char *const types[] = {"true or false", "integer", "number", "text",
                                    "list",          "choice",  "path",   "secret"};

/* A cell: '|' would end it. */
static void put_cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

static void put_allowed(const sr1_config_key_info *k)
{
    if (k->type == SR1_CONFIG_INT)
        printf("%.0f to %.0f%s%s", k->min, k->max, k->choices ? " or " : "",
               k->choices ? k->choices : "");
    else if (k->type == SR1_CONFIG_REAL)
        printf("%.12g to %.12g", k->min, k->max);
    else if (k->type == SR1_CONFIG_SECRET)
        printf("environment variable `%s`", k->choices);
    else if (k->choices)
        put_cell(k->choices);
}

static int print_key_row(size_t i)
{
    sr1_config_key_info k = {.struct_size = sizeof(k)};

    if (sr1_config_key_describe(i, &k) != SR1_OK) {
        fprintf(stderr, "key %zu: %s\n", i, sr1_last_error());
        return 1;
    }
    printf("| `%s` | %s | ", k.name, types[k.type]);
    if (*k.default_text)
        printf("`%s`", k.default_text);
    printf(" | ");
    put_allowed(&k);
    printf(" | ");
    put_cell(k.help);
    puts(k.status == SR1_CONFIG_LATER ? " (not yet: refused) |" : " |");
    return 0;
}

static int put_config(void)
{
    int failed = 0;

    puts("| key | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |");
    for (size_t i = 0; i < sr1_config_key_count() && !failed; i++)
        failed = print_key_row(i);
    return failed;
}

/* "`key` (text)", or text alone. */
static void put_elsewhere_cell(const sr1_config_elsewhere *e)
{
    if (e->key)
        printf("`%s`%s", e->key, e->text ? " (" : "");
    if (e->text)
        put_cell(e->text);
    if (e->key && e->text)
        putchar(')');
}

static int put_elsewhere(void)
{
    sr1_config_elsewhere e = {.struct_size = sizeof(e)};

    puts("| name | of | here |\n| --- | --- | --- |");
    for (size_t i = 0; i < sr1_config_elsewhere_count(); i++) {
        if (sr1_config_elsewhere_describe(i, &e) != SR1_OK)
            return 1;
        printf("| `%s` | %s | ", e.name, e.of);
        put_elsewhere_cell(&e);
        puts(" |");
    }
    return 0;
}

/* The value that a compat gives to a key; NULL: none. */
static const char *find_preset_value(const char *compat, const char *key)
{
    sr1_config_preset p = {.struct_size = sizeof(p)};

    for (size_t i = 0; i < sr1_config_preset_count(); i++)
        if (sr1_config_preset_describe(i, &p) == SR1_OK &&
            strcmp(p.compat, compat) == 0 && strcmp(p.key, key) == 0)
            return p.value;
    return NULL;
}

#define COMPATS 16 /* at most */

/* Those that change defaults, in their order. */
static size_t list_compats(const char *compats[COMPATS])
{
    sr1_config_preset p = {.struct_size = sizeof(p)};
    size_t n = 0;

    for (size_t i = 0; i < sr1_config_preset_count() && n < COMPATS; i++)
        if (sr1_config_preset_describe(i, &p) == SR1_OK &&
            (n == 0 || strcmp(compats[n - 1], p.compat) != 0))
            compats[n++] = p.compat;
    return n;
}

/* A row of a key that some compat changes; a cell is empty where the default stays. */
static void put_preset_row(const sr1_config_key_info *k, const char *const *compats,
                           size_t n)
{
    const char *values[COMPATS];
    int any = 0;

    for (size_t i = 0; i < n; i++) {
        values[i] = find_preset_value(compats[i], k->name);
        any |= values[i] != NULL;
    }
    if (!any)
        return;
    printf("| `%s` | %s |", k->name, k->default_text);
    for (size_t i = 0; i < n; i++)
        printf(" %s%s|", values[i] ? values[i] : "", values[i] ? " " : "");
    putchar('\n');
}

static int put_presets(void)
{
    sr1_config_key_info k = {.struct_size = sizeof(k)};
    const char *compats[COMPATS];
    size_t n = list_compats(compats);

    printf("| key | default |");
    for (size_t i = 0; i < n; i++)
        printf(" `%s` |", compats[i]);
    printf("\n| --- | --- |");
    for (size_t i = 0; i < n; i++)
        printf(" --- |");
    putchar('\n');
    for (size_t i = 0; i < sr1_config_key_count(); i++) {
        if (sr1_config_key_describe(i, &k) != SR1_OK)
            return 1;
        put_preset_row(&k, compats, n);
    }
    return 0;
}

/* ---- losses ---- */

static int put_loss(size_t i)
{
    sr1_loss_info info = {.struct_size = sizeof(info)};

    if (sr1_loss_describe(i, &info) != SR1_OK) {
        fprintf(stderr, "loss %zu: %s\n", i, sr1_last_error());
        return 1;
    }
    printf("| `%s` | ", info.name);
    put_cell(info.formula);
    printf(" | %s | %s | `%s` | ", info.source, info.options, info.aggregation);
    puts(info.needs & SR1_LOSS_NEEDS_SEQUENCES ? "sequence |" : "token |");
    return 0;
}

static int put_losses(void)
{
    int failed = 0;

    puts("| loss | of one token | source | options of its own | weights | by |\n"
         "| --- | --- | --- | --- | --- | --- |");
    for (size_t i = 0; sr1_loss_name(i) && !failed; i++)
        failed = put_loss(i);
    return failed;
}

/* ---- statuses ---- */

#define ROW(name, code, meaning) {#name, code, meaning},

static const struct {
    const char *name;
    int code;
    const char *meaning;
} statuses[] = {SR1_STATUS_TABLE(ROW)};

static int put_statuses(void)
{
    puts("| status | code | meaning |\n| --- | --- | --- |");
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        printf("| `%s` | %d | %s |\n", statuses[i].name, statuses[i].code,
               statuses[i].meaning);
    return 0;
}

/* ---- estimators ---- */

static void put_needs(int32_t needs)
{
    const char *separator = "";

    for (size_t i = 0; sr1_advantage_need(i); i++) {
        if (!(needs >> i & 1))
            continue;
        printf("%s`%s`", separator, sr1_advantage_need(i));
        separator = ", ";
    }
}

static int put_advantages(void)
{
    sr1_advantage_info a = {.struct_size = sizeof(a)};

    puts("| estimator | formula | source | needs | options | test |\n"
         "| --- | --- | --- | --- | --- | --- |");
    for (size_t i = 0; sr1_advantage_name(i); i++) {
        if (sr1_advantage_describe(i, &a) != SR1_OK)
            return 1;
        printf("| `%s` | ", a.name);
        put_cell(a.formula);
        printf(" | ");
        put_cell(a.source);
        printf(" | ");
        put_needs(a.needs);
        printf(" | %s | `%s_by_hand` |\n", a.options, a.name);
    }
    return 0;
}

static const struct {
    const char *name;
    int (*put)(void);
} tables[] = {
    {"config", put_config}, {"elsewhere", put_elsewhere}, {"presets", put_presets},
    {"losses", put_losses}, {"statuses", put_statuses},   {"advantages", put_advantages},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof(tables) / sizeof(tables[0]); i++)
        if (strcmp(argv[1], tables[i].name) == 0)
            return tables[i].put();
    fprintf(stderr,
            "usage: doc_tables config|elsewhere|presets|losses|statuses|advantages\n");
    return 2;
}
