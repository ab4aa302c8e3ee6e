/* fuzz_rooms.c - lines of any bytes as actions in a world of rooms: each is answered, no
 * object is lost, and only the goal earns anything.
 *
 * The first byte is the world's seed; a line that is a single byte from 0x80 stands for
 * one of the possible actions. */
#include "fuzz.h"

#include "environment/world/rooms.h"

#include <searchr1/ext/episodes.h>

#include <stdio.h>
#include <string.h>

struct play {
    struct sr1__rooms w;
    struct sr1__rooms_state s;
    sr1_env *env;
    int64_t episode;
};

static void check_world(const struct play *p)
{
    for (int32_t i = 0; i < p->w.n_objects; i++) {
        int32_t at = p->s.place[i];

        FUZZ_CHECK((at >= 0 && at < p->w.n_rooms) || at == SR1__ROOMS_HELD ||
                   (at >= SR1__ROOMS_IN && at < SR1__ROOMS_IN + p->w.n_containers));
    }
}

static void act(struct play *p, const char *text, size_t len)
{
    sr1_env_reply r = {.struct_size = sizeof r};
    struct sr1__rooms_action a;
    int over = sr1__rooms_solved(&p->w, &p->s);
    char *said = NULL;
    size_t n = 0;

    FUZZ_CHECK(sr1_env_step(p->env, p->episode, text, len, &r, &said, &n) == SR1_OK);
    FUZZ_CHECK(n > 0 && n < 4096 && said[n] == '\0');
    FUZZ_CHECK(r.success == (r.reward > 0) && r.success == r.done);
    if (sr1__rooms_read_action(&p->w, &p->s, text, len, &a)) {
        p->s = sr1__rooms_after(&p->s, a);
        FUZZ_CHECK(r.flags == 0);
        FUZZ_CHECK(r.success == (!over && sr1__rooms_solved(&p->w, &p->s)));
    } else {
        FUZZ_CHECK(r.flags == SR1_ANSWER_UNEXECUTED && !r.done);
        FUZZ_CHECK(strstr(said, SR1__ROOMS_NOTHING) != NULL);
    }
    check_world(p);
    sr1_free(said);
}

static void act_line(struct play *p, const char *line, size_t len)
{
    struct sr1__rooms_action all[SR1__ROOMS_ACTIONS];
    char text[SR1__ROOMS_TEXT];
    size_t n;

    if (len != 1 || !(line[0] & 0x80)) {
        act(p, line, len);
        return;
    }
    n = sr1__rooms_admissible(&p->w, &p->s, all);
    sr1__rooms_action_text(text, &p->w, all[(line[0] & 0x7f) % n]);
    act(p, text, strlen(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data + 1, *end = (const char *)data + size, *stop;
    struct play p = {.episode = 0};
    char id[32];

    if (size == 0)
        return 0;
    snprintf(id, sizeof id, "rooms-test-%d", data[0]);
    FUZZ_CHECK(sr1__rooms_make(&p.w, SR1__ROOMS_TEST, data[0]) == SR1_OK);
    p.s = p.w.start;
    FUZZ_CHECK(sr1_rooms_env_open(&p.env, NULL) == SR1_OK);
    FUZZ_CHECK(sr1_env_begin(p.env, id, NULL, 0, 0, &p.episode) == SR1_OK);
    for (; at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        act_line(&p, at, (size_t)(stop - at));
    }
    sr1_env_finish(p.env, p.episode);
    sr1_env_free(p.env);
    return 0;
}
