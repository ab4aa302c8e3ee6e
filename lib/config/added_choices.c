/* config/added_choices.c - see added_choices.h. */
#include "config/added_choices.h"

#include "base/mem.h"
#include "config/keys.h"

#include <pthread.h>
#include <string.h>

#define MAX_NAME 64

/* Keys that take added choices, and how a program adds them; NULL: by no public function
 * (devices whose backend another library brings). */
static const struct open_key {
    const char *key;
    const char *how;
} open_keys[] = {
    {"advantage", "sr1_advantage_register, in Python register_adv_est"},
    {"device", NULL},
    {"loss", "sr1_loss_register, in Python register_policy_loss"},
};

struct added_choice {
    const char *key;
    const void *thing;
    struct added_choice *next;
    char name[MAX_NAME + 1];
};

static pthread_mutex_t added_lock = PTHREAD_MUTEX_INITIALIZER;
static struct added_choice *first_added;

static const struct open_key *find_open_key(const char *key)
{
    for (size_t i = 0; i < sizeof(open_keys) / sizeof(open_keys[0]); i++)
        if (strcmp(open_keys[i].key, key) == 0)
            return &open_keys[i];
    return NULL;
}

const char *sr1__added_choice_how(const char *key)
{
    const struct open_key *open = find_open_key(key);

    return open ? open->how : NULL;
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* What files and command lines take without quotes. */
static int is_choice_name(const char *name)
{
    size_t n = strnlen(name, MAX_NAME + 1);

    return n > 0 && n <= MAX_NAME && strspn(name, LETTERS) > 0 &&
           strspn(name, LETTERS "0123456789_-.") == n;
}

int sr1__added_choice_may_be(const char *key, const char *name)
{
    return sr1__added_choice_how(key) != NULL && is_choice_name(name);
}

static const struct added_choice *find_added(const char *key, const char *name)
{
    const struct added_choice *c = first_added;

    while (c && (strcmp(c->key, key) != 0 || strcmp(c->name, name) != 0))
        c = c->next;
    return c;
}

static sr1_status append_added(const char *key, const char *name, const void *thing)
{
    struct added_choice **end = &first_added;
    struct added_choice *c = sr1__calloc(1, sizeof(*c));

    if (!c)
        return sr1__fail_nomem("choices of keys");
    c->key = key;
    c->thing = thing;
    memcpy(c->name, name, strlen(name));
    while (*end)
        end = &(*end)->next;
    *end = c;
    return SR1_OK;
}

sr1_status sr1__added_choice(const char *key, const char *name, const void *thing)
{
    const struct config_key *row = sr1__config_key_find(key);
    sr1_status st;

    if (!row || !find_open_key(key))
        return sr1__fail(SR1_E_INTERNAL, "key '%s' takes no further choices", key);
    if (!is_choice_name(name))
        return sr1__fail(
            SR1_E_INVALID,
            "%s '%.80s': a name has 1 to %d letters, digits, '_', '-' or '.' "
            "and begins with a letter",
            key, name, MAX_NAME);
    pthread_mutex_lock(&added_lock);
    if (sr1__config_lists(row, name) || find_added(row->name, name))
        st = sr1__fail(SR1_E_INVALID, "%s '%s' is taken; choose another name", key, name);
    else
        st = append_added(row->name, name, thing);
    pthread_mutex_unlock(&added_lock);
    return st;
}

const void *sr1__added_choice_find(const char *key, const char *name)
{
    const struct added_choice *c;

    pthread_mutex_lock(&added_lock);
    c = find_added(key, name);
    pthread_mutex_unlock(&added_lock);
    return c ? c->thing : NULL;
}

const void *sr1__added_choice_at(const char *key, size_t i)
{
    const struct added_choice *c;

    pthread_mutex_lock(&added_lock);
    for (c = first_added; c; c = c->next)
        if (strcmp(c->key, key) == 0 && i-- == 0)
            break;
    pthread_mutex_unlock(&added_lock);
    return c ? c->thing : NULL;
}
