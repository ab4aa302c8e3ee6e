/* tensor/model/lane_pass.c - [ids | positions | places | hidden], n each. */
#include "tensor/model/lane_pass.h"

#include "base/mem.h"

sr1_status sr1__lane_pass_init(struct sr1__lane_pass *p, sr1__device device, int64_t most)
{
    *p = (struct sr1__lane_pass){.device = device, .most = most};
    SR1__CALLOC(p->here, (size_t)(SR1__LANE_NUMBERS * most), "decoder");
    return SR1_OK;
}

void sr1__lane_pass_free(struct sr1__lane_pass *p)
{
    sr1__lane_pass_reset(p);
    sr1__free(p->here);
    p->here = NULL;
}

sr1_status sr1__lane_pass_reserve(struct sr1__lane_pass *p)
{
    sr1_scope *s;

    if (p->there)
        return SR1_OK;
    s = sr1__scope_open(p->device, "decoder");
    sr1__scope_no_grad(s);
    p->there =
        t_hold(s, t_full(s, 0.0, SR1__I64, T_SHAPE(SR1__LANE_NUMBERS * p->most + 1)));
    return sr1__scope_close(s);
}

void sr1__lane_pass_reset(struct sr1__lane_pass *p)
{
    sr1__tensor_free(p->there);
    p->there = NULL;
}

int64_t *sr1__lane_numbers(const struct sr1__lane_pass *p, int kind, int64_t n)
{
    return p->here + kind * n;
}

sr1_status sr1__lane_upload(struct sr1__lane_pass *p, int64_t n)
{
    sr1_scope *s = sr1__scope_open(p->device, "decode");

    sr1__scope_inference(s);
    t_upload_i64(s, t_narrow(s, p->there, 0, 0, SR1__LANE_NUMBERS * n), p->here);
    return sr1__scope_close(s);
}

void sr1__lane_views(sr1_scope *s, const struct sr1__lane_pass *p, int64_t n,
                     sr1_tensor **views)
{
    for (int i = 0; i < SR1__LANE_NUMBERS; i++)
        views[i] = t_narrow(s, p->there, 0, i * n, n);
}

int64_t sr1__lane_nobody(const struct sr1__lane_pass *p)
{
    return SR1__LANE_NUMBERS * p->most;
}
