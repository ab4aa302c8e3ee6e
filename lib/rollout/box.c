/* rollout/box.c - where the answers to a lane's actions come in. */
#include "rollout/asker_parts.h"

#include "base/clock.h"
#include "base/mem.h"

sr1_status sr1__box_new(struct sr1__box **out, struct sr1__asker *a, int32_t rows)
{
    struct sr1__box *b = sr1__calloc(1, sizeof(*b));

    if (b)
        b->asks = sr1__calloc((size_t)rows, sizeof(*b->asks));
    if (!b || !b->asks) {
        sr1__free(b);
        return sr1__fail_nomem("answers of searches");
    }
    sr1__cond_init(&b->answered);
    b->asker = a;
    b->n_rows = rows;
    *out = b;
    return SR1_OK;
}

sr1_status sr1__box_ask(struct sr1__box *b, const int32_t *rows,
                        const struct sr1__action *actions, size_t n)
{
    struct sr1__asker *a = b->asker;
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < n && st == SR1_OK; i++) {
        struct sr1__ask *k = &b->asks[rows[i]];
        char *text = sr1__strndup(actions[i].text, actions[i].len);

        if (!text) {
            st = sr1__fail_nomem("action");
            break;
        }
        *k = (struct sr1__ask){.box = b, .state = SR1__ASK_QUEUED, .action = actions[i]};
        k->action.text = text;
        sr1__asker_push(a, k);
        b->waiting++;
    }
    pthread_cond_broadcast(&a->wake);
    pthread_mutex_unlock(&a->lock);
    return st;
}

/* With replies NULL they are thrown away. */
static size_t take_answers(struct sr1__box *b, struct sr1__reply *replies)
{
    size_t n = 0;

    for (int32_t i = 0; i < b->n_rows; i++) {
        struct sr1__ask *k = &b->asks[i];

        if (k->state != SR1__ASK_ANSWERED)
            continue;
        k->state = SR1__ASK_NOTHING;
        if (replies)
            replies[n] = (struct sr1__reply){i, k->observation};
        else
            sr1__observation_free(&k->observation);
        n++;
    }
    b->waiting -= n;
    return n;
}

static sr1_status box_status(const struct sr1__box *b, struct sr1__reply *replies,
                             size_t *n)
{
    if (b->error.code == SR1_OK)
        return SR1_OK;
    while (replies && *n > 0)
        sr1__observation_free(&replies[--*n].observation);
    return sr1__error_raise(&b->error);
}

/* Looks at the deadline this often while it waits. */
#define TICK 0.05

sr1_status sr1__box_collect(struct sr1__box *b, double seconds,
                            struct sr1__reply *replies, size_t *n)
{
    struct sr1__asker *a = b->asker;
    double until = sr1__now() + seconds;
    sr1_status st;

    pthread_mutex_lock(&a->lock);
    for (;;) {
        double left = until - sr1__now();
        struct timespec t = sr1__clock_time(sr1__now() + (left < TICK ? left : TICK));

        sr1__asker_give_up_late(a);
        *n = take_answers(b, replies);
        if (*n > 0 || b->waiting == 0 || left <= 0)
            break;
        pthread_cond_timedwait(&b->answered, &a->lock, &t);
    }
    st = box_status(b, replies, n);
    pthread_mutex_unlock(&a->lock);
    return st;
}

size_t sr1__box_waiting(const struct sr1__box *b)
{
    return b->waiting;
}

/* Take back what no thread has begun. */
static void take_back(struct sr1__box *b)
{
    struct sr1__asker *a = b->asker;
    struct sr1__ask *k = a->first;

    a->first = NULL;
    a->n_queued = 0;
    while (k) {
        struct sr1__ask *next = k->next;

        if (k->box == b) {
            sr1__ask_drop_text(k);
            k->state = SR1__ASK_NOTHING;
            b->waiting--;
        } else {
            sr1__asker_push(a, k);
        }
        k = next;
    }
}

/* Nobody will take the answers of what runs. */
static void let_go(struct sr1__box *b)
{
    for (struct sr1__ask_call *c = b->asker->calls; c; c = c->next) {
        for (size_t i = 0; i < c->n; i++) {
            if (!c->asks[i] || c->asks[i]->box != b)
                continue;
            c->asks[i] = NULL;
            b->waiting--;
        }
    }
}

void sr1__box_free(struct sr1__box *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->asker->lock);
    take_back(b);
    let_go(b);
    (void)take_answers(b, NULL);
    pthread_mutex_unlock(&b->asker->lock);
    pthread_cond_destroy(&b->answered);
    sr1__free(b->asks);
    sr1__free(b);
}
