/* config/choices.h - how the stages, environments and protocols that a configuration
 * names differ, as rows of tables. Who does something else for one of them asks for a
 * column, never for a name (tests/lint/choices.sh). */
#ifndef SR1__CONFIG_CHOICES_H
#define SR1__CONFIG_CHOICES_H

#include <searchr1/config.h>

/* A value of the key `environment`; lib/policy/assemble/env_from_config.c opens it. */
struct sr1__environment_choice {
    const char *name;
    int32_t acts;            /* it answers actions of the policy */
    int32_t has_engine;      /* a search engine answers some of them */
    int32_t needs_engine;    /* it answers nothing without one */
    int32_t takes_tools;     /* the key `tools` adds to it */
    int32_t judged_by_tests; /* by the tests of a problem: rows need no answer */
    int32_t has_goal;        /* it says of a trajectory that it succeeded */
    int32_t names_worlds;    /* the id of a question names the world that it is about */
    int32_t revises;         /* a second model revises what the policy criticises */
    int32_t of_user;         /* a program of the user's, whatever a prompt tells */
    const char *protocol;    /* the only one it goes with; NULL: several */
};

/* What a protocol's own prompt tells the policy to do, and where that is answered. */
struct sr1__protocol_choice {
    const char *name, *tells;
    const char *environment; /* NULL: nowhere */
    const char *refusal;     /* where another environment that acts is an error: why */
};

/* The row of the configuration; NULL for a name that no row has, and of a protocol that a
 * file describes. */
const struct sr1__environment_choice *sr1__environment_choice(const sr1_config *c);
const struct sr1__protocol_choice *sr1__protocol_choice(const sr1_config *c);
/* Does its stage imitate demonstrations, so that nothing is sampled? */
int sr1__config_imitates(const sr1_config *c);
/* Are generation servers sent newer weights, and is it the adapter alone, or the tensors
 * without a folder? */
int sr1__config_sends_weights(const sr1_config *c);
int sr1__config_sends_adapters(const sr1_config *c);
int sr1__config_sends_tensors(const sr1_config *c);

#endif
