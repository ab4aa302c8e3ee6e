/* environment/world/rooms_text.c - the world of rooms in words, and actions read from
 * words. */
#include "environment/world/rooms.h"

#include <stdio.h>
#include <string.h>

/* ---- names ---- */

static void write_thing_name(char out[SR1__ROOMS_TEXT], struct sr1__rooms_name name,
                             const char *(*noun)(size_t))
{
    const char *colour = name.colour >= 0 ? sr1__rooms_colour((size_t)name.colour) : "";

    snprintf(out, SR1__ROOMS_TEXT, "the %s%s%s", colour, *colour ? " " : "",
             noun((size_t)name.noun));
}

void sr1__rooms_room_text(char out[SR1__ROOMS_TEXT], const struct sr1__rooms *w,
                          int32_t i)
{
    write_thing_name(out, w->room[i], sr1__rooms_room_noun);
}

static void write_container_text(char out[SR1__ROOMS_TEXT], const struct sr1__rooms *w,
                                 int32_t i)
{
    write_thing_name(out, w->container[i], sr1__rooms_container_noun);
}

void sr1__rooms_object_text(char out[SR1__ROOMS_TEXT], const struct sr1__rooms *w,
                            int32_t i)
{
    write_thing_name(out, w->object[i], sr1__rooms_object_noun);
}

/* ---- verbs ---- */

typedef void (*name_fn)(char *out, const struct sr1__rooms *w, int32_t i);

/* The text of each action, and the observation after it. */
static const struct verb {
    const char *before, *between; /* between: before a second name, NULL without one */
    name_fn first;                /* NULL: no name at all */
    const char *done;
} verbs[SR1__ROOMS_VERBS] = {
    [SR1__ROOMS_LOOK] = {"look", NULL, NULL, NULL},
    [SR1__ROOMS_INVENTORY] = {"inventory", NULL, NULL, NULL},
    [SR1__ROOMS_GO] = {"go to ", NULL, sr1__rooms_room_text, NULL},
    [SR1__ROOMS_OPEN_DOOR] = {"open the door to ", NULL, sr1__rooms_room_text,
                              "You open the door to "},
    [SR1__ROOMS_CLOSE_DOOR] = {"close the door to ", NULL, sr1__rooms_room_text,
                               "You close the door to "},
    [SR1__ROOMS_OPEN] = {"open ", NULL, write_container_text, "You open "},
    [SR1__ROOMS_CLOSE] = {"close ", NULL, write_container_text, "You close "},
    [SR1__ROOMS_TAKE] = {"take ", NULL, sr1__rooms_object_text, "You take "},
    [SR1__ROOMS_DROP] = {"drop ", NULL, sr1__rooms_object_text, "You drop "},
    [SR1__ROOMS_PUT] = {"put ", " into ", sr1__rooms_object_text, "You put "},
    [SR1__ROOMS_EXAMINE] = {"examine ", NULL, sr1__rooms_object_text, "You look at "},
    [SR1__ROOMS_EXAMINE_CONTAINER] = {"examine ", NULL, write_container_text,
                                      "You look at "},
};

/* The names of an action after a text. */
static void write_action_names(char out[SR1__ROOMS_TEXT], const char *before,
                               const struct sr1__rooms *w, struct sr1__rooms_action a)
{
    const struct verb *v = &verbs[a.verb];
    char first[SR1__ROOMS_TEXT] = "", second[SR1__ROOMS_TEXT] = "";

    if (v->first != NULL)
        v->first(first, w, a.a);
    if (v->between != NULL)
        write_container_text(second, w, a.b);
    snprintf(out, SR1__ROOMS_TEXT, "%s%.24s%s%.24s", before, first,
             v->between != NULL ? v->between : "", second);
}

void sr1__rooms_action_text(char out[SR1__ROOMS_TEXT], const struct sr1__rooms *w,
                            struct sr1__rooms_action a)
{
    write_action_names(out, verbs[a.verb].before, w, a);
}

/* ---- what one sees ---- */

/* The objects in a place, "the red key, the blue coin"; none: "nothing". */
static void append_objects(struct sr1__buf *b, const struct sr1__rooms *w,
                           const struct sr1__rooms_state *s, int32_t place)
{
    char name[SR1__ROOMS_TEXT];
    int32_t n = 0;

    for (int32_t i = 0; i < w->n_objects; i++) {
        if (s->place[i] != place)
            continue;
        sr1__rooms_object_text(name, w, i);
        sr1__buf_fmt(b, "%s%s", n++ > 0 ? ", " : "", name);
    }
    if (n == 0)
        sr1__buf_str(b, "nothing");
}

static void append_container(struct sr1__buf *b, const struct sr1__rooms *w,
                             const struct sr1__rooms_state *s, int32_t i)
{
    if (!(s->open >> i & 1)) {
        sr1__buf_str(b, "It is closed.");
        return;
    }
    sr1__buf_str(b, "In it: ");
    append_objects(b, w, s, SR1__ROOMS_IN + i);
    sr1__buf_char(b, '.');
}

static void append_scene(struct sr1__buf *b, const struct sr1__rooms *w,
                         const struct sr1__rooms_state *s)
{
    char name[SR1__ROOMS_TEXT];

    sr1__rooms_room_text(name, w, s->at);
    sr1__buf_fmt(b, "You are in %s.", name);
    for (int32_t i = 0; i < w->n_containers; i++) {
        if (w->container_room[i] != s->at)
            continue;
        write_container_text(name, w, i);
        sr1__buf_fmt(b, " Here is %s. ", name);
        append_container(b, w, s, i);
    }
    sr1__buf_str(b, " On the floor: ");
    append_objects(b, w, s, s->at);
    sr1__buf_char(b, '.');
}

/* Examining always can be done and would make a long list; of a small world only what may
 * lead somewhere. */
static int is_action_listed(const struct sr1__rooms *w, struct sr1__rooms_action a)
{
    if (w->small)
        return a.verb == SR1__ROOMS_GO || a.verb == SR1__ROOMS_OPEN ||
               a.verb == SR1__ROOMS_TAKE || a.verb == SR1__ROOMS_PUT;
    return a.verb != SR1__ROOMS_EXAMINE && a.verb != SR1__ROOMS_EXAMINE_CONTAINER;
}

static void append_admissible_actions(struct sr1__buf *b, const struct sr1__rooms *w,
                                      const struct sr1__rooms_state *s)
{
    struct sr1__rooms_action all[SR1__ROOMS_ACTIONS];
    size_t n = sr1__rooms_admissible(w, s, all);
    char text[SR1__ROOMS_TEXT];

    sr1__buf_str(b, "\nYou can: ");
    for (size_t i = 0; i < n; i++) {
        if (!is_action_listed(w, all[i]))
            continue;
        sr1__rooms_action_text(text, w, all[i]);
        sr1__buf_fmt(b, "%s, ", text);
    }
    sr1__buf_str(b, w->small ? "look." : "examine a thing.");
}

void sr1__rooms_append_place(struct sr1__buf *b, const struct sr1__rooms *w,
                             const struct sr1__rooms_state *s, int32_t i)
{
    int32_t place = s->place[i];
    char name[SR1__ROOMS_TEXT];

    if (place == SR1__ROOMS_HELD) {
        sr1__buf_str(b, "in your hand");
        return;
    }
    if (place >= SR1__ROOMS_IN) {
        write_container_text(name, w, place - SR1__ROOMS_IN);
        sr1__buf_fmt(b, "in %s ", name);
        place = w->container_room[place - SR1__ROOMS_IN];
    }
    sr1__rooms_room_text(name, w, place);
    sr1__buf_fmt(b, "in %s", name);
}

void sr1__rooms_append_goal(struct sr1__buf *b, const struct sr1__rooms *w)
{
    struct sr1__rooms_action put = {SR1__ROOMS_PUT, 0, w->goal_container};
    char text[SR1__ROOMS_TEXT], room[SR1__ROOMS_TEXT];

    sr1__rooms_action_text(text, w, put);
    sr1__rooms_room_text(room, w, w->container_room[w->goal_container]);
    sr1__buf_fmt(b, "%s in %s", text, room);
}

void sr1__rooms_append_task(struct sr1__buf *b, const struct sr1__rooms *w)
{
    char name[SR1__ROOMS_TEXT];

    sr1__buf_str(b, "Your task: ");
    sr1__rooms_append_goal(b, w);
    sr1__rooms_object_text(name, w, 0);
    sr1__buf_fmt(b, ". You know that %s is ", name);
    sr1__rooms_append_place(b, w, &w->start, 0);
    sr1__buf_str(b, ".\n");
    append_scene(b, w, &w->start);
    append_admissible_actions(b, w, &w->start);
}

static void append_done_sentence(struct sr1__buf *b, const struct sr1__rooms *w,
                                 struct sr1__rooms_action a)
{
    char text[SR1__ROOMS_TEXT];

    write_action_names(text, verbs[a.verb].done, w, a);
    sr1__buf_fmt(b, "%s.", text);
}

void sr1__rooms_append_result(struct sr1__buf *b, const struct sr1__rooms *w,
                              const struct sr1__rooms_state *s,
                              struct sr1__rooms_action a)
{
    if (verbs[a.verb].done != NULL)
        append_done_sentence(b, w, a);
    if (a.verb == SR1__ROOMS_LOOK || a.verb == SR1__ROOMS_GO) {
        append_scene(b, w, s);
    } else if (a.verb == SR1__ROOMS_INVENTORY) {
        sr1__buf_str(b, "In your hand: ");
        append_objects(b, w, s, SR1__ROOMS_HELD);
        sr1__buf_char(b, '.');
    } else if (a.verb == SR1__ROOMS_OPEN || a.verb == SR1__ROOMS_EXAMINE_CONTAINER) {
        sr1__buf_char(b, ' ');
        append_container(b, w, s, a.a);
    } else if (a.verb == SR1__ROOMS_EXAMINE) {
        sr1__buf_str(b, " It is ");
        sr1__rooms_append_place(b, w, s, a.a);
        sr1__buf_char(b, '.');
    }
    if (!sr1__rooms_solved(w, s))
        append_admissible_actions(b, w, s);
}

/* ---- actions from words ---- */

static int is_ascii_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The words of a text in lower case with one space before each, without "the"; what is
 * no letter parts words. 0: they are more than out holds. */
static int plain_words(char out[SR1__ROOMS_TEXT], const char *text, size_t len)
{
    size_t at = 0, n = 0;

    while (at < len) {
        size_t begin = n;

        while (at < len && !is_ascii_letter(text[at]))
            at++;
        if (at < len)
            out[n++] = ' ';
        for (; at < len && is_ascii_letter(text[at]); at++) {
            if (n + 2 >= SR1__ROOMS_TEXT)
                return 0;
            out[n++] = (char)(text[at] | 0x20);
        }
        if (n - begin == 4 && memcmp(out + begin, " the", 4) == 0)
            n = begin;
    }
    out[n] = '\0';
    return 1;
}

int sr1__rooms_read_action(const struct sr1__rooms *w, const struct sr1__rooms_state *s,
                           const char *text, size_t len, struct sr1__rooms_action *out)
{
    struct sr1__rooms_action all[SR1__ROOMS_ACTIONS];
    char said[SR1__ROOMS_TEXT], one[SR1__ROOMS_TEXT], words[SR1__ROOMS_TEXT];
    size_t n, i;

    if (!plain_words(said, text, len))
        return 0;
    n = sr1__rooms_admissible(w, s, all);
    for (i = 0; i < n; i++) {
        sr1__rooms_action_text(one, w, all[i]);
        if (plain_words(words, one, strlen(one)) && strcmp(words, said) == 0) {
            *out = all[i];
            return 1;
        }
    }
    return 0;
}
