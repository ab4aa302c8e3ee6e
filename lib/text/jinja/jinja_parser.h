/* text/jinja/jinja_parser.h - a parser at one of its tokens. */
#ifndef SR1__JINJA_PARSER_H
#define SR1__JINJA_PARSER_H

#include "text/jinja/jinja_tree.h"

#include <stdio.h>

struct sr1__jparser {
    struct sr1__jinja *jinja;
    const struct sr1__jtoken *t; /* the next; the last is SR1__T_END */
    int depth;
    int loops;                /* around, within this macro */
    struct sr1__jnode *macro; /* around, or NULL */
};

/* "'x' stands where WANTED is due" */
sr1_status sr1__jparser_fail(const struct sr1__jparser *p, const char *wanted);
sr1_status sr1__jparser_enter(struct sr1__jparser *p); /* one level deeper */
sr1_status sr1__jparser_node(struct sr1__jparser *p, int kind, struct sr1__jnode **out);
int sr1__jparser_is(const struct sr1__jparser *p, const char *op);
int sr1__jparser_is_word(const struct sr1__jparser *p, const char *word);
int sr1__jparser_skip(struct sr1__jparser *p, const char *op);
int sr1__jparser_skip_word(struct sr1__jparser *p, const char *word);
sr1_status sr1__jparser_expect(struct sr1__jparser *p, const char *op);
sr1_status sr1__jparser_name(struct sr1__jparser *p, const char **out);

sr1_status sr1__jparser_expression(struct sr1__jparser *p, struct sr1__jnode **out);
/* One expression, or several with commas. no_condition: "x if y" is not one. */
sr1_status sr1__jparser_tuple(struct sr1__jparser *p, int no_condition,
                              struct sr1__jnode **out);
/* What is assigned to: a name, several, or (members) name.attribute. */
sr1_status sr1__jparser_target(struct sr1__jparser *p, int several, int members,
                               struct sr1__jnode **out);
/* |filter|filter... of a; the first may stand without its '|'. */
sr1_status sr1__jparser_filters(struct sr1__jparser *p, struct sr1__jnode *a,
                                struct sr1__jnode **out);

#endif
