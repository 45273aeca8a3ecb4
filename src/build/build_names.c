/* SPDX-License-Identifier: BSD-3-Clause */
/* build_names.c - the names of tables on several ranks. Each has numbered those of its parts of the files. Rank 0 gets them
 * mode after mode in the order of the text, so file after file and rank after rank, numbers them as one process does,
 * and tells each rank the indices of its own. Both ways they travel in rounds of few bytes. */
#include <stdlib.h>
#include <string.h>

#include "build/build_impl.h"
#include "build/build_ranks.h"
#include "source/name_list.h"

#define ROUND_BYTES (UINT64_C(1) << 20)
#define PARTS       1024u  /* of a round */
#define ENTRIES     65536u /* of the table of what ranks have of each file */

/* A stretch of what one rank has of one file: bytes, or names. */
struct part {
    uint32_t rank;
    uint64_t n;
};

/* What all ranks have of a mode, in the order of the text. All ranks take the same parts at the same time. */
struct walk {
    struct ts_build *b;
    uint32_t mode, base, n, file,
        rank;        /* the table is of files base .. base + n - 1; the next part */
    int bytes;       /* 1: units are bytes, else names */
    uint64_t *table; /* ranks x n; what is left of each */

    /* a round */
    uint64_t unit, n_parts, own; /* bytes of a unit; units of this rank */
    struct part part[PARTS];
    uint64_t *count, *of_zero, *of_all; /* units of each rank; places for deal */
    char *send, *got;
};

static uint64_t seen(const struct walk *w, uint32_t file)
{
    uint64_t bytes;
    const uint64_t n = ts_names_seen(w->b->names, w->mode, file, &bytes);
    return w->bytes ? bytes : n;
}

static int load_table(struct walk *w, struct ts_err *err)
{
    struct ts_build *b = w->b;
    const uint32_t most = ENTRIES / b->ranks.comm->n + 1;
    uint64_t *own;
    int rc = 0;
    w->base += w->n;
    w->n = b->n_files - w->base < most ? b->n_files - w->base : most;
    w->file = w->rank = 0;
    free(w->table);
    w->table = NULL;
    own = calloc(w->n, sizeof *own);
    if (own == NULL)
        rc = ts_build_comm_no_memory(err);
    for (uint32_t f = 0; f < w->n && rc == 0; f++)
        own[f] = seen(w, w->base + f + 1) - seen(w, w->base + f);
    rc = ts_build_comm_numbers(&b->ranks, rc, own, w->n, &w->table, err);
    free(own);
    return rc;
}

/* Takes the parts of the next round. There are none at the end. */
static int fill(struct walk *w, struct ts_err *err)
{
    const uint32_t ranks = w->b->ranks.comm->n;
    uint64_t left = ROUND_BYTES / w->unit;
    int rc = 0;
    w->n_parts = 0;
    memset(w->count, 0, ranks * sizeof *w->count);
    while (left > 0 && w->n_parts < PARTS) {
        uint64_t *has, n;
        if (w->file == w->n) {
            if (w->base + w->n == w->b->n_files)
                break;
            rc = load_table(w, err);
            if (rc < 0)
                return rc;
        }
        has = &w->table[(uint64_t)w->rank * w->n + w->file];
        n = *has < left ? *has : left;
        if (n > 0)
            w->part[w->n_parts++] = (struct part){ w->rank, n };
        w->count[w->rank] += n;
        left -= n;
        *has -= n;
        if (*has > 0)
            continue;
        w->rank = w->rank + 1 < ranks ? w->rank + 1 : 0;
        w->file += w->rank == 0;
    }
    w->own = w->count[w->b->ranks.comm->rank];
    return 0;
}

/* All the parts of a round, to rank 0 or from it. Where rank r's lie in rank 0's buffer is of_all[r]. */
static int deal(struct walk *w, int rc, int to_zero, struct ts_err *err)
{
    struct ts_comm *c = w->b->ranks.comm;
    const int zero = c->rank == 0;
    rc = ts_build_comm_agree(&w->b->ranks, rc, err);
    for (uint32_t r = 0; r < c->n; r++) {
        /* one end has those of all ranks, the other one its own, of rank 0 or for it */
        w->of_zero[r + 1] = w->of_zero[r] + (r == 0 ? w->own * w->unit : 0);
        w->of_all[r + 1] = w->of_all[r] + (zero ? w->count[r] * w->unit : 0);
    }
    if (rc < 0)
        return rc;
    return to_zero ? c->ops->deal(c, w->send, w->of_zero, w->got, w->of_all, err)
                   : c->ops->deal(c, w->send, w->of_all, w->got, w->of_zero, err);
}

/* ------------------------------------------------------------------ names to rank 0, indices from it */

/* Rank 0 takes the parts that came in their order. */
static int take_names(struct walk *w, struct ts_name_list *list, struct ts_err *err)
{
    int rc = 0;
    memset(w->count, 0, w->b->ranks.comm->n * sizeof *w->count);
    for (uint64_t i = 0; i < w->n_parts && rc == 0; i++) {
        const struct part *p = &w->part[i];
        rc = ts_name_list_add(list, w->got + w->of_all[p->rank] + w->count[p->rank], p->n, err);
        w->count[p->rank] += p->n;
    }
    return rc;
}

static int send_names(struct walk *w, struct ts_name_list *list, struct ts_err *err)
{
    uint64_t at = 0, end;
    int rc = 0;
    w->bytes = 1;
    w->unit = 1;
    (void)ts_names_seen(w->b->names, w->mode, w->b->n_files, &end);
    for (;;) {
        if (rc == 0)
            rc = fill(w, err);
        if (rc == 0 && w->n_parts == 0)
            return 0;
        if (rc == 0)
            rc = ts_build_tell(w->b, "numbering names", "bytes", at, end, err);
        if (rc == 0 && w->own > 0)
            rc = ts_names_read(w->b->names, w->mode, at, w->send, w->own, err);
        rc = deal(w, rc, 1, err);
        if (rc < 0)
            return rc;
        at += w->own;
        if (list != NULL)
            rc = take_names(w, list, err);
    }
}

/* Rank 0 puts the indices of the parts where their ranks' lie. */
static int put_indices(struct walk *w, struct ts_name_list *list, struct ts_err *err)
{
    uint64_t *const out = (uint64_t *)(void *)w->send, first = 0;
    int rc = 0;
    for (uint32_t r = 0; r < w->b->ranks.comm->n; r++) { /* counts become places */
        const uint64_t n = w->count[r];
        w->count[r] = first;
        first += n;
    }
    for (uint64_t i = 0; i < w->n_parts && rc == 0; i++) {
        const struct part *p = &w->part[i];
        rc = ts_name_list_next(list, out + w->count[p->rank], p->n, err);
        w->count[p->rank] += p->n;
    }
    for (uint32_t r = w->b->ranks.comm->n; r-- > 0;) /* and counts again */
        w->count[r] -= r > 0 ? w->count[r - 1] : 0;
    return rc;
}

static int send_indices(struct walk *w, struct ts_name_list *list, struct ts_err *err)
{
    int rc = 0;
    w->bytes = 0;
    w->unit = sizeof(uint64_t);
    w->base = w->n = w->file = 0;
    for (;;) {
        if (rc == 0)
            rc = fill(w, err);
        if (rc == 0 && w->n_parts == 0)
            return 0;
        if (rc == 0 && list != NULL)
            rc = put_indices(w, list, err);
        if (rc == 0)
            rc = ts_build_check_stop(w->b, err);
        rc = deal(w, rc, 0, err);
        if (rc < 0)
            return rc;
        rc = ts_names_tell(w->b->names, w->mode, (const uint64_t *)(const void *)w->got, w->own,
                           err);
    }
}

/* ------------------------------------------------------------------ all modes */

struct labels {
    struct ts_build *b;
    uint32_t mode;
};

static int add_label(void *arg, uint32_t mode, const char *name, uint32_t n, struct ts_err *err)
{
    const struct labels *l = arg;
    (void)mode;
    return ts_build_table_add_label(l->b, l->mode, name, n, err);
}

/* One mode. *n_names is rank 0's. */
static int number_mode(struct walk *w, uint64_t *n_names, struct ts_err *err)
{
    struct ts_build *b = w->b;
    struct labels labels = { b, w->mode };
    struct ts_names_conf conf = { .sorted = b->o->sorted_names,
                                  .bytes = ts_build_table_names_bytes(b->o),
                                  .tmp = b->tmp,
                                  .stop = b->o->stop,
                                  .label = add_label,
                                  .label_arg = &labels };
    struct ts_name_list *list = NULL;
    int rc = ts_build_ranks_writes(b) ? ts_name_list_new(&conf, &list, err) : 0;
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    if (rc == 0)
        rc = send_names(w, list, err);
    if (rc == 0 && list != NULL)
        rc = ts_name_list_end(list, err);
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    if (rc == 0)
        rc = send_indices(w, list, err);
    if (list != NULL)
        *n_names = ts_name_list_count(list);
    ts_name_list_free(list);
    return rc;
}

static int new_walk(struct walk *w, struct ts_err *err)
{
    const uint64_t ranks = w->b->ranks.comm->n;
    w->count = calloc(ranks, sizeof *w->count);
    w->of_zero = calloc(2 * (ranks + 1), sizeof *w->of_zero);
    w->send = malloc(ROUND_BYTES);
    w->got = malloc(ROUND_BYTES);
    if (w->count == NULL || w->of_zero == NULL || w->send == NULL || w->got == NULL)
        return ts_build_comm_no_memory(err);
    w->of_all = w->of_zero + ranks + 1;
    return 0;
}

static void free_walk(struct walk *w)
{
    free(w->table);
    free(w->count);
    free(w->of_zero);
    free(w->send);
    free(w->got);
    free(w);
}

int ts_build_names(struct ts_build *b, int rc, struct ts_err *err)
{
    uint64_t n_names[TS_MAX_ORDER] = { 0 };
    struct walk *w = calloc(1, sizeof *w);
    if (w != NULL)
        w->b = b;
    if (rc == 0)
        rc = w == NULL ? ts_build_comm_no_memory(err) : new_walk(w, err);
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    for (uint32_t m = 0; m < b->order && rc == 0; m++)
        if (ts_table_mode_field(b->table, m) == TS_TABLE_NAME) {
            w->mode = m;
            w->base = w->n = w->file = 0;
            rc = number_mode(w, &n_names[m], err);
        }
    if (w != NULL)
        free_walk(w);
    rc = ts_build_comm_tell(&b->ranks, rc, n_names, sizeof n_names, err);
    return rc == 0 ? ts_names_told(b->names, n_names, err) : rc;
}
