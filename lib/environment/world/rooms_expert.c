/* environment/world/rooms_expert.c - shortest plans, by breadth-first search.
 *
 * Other objects than the goal's do not affect a plan, so the search is over the player's
 * room, the doors, the containers and the goal's object: 3 * 8 * 16 * 8 states. Closing
 * and dropping never shorten a plan and are left out. */
#include "environment/world/rooms.h"

#define STATES (SR1__ROOMS_ROOMS * 8 * 16 * SR1__ROOMS_PLACES)

/* How a state was come by. */
struct step {
    int16_t from; /* state before, plus 1; 0: not reached */
    struct sr1__rooms_action action;
};

struct plan_search {
    const struct sr1__rooms *w;
    struct step reached[STATES];
    int16_t queue[STATES];
    int32_t n;
};

static int32_t state_number(const struct sr1__rooms_state *s)
{
    return ((s->at * 8 + s->doors) * 16 + s->open) * SR1__ROOMS_PLACES + s->place[0];
}

/* Its inverse; other objects stay as in *s. */
static void state_of(int32_t number, struct sr1__rooms_state *s)
{
    s->place[0] = (int8_t)(number % SR1__ROOMS_PLACES);
    number /= SR1__ROOMS_PLACES;
    s->open = (uint8_t)(number % 16);
    number /= 16;
    s->doors = (uint8_t)(number % 8);
    s->at = (int8_t)(number / 8);
}

static int is_plan_action(const struct sr1__rooms *w, struct sr1__rooms_action a)
{
    switch (a.verb) {
    case SR1__ROOMS_GO:
    case SR1__ROOMS_OPEN_DOOR:
    case SR1__ROOMS_OPEN:
        return 1;
    case SR1__ROOMS_TAKE:
        return a.a == 0;
    case SR1__ROOMS_PUT:
        return a.a == 0 && a.b == w->goal_container;
    default:
        return 0;
    }
}

static void expand_state(struct plan_search *q, int32_t number, struct sr1__rooms_state s)
{
    struct sr1__rooms_action all[SR1__ROOMS_ACTIONS];
    size_t n, i;

    state_of(number, &s);
    n = sr1__rooms_admissible(q->w, &s, all);
    for (i = 0; i < n; i++) {
        struct sr1__rooms_state t = sr1__rooms_after(&s, all[i]);
        int32_t to = state_number(&t);

        if (!is_plan_action(q->w, all[i]) || q->reached[to].from != 0)
            continue;
        q->reached[to] = (struct step){(int16_t)(number + 1), all[i]};
        q->queue[q->n++] = (int16_t)to;
    }
}

/* The actions from start to a state that was reached. */
static int32_t trace_plan(const struct plan_search *q, int32_t start, int32_t number,
                          struct sr1__rooms_action *plan)
{
    int32_t n = 0, at, i;

    for (at = number; at != start; at = q->reached[at].from - 1)
        n++;
    if (n > SR1__ROOMS_PLAN_MAX)
        return -1;
    for (at = number, i = n; at != start; at = q->reached[at].from - 1)
        plan[--i] = q->reached[at].action;
    return n;
}

int32_t sr1__rooms_plan(const struct sr1__rooms *w, const struct sr1__rooms_state *s,
                        struct sr1__rooms_action *plan)
{
    struct plan_search q = {.w = w};
    int32_t start = state_number(s), i;

    q.reached[start].from = (int16_t)(start + 1);
    q.queue[q.n++] = (int16_t)start;
    for (i = 0; i < q.n; i++) {
        struct sr1__rooms_state t = *s;

        state_of(q.queue[i], &t);
        if (sr1__rooms_solved(w, &t))
            return trace_plan(&q, start, q.queue[i], plan);
        expand_state(&q, q.queue[i], *s);
    }
    return -1;
}
