/* SPDX-License-Identifier: BSD-3-Clause */
/* build_names.c - the names of tables on several ranks. Each has numbered those of its parts of the
 * files. Modes go in waves of as many as there are ranks, each mode to a rank of its own, its
 * *owner*: that gets the names in the order of the text, so file after file and rank after rank,
 * numbers them as one process does, writes them, and tells each rank the indices of its own. Both
 * ways those of all modes of a wave travel together, in rounds of few bytes. */
#include <stdlib.h>
#include <string.h>

#include "build/build_steps.h"
#include "build/ranks/build_ranks.h"
#include "source/names/name_list.h"

#define MODE_BYTES  (UINT64_C(1) << 20) /* of a mode in a round, */
#define ROUND_BYTES (UINT64_C(2) << 20) /* and of all modes */
#define PARTS       1024u               /* of a mode in a round */
#define ENTRIES     65536u              /* of the tables of what ranks have of each file */

/* A stretch of what one rank has of one file: bytes, or names. */
struct part {
    uint32_t rank;
    uint64_t n;
};

/* What all ranks have of a mode, in the order of the text. All ranks take the same parts at the
 * same time. */
struct walk {
    /* the table is of files base .. base + n - 1; the next part */
    uint32_t mode, base, n, file, rank;
    uint64_t *table; /* ranks x n; what is left of each */
    uint64_t at;     /* names of this rank that went: bytes */

    /* a round */
    uint64_t n_parts, own; /* own: units of this rank */
    uint64_t *count;       /* units of each rank */
    struct part part[PARTS];
};

struct wave {
    struct ts_build *b;
    uint32_t n; /* modes; walk[r] is rank r's */
    struct walk *walk;
    int bytes;     /* 1: units are bytes, else names, */
    uint64_t unit; /* of so many bytes */
    /* of_all: places for deal: of what goes to each owner or comes from it, of what an owner has */
    uint64_t *count, *of_owners, *of_all;
    /* of this rank, for or from all owners; of all ranks, for or from this owner */
    char *own, *all;
};

/* What this rank owns; NULL: nothing. */
static struct walk *owned(const struct wave *v)
{
    const uint32_t rank = v->b->ranks.comm->rank;
    return rank < v->n ? &v->walk[rank] : NULL;
}

static uint64_t seen(const struct wave *v, const struct walk *w, uint32_t file)
{
    uint64_t bytes;
    const uint64_t n = ts_names_seen(v->b->names, w->mode, file, &bytes);
    return v->bytes ? bytes : n;
}

static int load_table(const struct wave *v, struct walk *w, struct ts_err *err)
{
    struct ts_build *b = v->b;
    const uint32_t most = ENTRIES / v->n / b->ranks.comm->n + 1;
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
        own[f] = seen(v, w, w->base + f + 1) - seen(v, w, w->base + f);
    rc = ts_build_comm_numbers(&b->ranks, rc, own, w->n, &w->table, err);
    free(own);
    return rc;
}

/* Takes the parts of a mode's next round. There are none at the end. */
static int fill(const struct wave *v, struct walk *w, struct ts_err *err)
{
    const uint32_t ranks = v->b->ranks.comm->n;
    const uint64_t share = ROUND_BYTES / v->n;
    uint64_t left = (share < MODE_BYTES ? share : MODE_BYTES) / v->unit;
    int rc = 0;
    w->n_parts = 0;
    memset(w->count, 0, ranks * sizeof *w->count);
    while (left > 0 && w->n_parts < PARTS) {
        uint64_t *has, n;
        if (w->file == w->n) {
            if (w->base + w->n == v->b->n_files)
                break;
            rc = load_table(v, w, err);
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
    w->own = w->count[v->b->ranks.comm->rank];
    return 0;
}

/* The next round, and where its bytes lie. *more: there are some. */
static int fill_all(struct wave *v, int *more, struct ts_err *err)
{
    const struct walk *o = owned(v);
    int rc = 0;
    *more = 0;
    for (uint32_t i = 0; i < v->n && rc == 0; i++) {
        rc = fill(v, &v->walk[i], err);
        *more |= rc == 0 && v->walk[i].n_parts > 0;
    }
    for (uint32_t r = 0; r < v->b->ranks.comm->n && rc == 0; r++) {
        v->of_owners[r + 1] = v->of_owners[r] + (r < v->n ? v->walk[r].own * v->unit : 0);
        v->of_all[r + 1] = v->of_all[r] + (o != NULL ? o->count[r] * v->unit : 0);
    }
    return rc;
}

static void start(struct wave *v, int bytes)
{
    v->bytes = bytes;
    v->unit = bytes ? 1 : sizeof(uint64_t);
    for (uint32_t i = 0; i < v->n; i++) {
        struct walk *w = &v->walk[i];
        w->base = w->n = w->file = 0;
    }
}

/* All the parts of a round, to their owners or from them. */
static int deal(struct wave *v, int rc, int to_owners, struct ts_err *err)
{
    struct ts_build_comm *ranks = &v->b->ranks;
    rc = ts_build_comm_agree(ranks, rc, err);
    if (rc < 0)
        return rc;
    return to_owners ? ts_build_comm_deal(ranks, v->own, v->of_owners, v->all, v->of_all, err)
                     : ts_build_comm_deal(ranks, v->all, v->of_all, v->own, v->of_owners, err);
}

/* Where an owner has part i. Those of a rank lie one behind the other: the walk counts again. */
static char *next_part(const struct wave *v, struct walk *w, uint64_t i)
{
    const struct part *p = &w->part[i];
    char *at = v->all + v->of_all[p->rank] + w->count[p->rank] * v->unit;
    w->count[p->rank] += p->n;
    return at;
}

static void first_part(const struct wave *v, struct walk *w)
{
    memset(w->count, 0, v->b->ranks.comm->n * sizeof *w->count);
}

/* ------------------------------------------------------------------ names to owners, indices from
 * them */

/* Takes the parts that came in their order. */
static int take_names(const struct wave *v, struct ts_name_list *list, struct ts_err *err)
{
    struct walk *w = owned(v);
    int rc = 0;
    first_part(v, w);
    for (uint64_t i = 0; i < w->n_parts && rc == 0; i++)
        rc = ts_name_list_add(list, next_part(v, w, i), w->part[i].n, err);
    return rc;
}

/* This rank's, for each owner. */
static int read_names(struct wave *v, uint64_t end, struct ts_err *err)
{
    uint64_t at = 0;
    int rc = 0;
    for (uint32_t i = 0; i < v->n; i++)
        at += v->walk[i].at;
    rc = ts_build_tell(v->b, "numbering names", "bytes", at, end, err);
    for (uint32_t i = 0; i < v->n && rc == 0; i++) {
        struct walk *w = &v->walk[i];
        if (w->own > 0)
            rc = ts_names_read(v->b->names, w->mode, w->at, v->own + v->of_owners[i], w->own, err);
        w->at += w->own;
    }
    return rc;
}

static int send_names(struct wave *v, struct ts_name_list *list, struct ts_err *err)
{
    uint64_t end = 0;
    int rc = 0, more = 1;
    start(v, 1);
    for (uint32_t i = 0; i < v->n; i++)
        end += seen(v, &v->walk[i], v->b->n_files);
    for (;;) {
        if (rc == 0)
            rc = fill_all(v, &more, err);
        if (rc == 0 && !more)
            return 0;
        if (rc == 0)
            rc = read_names(v, end, err);
        rc = deal(v, rc, 1, err);
        if (rc < 0)
            return rc;
        if (list != NULL)
            rc = take_names(v, list, err);
    }
}

/* Puts the indices of the parts where their ranks' lie. */
static int put_indices(const struct wave *v, struct ts_name_list *list, struct ts_err *err)
{
    struct walk *w = owned(v);
    int rc = 0;
    first_part(v, w);
    for (uint64_t i = 0; i < w->n_parts && rc == 0; i++)
        rc = ts_name_list_next(list, (uint64_t *)(void *)next_part(v, w, i), w->part[i].n, err);
    return rc;
}

static int send_indices(struct wave *v, struct ts_name_list *list, struct ts_err *err)
{
    int rc = 0, more = 1;
    start(v, 0);
    for (;;) {
        if (rc == 0)
            rc = fill_all(v, &more, err);
        if (rc == 0 && !more)
            return 0;
        if (rc == 0 && list != NULL)
            rc = put_indices(v, list, err);
        if (rc == 0)
            rc = ts_build_check_stop(v->b, err);
        rc = deal(v, rc, 0, err);
        if (rc < 0)
            return rc;
        for (uint32_t i = 0; i < v->n && rc == 0; i++) {
            const uint64_t *index = (const uint64_t *)(const void *)(v->own + v->of_owners[i]);
            rc = ts_names_tell(v->b->names, v->walk[i].mode, index, v->walk[i].own, err);
        }
    }
}

/* ------------------------------------------------------------------ a wave */

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

/* What owners tell of their modes; of all others 0. */
enum { NAMES, LABELS, BYTES, HASH, N_TOLD };
struct told {
    uint64_t of[N_TOLD][TS_MAX_ORDER];
};

/* All names have their indices: the owner's file is complete. */
static int end_owned(const struct wave *v, struct ts_name_list *list, struct told *told,
                     struct ts_err *err)
{
    const uint32_t m = owned(v)->mode;
    const struct ts_disk_mode *disk = &v->b->mode[m];
    const int rc = ts_build_table_end_names(v->b, m, err);
    told->of[NAMES][m] = ts_name_list_count(list);
    told->of[LABELS][m] = disk->n_labels;
    told->of[BYTES][m] = disk->labels_bytes;
    told->of[HASH][m] = disk->labels_hash;
    return rc;
}

static int number_wave(struct wave *v, struct told *told, struct ts_err *err)
{
    struct ts_build *b = v->b;
    const struct walk *o = owned(v);
    struct labels labels = { b, o == NULL ? 0 : o->mode };
    struct ts_names_conf conf = { .sorted = b->o->sorted_names,
                                  .bytes = ts_build_table_names_bytes(b->o),
                                  .tmp = b->tmp,
                                  .stop = b->o->stop,
                                  .label = add_label,
                                  .label_arg = &labels };
    struct ts_name_list *list = NULL;
    int rc = o != NULL ? ts_name_list_new(&conf, &list, err) : 0;
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    if (rc == 0)
        rc = send_names(v, list, err);
    if (rc == 0 && list != NULL)
        rc = ts_name_list_end(list, err);
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    if (rc == 0)
        rc = send_indices(v, list, err);
    if (rc == 0 && list != NULL)
        rc = end_owned(v, list, told, err);
    ts_name_list_free(list);
    return rc;
}

/* ------------------------------------------------------------------ all modes */

static int new_wave(struct wave *v, struct ts_err *err)
{
    const uint64_t ranks = v->b->ranks.comm->n;
    const uint64_t most = ranks < TS_MAX_ORDER ? ranks : TS_MAX_ORDER;
    v->walk = calloc(most, sizeof *v->walk);
    v->count = calloc(most * ranks + 2 * (ranks + 1), sizeof *v->count);
    v->own = malloc(ROUND_BYTES);
    v->all = malloc(MODE_BYTES);
    if (v->walk == NULL || v->count == NULL || v->own == NULL || v->all == NULL)
        return ts_build_comm_no_memory(err);
    v->of_owners = v->count + most * ranks;
    v->of_all = v->of_owners + ranks + 1;
    return 0;
}

static void free_wave(struct wave *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        free(v->walk[i].table);
    free(v->walk);
    free(v->count);
    free(v->own);
    free(v->all);
}

/* The modes of names from *m on, as many as there are ranks. */
static void next_wave(struct wave *v, uint32_t *m)
{
    const uint32_t ranks = v->b->ranks.comm->n;
    for (uint32_t i = 0; i < v->n; i++)
        free(v->walk[i].table);
    for (v->n = 0; *m < v->b->order && v->n < ranks; ++*m)
        if (ts_table_mode_field(v->b->table, *m) == TS_TABLE_NAME) {
            v->walk[v->n] = (struct walk){ .mode = *m, .count = v->count + (uint64_t)v->n * ranks };
            v->n++;
        }
}

int ts_build_names(struct ts_build *b, int rc, struct ts_err *err)
{
    struct told told = { { { 0 } } };
    struct wave v = { .b = b };
    uint32_t m = 0;
    if (rc == 0)
        rc = new_wave(&v, err);
    rc = ts_build_comm_agree(&b->ranks, rc, err);
    while (rc == 0 && m < b->order) {
        next_wave(&v, &m);
        if (v.n > 0)
            rc = number_wave(&v, &told, err);
    }
    free_wave(&v);
    for (uint32_t i = 0; i < N_TOLD; i++) /* all but one are 0 */
        rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_SUM, told.of[i], b->order, err);
    for (m = 0; m < b->order && rc == 0; m++) {
        b->mode[m].n_labels = told.of[LABELS][m];
        b->mode[m].labels_bytes = told.of[BYTES][m];
        b->mode[m].labels_hash = told.of[HASH][m];
    }
    return rc == 0 ? ts_names_told(b->names, told.of[NAMES], err) : rc;
}
