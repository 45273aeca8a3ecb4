/* SPDX-License-Identifier: BSD-3-Clause */
/* build_names.c - numbers the names of tables on several ranks. Each rank has listed the names in
 * its parts of the files. Modes of names are handled in waves, each of as many modes as there are
 * ranks. One rank is the *owner* of each mode of a wave. The owner receives all names of its mode
 * in the order of the text (file after file, rank after rank). It numbers them as one process does,
 * and writes them as labels. Then it sends each rank the indices of the names that it got from that
 * rank. Names and indices of all modes of a wave are sent together, in rounds of at most
 * ROUND_BYTES. */
#include <stdlib.h>
#include <string.h>

#include "build/build_steps.h"
#include "build/ranks/build_ranks.h"
#include "source/names/name_list.h"

#define MODE_BYTES  (UINT64_C(1) << 20) /* most bytes of names or indices of one mode in a round */
#define ROUND_BYTES (UINT64_C(2) << 20) /* most bytes of names or indices of all modes in a round */
#define PARTS       1024u               /* most entries of struct walk.part in a round */
/* most entries of the tables of a wave, which say how much each rank has of each file */
#define ENTRIES 65536u

/* The names of one mode that one rank has from one file, as far as a round sends them: n bytes of
 * names, or n indices of names. */
struct part {
    uint32_t rank;
    uint64_t n;
};

/* How far the names of one mode have been sent, in the order of the text: file after file, and rank
 * after rank in each file. All ranks have the same copy, so they find the same parts for each
 * round. */
struct walk {
    /* `table` is about files base .. base + n - 1. The next names to be sent are those of `rank`
     * from file base + `file`. */
    uint32_t mode, base, n, file, rank;
    uint64_t *table; /* bytes of names, or indices, still to be sent: for each rank and file */
    uint64_t at;     /* bytes of this rank's names that were sent */

    /* members about the current round */
    uint64_t n_parts, own; /* number of parts; bytes or indices that this rank sends or gets */
    uint64_t *count;       /* for each rank, bytes or indices in this round */
    struct part part[PARTS];
};

struct wave {
    struct ts_build *b;
    uint32_t n; /* number of modes; rank r owns the mode of walk[r] */
    struct walk *walk;
    /* 1: names are sent, and a unit is a byte; 0: indices are sent, and a unit is 8 bytes */
    int bytes;
    uint64_t unit; /* 1 for a byte of names, 8 for an index */
    /* Offsets in bytes, for `deal` of struct ts_comm. of_owners: where the data from or for each
     * owner is in `own`. of_all: where the data from or for each rank is in `all`. count: memory
     * for walk[].count. */
    uint64_t *count, *of_owners, *of_all;
    /* buffers: own: data between this rank and all owners; all: data between this rank, as an
     * owner, and all ranks */
    char *own, *all;
};

/* Returns the entry of v->walk for the mode that this rank owns, or NULL if it owns none. */
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

/* Chooses the parts of a mode's names that the next round sends. w->n_parts is 0 after the last
 * round. */
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

/* Chooses the parts of all modes' names that the next round sends, and sets the offsets of their
 * bytes. *more: whether any mode has a part. */
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

/* Exchanges the data of a round. to_owners 1: names go to the owners; 0: indices come from them. */
static int deal(struct wave *v, int rc, int to_owners, struct ts_err *err)
{
    struct ts_build_comm *ranks = &v->b->ranks;
    rc = ts_build_comm_agree(ranks, rc, err);
    if (rc < 0)
        return rc;
    return to_owners ? ts_build_comm_deal(ranks, v->own, v->of_owners, v->all, v->of_all, err)
                     : ts_build_comm_deal(ranks, v->all, v->of_all, v->own, v->of_owners, err);
}

/* Returns the address of part i in `all`. The parts of a rank follow one another. w->count[rank]
 * is the number of its bytes or indices before part i, and then includes part i. */
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

/* ------------------------------------------------------------------ names and indices */

/* Adds the names of a round to the owner's list, in the order of the text. */
static int take_names(const struct wave *v, struct ts_name_list *list, struct ts_err *err)
{
    struct walk *w = owned(v);
    int rc = 0;
    first_part(v, w);
    for (uint64_t i = 0; i < w->n_parts && rc == 0; i++)
        rc = ts_name_list_add(list, next_part(v, w, i), w->part[i].n, err);
    return rc;
}

/* Copies the names that this rank sends in this round, for each owner, to v->own. */
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

/* Writes the indices that this rank, as an owner, sends to each rank in this round to v->all. */
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

/* ------------------------------------------------------------------ the modes of a wave */

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

/* Counts of a mode that its owner sends to all ranks: number of names, and number, bytes and hash
 * of the labels. Ranks that do not own the mode have 0 there before. */
enum { NAMES, LABELS, BYTES, HASH, N_TOLD };
struct told {
    uint64_t of[N_TOLD][TS_MAX_ORDER];
};

/* Completes the file of labels of the mode that this rank owns, after all its names have an index.
 * Sets the counts of the mode in *told. */
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

/* ------------------------------------------------------------------ all waves */

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

/* Makes the next wave: the modes of names from mode *m on, at most as many as there are ranks. */
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
    for (uint32_t i = 0; i < N_TOLD; i++) /* a sum, since only the owner of a mode has a count */
        rc = ts_build_comm_join(&b->ranks, rc, TS_JOIN_SUM, told.of[i], b->order, err);
    for (m = 0; m < b->order && rc == 0; m++) {
        b->mode[m].n_labels = told.of[LABELS][m];
        b->mode[m].labels_bytes = told.of[BYTES][m];
        b->mode[m].labels_hash = told.of[HASH][m];
    }
    return rc == 0 ? ts_names_told(b->names, told.of[NAMES], err) : rc;
}
