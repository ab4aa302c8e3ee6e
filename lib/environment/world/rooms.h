/* environment/world/rooms.h - the text world of rooms, shared by its files.
 *
 *     rooms.c         worlds by seed, what an action changes    rooms_text.c  its texts
 *     rooms_expert.c  shortest plans                            rooms_env.c   episodes
 *     rooms_write.c   questions, demonstrations, their files
 *
 * Everything here is a value: a state is copied by assignment. */
#ifndef SR1__WORLD_ROOMS_H
#define SR1__WORLD_ROOMS_H

#include "base/buf.h"
#include "base/rng.h"

#include <searchr1/ext/world.h>

#define SR1__ROOMS_ROOMS 3
#define SR1__ROOMS_CONTAINERS 4
#define SR1__ROOMS_OBJECTS 5

/* Places of objects: rooms (on the floor), then containers, then the hand. */
#define SR1__ROOMS_IN SR1__ROOMS_ROOMS
#define SR1__ROOMS_HELD (SR1__ROOMS_ROOMS + SR1__ROOMS_CONTAINERS)
#define SR1__ROOMS_PLACES (SR1__ROOMS_HELD + 1)

/* Lengths of shortest plans there are. */
#define SR1__ROOMS_LEAST 4
#define SR1__ROOMS_MOST 12
#define SR1__ROOMS_SMALL_LEAST 3
#define SR1__ROOMS_SMALL_MOST 6

/* Worlds of one split never name a thing as those of another do. Small worlds, whose
 * splits come behind, have two rooms, open doors, no colours, and few nouns, which all
 * splits share. */
enum { SR1__ROOMS_TRAIN, SR1__ROOMS_VALIDATION, SR1__ROOMS_TEST, SR1__ROOMS_SPLITS };
#define SR1__ROOMS_SMALL SR1__ROOMS_SPLITS
extern const char *const sr1__rooms_splits[2 * SR1__ROOMS_SPLITS];

/* A thing's name: words of two tables ("red", "key"); a room has a noun only. */
struct sr1__rooms_name {
    int8_t colour; /* -1: none */
    int8_t noun;
};

/* The state of a world. Bit i of doors: the door from room i to room 0 (i > 0) is open.
 */
struct sr1__rooms_state {
    int8_t at;
    uint8_t doors;
    uint8_t open; /* bit i: container i */
    int8_t place[SR1__ROOMS_OBJECTS];
};

/* Room 0 has a door to each other room, and there are no others. */
struct sr1__rooms {
    int8_t n_rooms, n_containers, n_objects;
    struct sr1__rooms_name room[SR1__ROOMS_ROOMS];
    struct sr1__rooms_name container[SR1__ROOMS_CONTAINERS];
    struct sr1__rooms_name object[SR1__ROOMS_OBJECTS];
    int8_t container_room[SR1__ROOMS_CONTAINERS];
    int8_t goal_container; /* object 0 is to be in it */
    int8_t shortest;       /* actions of a shortest plan from the start */
    int8_t small;
    struct sr1__rooms_state start;
};

enum sr1__rooms_verb {
    SR1__ROOMS_LOOK,
    SR1__ROOMS_INVENTORY,
    SR1__ROOMS_GO,        /* to room a */
    SR1__ROOMS_OPEN_DOOR, /* between here and room a */
    SR1__ROOMS_CLOSE_DOOR,
    SR1__ROOMS_OPEN, /* container a */
    SR1__ROOMS_CLOSE,
    SR1__ROOMS_TAKE, /* object a */
    SR1__ROOMS_DROP,
    SR1__ROOMS_PUT,     /* object a into container b */
    SR1__ROOMS_EXAMINE, /* object a */
    SR1__ROOMS_EXAMINE_CONTAINER,
    SR1__ROOMS_VERBS
};

struct sr1__rooms_action {
    enum sr1__rooms_verb verb;
    int8_t a, b;
};

/* More than any state admits. */
#define SR1__ROOMS_ACTIONS 64

/* The world of a seed. SR1_E_LIMIT cannot be seen to happen. */
sr1_status sr1__rooms_make(struct sr1__rooms *w, int32_t split, uint64_t seed);

/* The possible actions in state s; returns their number. */
size_t sr1__rooms_admissible(const struct sr1__rooms *w, const struct sr1__rooms_state *s,
                             struct sr1__rooms_action out[SR1__ROOMS_ACTIONS]);

/* The state after an admissible action. */
struct sr1__rooms_state sr1__rooms_after(const struct sr1__rooms_state *s,
                                         struct sr1__rooms_action a);

int sr1__rooms_solved(const struct sr1__rooms *w, const struct sr1__rooms_state *s);

/* Fails if the id of a question names no world. */
sr1_status sr1__rooms_check_id(const char *id);

/* ---- plans ---- */

/* A shortest plan to the goal from s: actions into plan[SR1__ROOMS_PLAN_MAX], their
 * number; -1 when there is none. */
#define SR1__ROOMS_PLAN_MAX 24
int32_t sr1__rooms_plan(const struct sr1__rooms *w, const struct sr1__rooms_state *s,
                        struct sr1__rooms_action *plan);

/* ---- texts ---- */

/* Words, NULL past the end. */
const char *sr1__rooms_colour(size_t i);
const char *sr1__rooms_object_noun(size_t i);
const char *sr1__rooms_container_noun(size_t i);
const char *sr1__rooms_room_noun(size_t i);

/* "go to the hall"; longest 60 bytes or so. */
#define SR1__ROOMS_TEXT 96
void sr1__rooms_action_text(char out[SR1__ROOMS_TEXT], const struct sr1__rooms *w,
                            struct sr1__rooms_action a);
/* "the hall", "the white chest", "the red key". */
void sr1__rooms_room_text(char out[SR1__ROOMS_TEXT], const struct sr1__rooms *w,
                          int32_t i);
void sr1__rooms_object_text(char out[SR1__ROOMS_TEXT], const struct sr1__rooms *w,
                            int32_t i);

/* "put the red key into the green box in the kitchen" */
void sr1__rooms_append_goal(struct sr1__buf *b, const struct sr1__rooms *w);
/* "in the white chest in the hall", where object i is. */
void sr1__rooms_append_place(struct sr1__buf *b, const struct sr1__rooms *w,
                             const struct sr1__rooms_state *s, int32_t i);
/* The question: the goal, the position of its object, and the first observation. */
void sr1__rooms_append_task(struct sr1__buf *b, const struct sr1__rooms *w);
/* The observation after action a has led to state s. */
void sr1__rooms_append_result(struct sr1__buf *b, const struct sr1__rooms *w,
                              const struct sr1__rooms_state *s,
                              struct sr1__rooms_action a);
/* And after any other text. */
#define SR1__ROOMS_NOTHING "Nothing happens."

/* The admissible action that the text names: case, white space and the word "the" do not
 * matter. 0: none of them. */
int sr1__rooms_read_action(const struct sr1__rooms *w, const struct sr1__rooms_state *s,
                           const char *text, size_t len, struct sr1__rooms_action *out);

/* ---- demonstrations ---- */

/* One line of JSON: the expert in this world, its levels drawn from rng. */
sr1_status sr1__rooms_append_demo(struct sr1__buf *out, sr1_env *env, int32_t split,
                                  uint64_t seed, struct sr1__rng *rng);

#endif
