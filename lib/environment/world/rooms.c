/* environment/world/rooms.c - rooms, doors, containers and objects, and the effect of
 * actions.
 *
 * A world is drawn from its seed until its shortest plan has 4 to 12 actions. All is
 * deterministic: the same actions always lead to the same state. Colours and nouns are
 * seen in every split, but a pair of them belongs to one split alone. */
#include "environment/world/rooms.h"

#include <string.h>

const char *const sr1__rooms_splits[2 * SR1__ROOMS_SPLITS] = {
    "train", "validation", "test", "small-train", "small-validation", "small-test"};

static const char *const colours[] = {"red",   "blue",   "green",  "white",
                                      "black", "grey",   "brown",  "golden",
                                      "pink",  "purple", "silver", "yellow"};
static const char *const object_nouns[] = {"key",    "coin", "ring",  "book",
                                           "cup",    "lamp", "spoon", "letter",
                                           "candle", "map",  "stone", "bell"};
static const char *const container_nouns[] = {"box",    "chest", "drawer", "cupboard",
                                              "basket", "bag",   "crate",  "cabinet"};
static const char *const room_nouns[] = {"kitchen", "bedroom", "hall",    "cellar",
                                         "attic",   "study",   "library", "pantry"};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

const char *sr1__rooms_colour(size_t i)
{
    return i < COUNT(colours) ? colours[i] : NULL;
}

const char *sr1__rooms_object_noun(size_t i)
{
    return i < COUNT(object_nouns) ? object_nouns[i] : NULL;
}

const char *sr1__rooms_container_noun(size_t i)
{
    return i < COUNT(container_nouns) ? container_nouns[i] : NULL;
}

const char *sr1__rooms_room_noun(size_t i)
{
    return i < COUNT(room_nouns) ? room_nouns[i] : NULL;
}

/* ---- drawing a world ---- */

/* Each colour goes with nouns of every split, and so does each noun with colours. */
static int32_t split_of(size_t colour, size_t noun)
{
    static const int8_t by_sum[6] = {SR1__ROOMS_TRAIN,      SR1__ROOMS_TRAIN,
                                     SR1__ROOMS_TRAIN,      SR1__ROOMS_TRAIN,
                                     SR1__ROOMS_VALIDATION, SR1__ROOMS_TEST};

    return by_sum[(colour + noun) % 6];
}

static int32_t random_below(struct sr1__rng *rng, size_t n)
{
    return (int32_t)sr1__rng_below(rng, n);
}

/* n names with different nouns, their pairs of this split. */
static void draw_names(struct sr1__rooms_name *names, int32_t n, size_t nouns,
                       int32_t split, struct sr1__rng *rng)
{
    int64_t order[COUNT(object_nouns)];
    int32_t i;

    for (i = 0; i < (int32_t)nouns; i++)
        order[i] = i;
    sr1__rng_shuffle(rng, order, nouns);
    for (i = 0; i < n; i++) {
        names[i].noun = (int8_t)order[i];
        do
            names[i].colour = (int8_t)random_below(rng, COUNT(colours));
        while (split_of((size_t)names[i].colour, (size_t)names[i].noun) != split);
    }
}

static void draw_world(struct sr1__rooms *w, int32_t split, struct sr1__rng *rng)
{
    int32_t i;

    memset(w, 0, sizeof *w);
    w->n_rooms = (int8_t)(2 + random_below(rng, 2));
    w->n_containers = (int8_t)(w->n_rooms + random_below(rng, 2));
    w->n_objects = (int8_t)(3 + random_below(rng, 3));
    draw_names(w->room, w->n_rooms, COUNT(room_nouns), split, rng);
    for (i = 0; i < w->n_rooms; i++)
        w->room[i].colour = -1;
    draw_names(w->container, w->n_containers, COUNT(container_nouns), split, rng);
    draw_names(w->object, w->n_objects, COUNT(object_nouns), split, rng);
    for (i = 0; i < w->n_containers; i++) {
        w->container_room[i] =
            (int8_t)(i < w->n_rooms ? i : random_below(rng, (size_t)w->n_rooms));
        w->start.open |= (uint8_t)(random_below(rng, 3) == 0) << i;
    }
    for (i = 1; i < w->n_rooms; i++)
        w->start.doors |= (uint8_t)(random_below(rng, 2) << i);
    for (i = 0; i < w->n_objects; i++) {
        int32_t p = random_below(rng, (size_t)(w->n_rooms + w->n_containers));

        w->start.place[i] = (int8_t)(p < w->n_rooms ? p : SR1__ROOMS_IN + p - w->n_rooms);
    }
    w->start.at = (int8_t)random_below(rng, (size_t)w->n_rooms);
    w->goal_container = (int8_t)random_below(rng, (size_t)w->n_containers);
}

#define SMALL_NOUNS 6

static void draw_small_names(struct sr1__rooms_name *names, int32_t n, size_t nouns,
                             struct sr1__rng *rng)
{
    int64_t order[SMALL_NOUNS];
    int32_t i;

    for (i = 0; i < (int32_t)nouns; i++)
        order[i] = i;
    sr1__rng_shuffle(rng, order, nouns);
    for (i = 0; i < n; i++)
        names[i] = (struct sr1__rooms_name){.colour = -1, .noun = (int8_t)order[i]};
}

static void draw_small(struct sr1__rooms *w, struct sr1__rng *rng)
{
    int32_t i;

    memset(w, 0, sizeof *w);
    w->small = 1;
    w->n_rooms = w->n_containers = w->n_objects = 2;
    draw_small_names(w->room, 2, 4, rng);
    draw_small_names(w->container, 2, 4, rng);
    draw_small_names(w->object, 2, SMALL_NOUNS, rng);
    w->start.doors = 2;
    w->start.at = (int8_t)random_below(rng, 2);
    w->goal_container = (int8_t)random_below(rng, 2);
    for (i = 0; i < 2; i++) {
        int32_t p = random_below(rng, 4);

        w->container_room[i] = (int8_t)i;
        w->start.open |= (uint8_t)(random_below(rng, 3) == 0) << i;
        w->start.place[i] = (int8_t)(p < 2 ? p : SR1__ROOMS_IN + p - 2);
    }
}

static int is_plan_length_allowed(const struct sr1__rooms *w, int32_t n)
{
    return w->small ? n >= SR1__ROOMS_SMALL_LEAST && n <= SR1__ROOMS_SMALL_MOST
                    : n >= SR1__ROOMS_LEAST && n <= SR1__ROOMS_MOST;
}

#define TRIES 4096

sr1_status sr1__rooms_make(struct sr1__rooms *w, int32_t split, uint64_t seed)
{
    struct sr1__rooms_action plan[SR1__ROOMS_PLAN_MAX];
    struct sr1__rooms made;
    struct sr1__rng rng;
    int32_t i;

    sr1__rng_seed(&rng, seed, 0x726f6f6d73u + (uint64_t)split);
    for (i = 0; i < TRIES; i++) {
        int32_t n;

        if (split >= SR1__ROOMS_SMALL)
            draw_small(&made, &rng);
        else
            draw_world(&made, split, &rng);
        n = sr1__rooms_plan(&made, &made.start, plan);
        if (!is_plan_length_allowed(&made, n))
            continue;
        made.shortest = (int8_t)n;
        *w = made;
        return SR1_OK;
    }
    return sr1__fail(SR1_E_LIMIT, "rooms: no world of seed %llu",
                     (unsigned long long)seed);
}

/* ---- what can be done ---- */

/* The bit of the door between here and room a. */
static uint8_t door_bit(const struct sr1__rooms_state *s, int32_t a)
{
    return (uint8_t)(1u << (s->at > 0 ? s->at : a));
}

static int has_door(const struct sr1__rooms_state *s, int32_t a)
{
    return (s->at == 0) != (a == 0);
}

static int is_here(const struct sr1__rooms *w, const struct sr1__rooms_state *s,
                   int32_t container)
{
    return w->container_room[container] == s->at;
}

static int is_open(const struct sr1__rooms_state *s, int32_t container)
{
    return s->open >> container & 1;
}

/* Can object i be seen from where one stands, or is it held? */
static int is_object_visible(const struct sr1__rooms *w, const struct sr1__rooms_state *s,
                             int32_t i)
{
    int32_t place = s->place[i];

    if (place == SR1__ROOMS_HELD || place == s->at)
        return 1;
    return place >= SR1__ROOMS_IN && is_here(w, s, place - SR1__ROOMS_IN) &&
           is_open(s, place - SR1__ROOMS_IN);
}

struct action_list {
    struct sr1__rooms_action *at;
    size_t n;
};

static void add_admissible(struct action_list *l, enum sr1__rooms_verb verb, int32_t a,
                           int32_t b)
{
    l->at[l->n++] = (struct sr1__rooms_action){verb, (int8_t)a, (int8_t)b};
}

static void add_doors(struct action_list *l, const struct sr1__rooms *w,
                      const struct sr1__rooms_state *s)
{
    for (int32_t i = 0; i < w->n_rooms; i++) {
        if (!has_door(s, i))
            continue;
        if (s->doors & door_bit(s, i)) {
            add_admissible(l, SR1__ROOMS_GO, i, 0);
            add_admissible(l, SR1__ROOMS_CLOSE_DOOR, i, 0);
        } else {
            add_admissible(l, SR1__ROOMS_OPEN_DOOR, i, 0);
        }
    }
}

static void add_containers(struct action_list *l, const struct sr1__rooms *w,
                           const struct sr1__rooms_state *s)
{
    for (int32_t i = 0; i < w->n_containers; i++) {
        if (!is_here(w, s, i))
            continue;
        add_admissible(l, is_open(s, i) ? SR1__ROOMS_CLOSE : SR1__ROOMS_OPEN, i, 0);
        add_admissible(l, SR1__ROOMS_EXAMINE_CONTAINER, i, 0);
    }
}

static void add_held(struct action_list *l, const struct sr1__rooms *w,
                     const struct sr1__rooms_state *s, int32_t object)
{
    add_admissible(l, SR1__ROOMS_DROP, object, 0);
    for (int32_t i = 0; i < w->n_containers; i++)
        if (is_here(w, s, i) && is_open(s, i))
            add_admissible(l, SR1__ROOMS_PUT, object, i);
}

size_t sr1__rooms_admissible(const struct sr1__rooms *w, const struct sr1__rooms_state *s,
                             struct sr1__rooms_action out[SR1__ROOMS_ACTIONS])
{
    struct action_list l = {out, 0};

    add_doors(&l, w, s);
    add_containers(&l, w, s);
    for (int32_t i = 0; i < w->n_objects; i++) {
        if (!is_object_visible(w, s, i))
            continue;
        if (s->place[i] == SR1__ROOMS_HELD)
            add_held(&l, w, s, i);
        else
            add_admissible(&l, SR1__ROOMS_TAKE, i, 0);
        add_admissible(&l, SR1__ROOMS_EXAMINE, i, 0);
    }
    add_admissible(&l, SR1__ROOMS_LOOK, 0, 0);
    add_admissible(&l, SR1__ROOMS_INVENTORY, 0, 0);
    return l.n;
}

/* ---- what it changes ---- */

struct sr1__rooms_state sr1__rooms_after(const struct sr1__rooms_state *s,
                                         struct sr1__rooms_action a)
{
    struct sr1__rooms_state t = *s;

    switch (a.verb) {
    case SR1__ROOMS_GO:
        t.at = a.a;
        break;
    case SR1__ROOMS_OPEN_DOOR:
        t.doors |= door_bit(s, a.a);
        break;
    case SR1__ROOMS_CLOSE_DOOR:
        t.doors &= (uint8_t)~door_bit(s, a.a);
        break;
    case SR1__ROOMS_OPEN:
        t.open |= (uint8_t)(1u << a.a);
        break;
    case SR1__ROOMS_CLOSE:
        t.open &= (uint8_t) ~(1u << a.a);
        break;
    case SR1__ROOMS_TAKE:
        t.place[a.a] = SR1__ROOMS_HELD;
        break;
    case SR1__ROOMS_DROP:
        t.place[a.a] = s->at;
        break;
    case SR1__ROOMS_PUT:
        t.place[a.a] = (int8_t)(SR1__ROOMS_IN + a.b);
        break;
    default: /* only looks */
        break;
    }
    return t;
}

int sr1__rooms_solved(const struct sr1__rooms *w, const struct sr1__rooms_state *s)
{
    return s->place[0] == SR1__ROOMS_IN + w->goal_container;
}
