/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the state of a run from a file, and checks every size and checksum. */
#include "cpd/state/state_sections.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/rng.h"
#include "cpd/state/run_options.h"
#include "model/model_read.h" /* TS_MAX_RANK */
#include "format/file_read.h"

struct ts_state_file {
    struct ts_state state;
    char *path;
    int fd;
    uint64_t bytes, sign;
    uint64_t fixed_at[TS_SECTIONS_NAMED], factor_at[TS_MAX_ORDER], before_at[TS_MAX_ORDER],
        moment_at[TS_MOMENTS_MOST][TS_MAX_ORDER]; /* file positions; 0: the section is missing */
};

static int bad(const struct ts_state_file *f, const char *what, struct ts_err *err)
{
    return ts_fail(err, TS_EFORMAT, "%s: %s (the file is damaged)", f->path, what);
}

/* Checks magic, version and size of a file, and so whether it is a whole state. The checksum is
 * tested later. */
static int check_head(const struct ts_state_file *f, const struct ts_disk_state *h,
                      struct ts_err *err)
{
    if (memcmp(h->magic, TS_STATE_MAGIC, sizeof h->magic) != 0)
        return ts_fail(err, TS_EFORMAT, "%s: byte 0: not the state of a run", f->path);
    if (h->version != TS_STATE_VERSION)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte 8: format version %" PRIu32 ", but this program reads version %u",
                       f->path, h->version, TS_STATE_VERSION);
    if (h->file_bytes != f->bytes)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the file has %" PRIu64 " bytes, expected %" PRIu64
                       " (it was cut short, or damaged)",
                       f->path, f->bytes, h->file_bytes);
    if (h->n_sections < TS_SECTIONS_FIXED || h->n_sections > TS_SECTIONS_MOST ||
        f->bytes < sizeof *h + h->n_sections * sizeof(struct ts_disk_section) + 8)
        return bad(f, "a number of sections that is not possible", err);
    return 0;
}

/* Whether the flags are a combination that a program writes. */
static int flags_fit(const struct ts_disk_state *h)
{
    const uint32_t known = TS_STATE_ENDED | TS_STATE_WIDE | TS_STATE_EXACT | TS_STATE_FIT;
    if ((h->flags & TS_STATE_FIT) != 0 &&
        (h->mode + 1 != h->order || (h->flags & TS_STATE_ENDED) != 0))
        return 0;
    return (h->flags & ~known) == 0;
}

static int take_head(struct ts_state_file *f, const struct ts_disk_state *h, struct ts_err *err)
{
    struct ts_state *s = &f->state;
    if (h->order < TS_MIN_ORDER || h->order > TS_MAX_ORDER || h->rank == 0 ||
        h->rank > TS_MAX_RANK || h->precision > TS_FLOAT64 || h->sweep == 0 ||
        h->mode >= h->order || !flags_fit(h))
        return bad(f, "a header that is not possible", err);
    s->serial = h->serial;
    s->tensor_hash = h->tensor_hash;
    s->nnz = h->nnz;
    s->saved_s = h->saved_s;
    s->run_ns = h->run_ns;
    s->order = h->order;
    s->rank = h->rank;
    s->sweep = h->sweep;
    s->mode = h->mode;
    s->precision = (enum ts_precision)h->precision;
    s->flags = h->flags;
    return 0;
}

/* Returns the section with this name, and sets *mode to the mode in the name. -1: the name is
 * unknown, so a later program wrote it. */
static int find_section(const char *name, uint32_t order, uint32_t *mode)
{
    char want[16];
    for (uint32_t i = 0; i < TS_SECTIONS_NAMED; i++)
        if (strncmp(name, ts_state_sections_name[i], 16) == 0)
            return (int)i;
    for (*mode = 0; *mode < order; (*mode)++)
        for (int what = TS_SECTION_FACTOR; what <= TS_SECTION_LAST; what++) {
            ts_state_sections_factor((enum ts_section)what, *mode, want);
            if (strncmp(name, want, sizeof want) == 0)
                return what;
        }
    return -1;
}

/* Records the positions of the sections. check_sizes checks the sizes that depend on other
 * sections. */
static int place_sections(struct ts_state_file *f, const struct ts_disk_section *section,
                          uint32_t n, struct ts_err *err)
{
    uint64_t at = sizeof(struct ts_disk_state) + n * sizeof *section + 8;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t mode = 0;
        const int what = find_section(section[i].name, f->state.order, &mode);
        uint64_t *place;
        if (what < 0)
            return ts_fail(
                err, TS_EFORMAT,
                "%s: has a section \"%.16s\", which this program does not know: a newer one "
                "wrote it",
                f->path, section[i].name);
        place = what == TS_SECTION_FACTOR   ? &f->factor_at[mode]
                : what == TS_SECTION_BEFORE ? &f->before_at[mode]
                : what >= TS_SECTION_MOMENT ? &f->moment_at[what - TS_SECTION_MOMENT][mode]
                                            : &f->fixed_at[what];
        if (*place != 0 || section[i].bytes > f->bytes ||
            ts_state_sections_padded(section[i].bytes) + 8 > f->bytes - at)
            return bad(f, "a section that is not possible", err);
        if (what == TS_SECTION_CONSTRAINTS)
            f->state.constrained = 1;
        if (what == TS_SECTION_ACCELERATE)
            f->state.accelerated = 1;
        if (what == TS_SECTION_FIGURES)
            f->state.figured = 1;
        if (what == TS_SECTION_OPTIONS)
            f->state.options_bytes = section[i].bytes;
        *place = at;
        at += ts_state_sections_padded(section[i].bytes) + 8;
    }
    return at == f->bytes ? 0 : bad(f, "bytes behind the last section", err);
}

/* Checks that all required sections exist, and that their sizes agree. */
static int check_sizes(struct ts_state_file *f, const struct ts_disk_section *section, uint32_t n,
                       struct ts_err *err)
{
    struct ts_state *s = &f->state;
    const uint32_t stays = ts_spec_stays(&s->spec, s->order);
    for (uint32_t i = 0; i < TS_SECTIONS_FIXED; i++)
        if (f->fixed_at[i] == 0)
            return bad(f, "a section is missing", err);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t mode = 0;
        const int what = find_section(section[i].name, s->order, &mode);
        if (section[i].bytes != ts_state_sections_bytes(s, (enum ts_section)what, mode))
            return bad(f, "a section of a size that is not possible", err);
    }
    for (uint32_t m = 0; m < s->order; m++) {
        s->factors |= (uint32_t)(f->factor_at[m] != 0) << m;
        s->kept |= (uint32_t)(f->before_at[m] != 0) << m;
        if (f->factor_at[m] == 0 &&
            ((s->flags & TS_STATE_ENDED) != 0 || m != s->mode || (stays >> m & 1) != 0))
            return bad(f, "a factor is missing", err);
        for (uint32_t i = 0; i < TS_MOMENTS_MOST; i++)
            if ((f->moment_at[i][m] != 0) != ts_spec_has_moment(&s->spec, i))
                return bad(f, "a section is missing", err);
    }
    if ((f->fixed_at[TS_SECTION_BEST] != 0) != (s->spec.best != 0) ||
        (s->kept != 0 && !s->accelerated))
        return bad(f, "a section is missing", err);
    return s->options_bytes <= TS_STATE_MAX_OPTIONS ? 0 : bad(f, "too many options", err);
}

/* Checks that the checksum of `bytes` bytes from `at` on follows them. */
static int check_hash(struct ts_state_file *f, uint64_t at, uint64_t bytes, XXH3_state_t *hash,
                      char *piece, struct ts_err *err)
{
    uint64_t stored, found;
    int rc = 0;
    XXH3_64bits_reset(hash);
    for (uint64_t done = 0; done < bytes && rc == 0;) {
        const size_t want = bytes - done < TS_STATE_PIECE ? (size_t)(bytes - done) : TS_STATE_PIECE;
        rc = ts_file_read_at(f->fd, f->path, at + done, want, piece, err);
        if (rc == 0)
            XXH3_64bits_update(hash, piece, want);
        done += want;
    }
    if (rc == 0)
        rc = ts_file_read_at(f->fd, f->path, at + bytes, sizeof stored, &stored, err);
    if (rc < 0)
        return rc;
    found = XXH3_64bits_digest(hash);
    if (found != stored)
        return ts_fail(err, TS_EFORMAT,
                       "%s: byte %" PRIu64 ": the checksum is %016" PRIx64 ", expected %016" PRIx64
                       " (the file is damaged)",
                       f->path, at, found, stored);
    f->sign = ts_mix(f->sign ^ found);
    return 0;
}

static int may_be_constraint(const struct ts_disk_constraint *d)
{
    const int loss = (int)(d->demands / TS_DEMAND_LOSS % 16);
    return (loss == TS_GCP_NONE || ts_loss_of(loss) != NULL) && d->demands < TS_DEMAND_END &&
           isfinite(d->loss_at) && d->fixed <= 1 && isfinite(d->size);
}

/* Reads the settings of the whole run, which the constraints of every mode repeat. */
static void take_run(const struct ts_disk_constraint *d, struct ts_spec *ret)
{
    ret->poisson = (d->demands & TS_DEMAND_POISSON) != 0;
    ret->observed = (d->demands & TS_DEMAND_OBSERVED) != 0;
    ret->by_count = (d->demands & TS_DEMAND_BY_COUNT) != 0;
    ret->loss = (int)(d->demands / TS_DEMAND_LOSS % 16);
    ret->loss_at = d->loss_at;
    ret->lbfgsb = (d->demands & TS_DEMAND_LBFGSB) != 0;
    ret->held = (d->demands & TS_DEMAND_HELD) != 0;
    ret->best = (d->demands & TS_DEMAND_BEST) != 0;
    ret->mean = (d->demands & TS_DEMAND_MEAN) != 0;
}

static struct ts_constraint mode_constraint(const struct ts_disk_constraint *d)
{
    return (struct ts_constraint){ .nonneg = (d->demands & TS_DEMAND_NONNEG) != 0,
                                   .simplex = (d->demands & TS_DEMAND_SIMPLEX) != 0,
                                   .orthogonal = (d->demands & TS_DEMAND_ORTHOGONAL) != 0,
                                   .bounded = (d->demands & TS_DEMAND_BOUNDS) != 0,
                                   .smooth = (d->demands & TS_DEMAND_SMOOTH) != 0 ? d->smooth : 0,
                                   .fixed = (int)d->fixed,
                                   .l1 = d->l1,
                                   .l2 = d->l2,
                                   .lower = d->lower,
                                   .upper = d->upper };
}

static int read_constraints(struct ts_state_file *f, struct ts_err *err)
{
    struct ts_disk_constraint disk[TS_MAX_ORDER];
    struct ts_state *s = &f->state;
    int same = 1;
    const int rc =
        ts_file_read_at(f->fd, f->path, f->fixed_at[TS_SECTION_CONSTRAINTS],
                        ts_state_sections_bytes(s, TS_SECTION_CONSTRAINTS, 0), disk, err);
    if (rc < 0)
        return rc;
    for (uint32_t m = 0; m < s->order; m++) {
        if (!may_be_constraint(&disk[m]))
            return bad(f, "a constraint that is not possible", err);
        same &= ((disk[m].demands ^ disk[0].demands) & TS_DEMANDS_OF_RUN) == 0 &&
                disk[m].loss_at == disk[0].loss_at;
        s->spec.mode[m] = mode_constraint(&disk[m]);
        s->size[m] = disk[m].size;
    }
    take_run(&disk[0], &s->spec);
    return same && ts_spec_check(&s->spec, s->order, NULL) == 0
               ? 0
               : bad(f, "constraints that are not possible", err);
}

static int read_sections(struct ts_state_file *f, uint32_t n, XXH3_state_t *hash, char *piece,
                         struct ts_err *err)
{
    struct ts_disk_section section[TS_SECTIONS_MOST];
    struct ts_state *s = &f->state;
    uint64_t shape[2 * TS_MAX_ORDER];
    uint64_t at = sizeof(struct ts_disk_state);
    int rc = ts_file_read_at(f->fd, f->path, at, n * sizeof *section, section, err);
    if (rc == 0)
        rc = place_sections(f, section, n, err);
    if (rc < 0)
        return rc;
    at += n * sizeof *section + 8;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = check_hash(f, at, ts_state_sections_padded(section[i].bytes), hash, piece, err);
        at += ts_state_sections_padded(section[i].bytes) + 8;
    }
    if (rc == 0 && f->fixed_at[TS_SECTION_SHAPE] == 0)
        rc = bad(f, "a section is missing", err);
    if (rc == 0)
        rc = ts_file_read_at(f->fd, f->path, f->fixed_at[TS_SECTION_SHAPE],
                             ts_state_sections_bytes(s, TS_SECTION_SHAPE, 0), shape, err);
    for (uint32_t m = 0; m < s->order && rc == 0; m++) {
        s->dim[m] = shape[2 * m];
        s->n_rows[m] = shape[2 * m + 1];
        if (s->dim[m] > TS_MAX_DIM || s->n_rows[m] > s->dim[m] || s->n_rows[m] > UINT32_MAX)
            rc = bad(f, "a shape that is not possible", err);
    }
    for (uint32_t i = 0; i < n && rc == 0 && s->constrained; i++)
        if (strncmp(section[i].name, ts_state_sections_name[TS_SECTION_CONSTRAINTS], 16) == 0 &&
            section[i].bytes != ts_state_sections_bytes(s, TS_SECTION_CONSTRAINTS, 0))
            rc = bad(f, "a section of a size that is not possible", err);
    if (rc == 0 && s->constrained)
        rc = read_constraints(f, err);
    if (rc == 0 && s->precision != TS_FLOAT32 && (s->flags & TS_STATE_FIT) != 0 &&
        !s->spec.observed && !s->spec.held && ts_spec_moments(&s->spec) == 0)
        rc = bad(f, "a header that is not possible", err);
    return rc == 0 ? check_sizes(f, section, n, err) : rc;
}

static int read_pace(struct ts_state_file *f, struct ts_err *err)
{
    struct ts_state *s = &f->state;
    const struct ts_disk_accelerate *p = &s->pace;
    const uint64_t at = f->fixed_at[TS_SECTION_ACCELERATE],
                   bytes = ts_state_sections_bytes(s, TS_SECTION_ACCELERATE, 0);
    int rc = ts_file_read_at(f->fd, f->path, at, sizeof s->pace, &s->pace, err);
    s->before = malloc(bytes);
    if (s->before == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", f->path);
    if (rc == 0)
        rc = ts_file_read_at(f->fd, f->path, at + sizeof s->pace, bytes - sizeof s->pace, s->before,
                             err);
    if (rc == 0 && (!(p->step == -1 || (p->step >= 0 && p->step < 1)) || !isfinite(p->best) ||
                    !(p->gain[0] >= 0) || !(p->gain[1] >= 0) || p->taken > 1))
        rc = bad(f, "an acceleration that is not possible", err);
    return rc;
}

static int read_best(struct ts_state_file *f, struct ts_err *err)
{
    struct ts_state *s = &f->state;
    const uint64_t bytes = ts_state_sections_bytes(s, TS_SECTION_BEST, 0);
    int rc;
    s->best = malloc(bytes);
    rc = s->best == NULL
             ? ts_fail(err, TS_ENOMEM, "%s: out of memory", f->path)
             : ts_file_read_at(f->fd, f->path, f->fixed_at[TS_SECTION_BEST], bytes, s->best, err);
    if (rc == 0 && !(s->best[0] >= 0 && s->best[0] < s->sweep))
        rc = bad(f, "a best sweep that is not possible", err);
    for (uint64_t i = TS_BEST_NUMBERS; i < bytes / sizeof *s->best && rc == 0; i++)
        if (!isfinite(s->best[i]))
            rc = bad(f, "a best sweep that is not possible", err);
    return rc;
}

static int read_figures(struct ts_state_file *f, struct ts_err *err)
{
    struct ts_state *s = &f->state;
    const uint64_t bytes = ts_state_sections_bytes(s, TS_SECTION_FIGURES, 0);
    int rc;
    s->figures = malloc(bytes + 1);
    rc = s->figures == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", f->path)
                            : ts_file_read_at(f->fd, f->path, f->fixed_at[TS_SECTION_FIGURES],
                                              bytes, s->figures, err);
    for (uint32_t i = 0; i + 1 < s->sweep && rc == 0; i++)
        if (s->figures[i].n_dead > s->rank)
            rc = bad(f, "figures of a sweep that are not possible", err);
    return rc;
}

/* Reads everything but the factors into memory. Sizes were checked against the size of the file. */
static int read_fixed(struct ts_state_file *f, struct ts_err *err)
{
    struct ts_state *s = &f->state;
    void *to[TS_SECTIONS_FIXED] = { NULL };
    int rc = 0;
    to[TS_SECTION_GRAM] = s->gram = malloc(ts_state_sections_bytes(s, TS_SECTION_GRAM, 0));
    to[TS_SECTION_LAMBDA] = s->lambda = malloc(ts_state_sections_bytes(s, TS_SECTION_LAMBDA, 0));
    to[TS_SECTION_SWEEP] = s->part;
    to[TS_SECTION_PAST] = s->past = malloc(ts_state_sections_bytes(s, TS_SECTION_PAST, 0) + 1);
    to[TS_SECTION_OPTIONS] = s->options = calloc(1, s->options_bytes + 1);
    for (uint32_t i = TS_SECTION_GRAM; i < TS_SECTIONS_FIXED && rc == 0; i++)
        rc = to[i] == NULL
                 ? ts_fail(err, TS_ENOMEM, "%s: out of memory", f->path)
                 : ts_file_read_at(f->fd, f->path, f->fixed_at[i],
                                   ts_state_sections_bytes(s, (enum ts_section)i, 0), to[i], err);
    if (rc == 0 && s->accelerated)
        rc = read_pace(f, err);
    if (rc == 0 && s->spec.best)
        rc = read_best(f, err);
    if (rc == 0 && s->figured)
        rc = read_figures(f, err);
    if (rc == 0 && s->options_bytes > 0 && s->options[s->options_bytes - 1] != '\0')
        rc = bad(f, "options that do not end", err);
    return rc;
}

static int read_all(struct ts_state_file *f, struct ts_err *err)
{
    XXH3_state_t *hash = XXH3_createState();
    char *piece = malloc(TS_STATE_PIECE);
    struct ts_disk_state h;
    int rc = hash == NULL || piece == NULL ? ts_fail(err, TS_ENOMEM, "%s: out of memory", f->path)
                                           : ts_file_read_size(f->fd, f->path, &f->bytes, err);
    if (rc == 0 && f->bytes < sizeof h)
        rc = ts_fail(err, TS_EFORMAT, "%s: %" PRIu64 " bytes are too short for the state of a run",
                     f->path, f->bytes);
    if (rc == 0)
        rc = ts_file_read_at(f->fd, f->path, 0, sizeof h, &h, err);
    if (rc == 0)
        rc = check_head(f, &h, err);
    if (rc == 0)
        rc = check_hash(f, 0, sizeof h + h.n_sections * sizeof(struct ts_disk_section), hash, piece,
                        err);
    if (rc == 0)
        rc = take_head(f, &h, err);
    if (rc == 0)
        rc = read_sections(f, h.n_sections, hash, piece, err);
    if (rc == 0)
        rc = read_fixed(f, err);
    free(piece);
    XXH3_freeState(hash);
    return rc;
}

/* Opens a state from fd. fd and path belong to this function; path may be NULL, which is
 * TS_ENOMEM. */
static int open_file(int fd, char *path, struct ts_state_file **ret, struct ts_err *err)
{
    struct ts_state_file *f = calloc(1, sizeof *f);
    int rc;
    if (f == NULL || path == NULL) {
        free(f);
        free(path);
        close(fd);
        return ts_fail(err, TS_ENOMEM, "out of memory for the state of a run");
    }
    f->fd = fd;
    f->path = path;
    rc = read_all(f, err);
    if (rc == 0)
        *ret = f;
    else
        ts_state_close(f);
    return rc;
}

int ts_state_open(const char *path, struct ts_state_file **ret, struct ts_err *err)
{
    /* O_NONBLOCK: a pipe without a writer would block */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 ? ts_fail_errno(err, TS_EIO, "%s", path) : open_file(fd, strdup(path), ret, err);
}

int ts_state_open_in(const struct ts_open_dir *dir, const char *name, struct ts_state_file **ret,
                     struct ts_err *err)
{
    char *path;
    int fd, rc = ts_open_dir_optional(dir, name, &fd, err);
    if (rc <= 0)
        return rc;
    if (asprintf(&path, "%s/%s", ts_open_dir_path(dir), name) < 0)
        path = NULL;
    rc = open_file(fd, path, ret, err);
    return rc < 0 ? ts_open_dir_explain(dir, rc, err) : 1;
}

void ts_state_close(struct ts_state_file *f)
{
    if (f == NULL)
        return;
    if (f->fd >= 0)
        close(f->fd);
    free(f->state.gram);
    free(f->state.lambda);
    free(f->state.past);
    free(f->state.figures);
    free(f->state.before);
    free(f->state.best);
    free(f->state.options);
    free(f->path);
    free(f);
}

const struct ts_state *ts_state_get(const struct ts_state_file *f)
{
    return &f->state;
}

const char *ts_state_path(const struct ts_state_file *f)
{
    return f->path;
}

uint64_t ts_state_sign(const struct ts_state_file *f)
{
    return f->sign;
}

int ts_state_rows(const struct ts_state_file *f, uint32_t mode, uint64_t row, uint64_t n,
                  double *ret, struct ts_err *err)
{
    const struct ts_state *s = &f->state;
    const uint64_t items = n * s->rank;
    float *narrow;
    int rc;
    if (s->precision == TS_FLOAT64)
        return ts_file_read_at(f->fd, f->path, f->factor_at[mode] + row * ts_state_sections_row(s),
                               items * 8, ret, err);
    /* the second half of ret; float32 numbers are widened from the first on, so none is overwritten
     * before it is read */
    narrow = (float *)(void *)ret + items;
    rc = ts_file_read_at(f->fd, f->path, f->factor_at[mode] + row * ts_state_sections_row(s),
                         items * 4, narrow, err);
    for (uint64_t i = 0; i < items && rc == 0; i++) {
        float x;
        memcpy(&x, narrow + i, sizeof x);
        ret[i] = x;
    }
    return rc;
}

int ts_state_before(const struct ts_state_file *f, uint32_t mode, void *ret, struct ts_err *err)
{
    return ts_file_read_at(f->fd, f->path, f->before_at[mode],
                           ts_state_sections_bytes(&f->state, TS_SECTION_BEFORE, mode), ret, err);
}

int ts_state_moment(const struct ts_state_file *f, uint32_t which, uint32_t mode, void *ret,
                    struct ts_err *err)
{
    return ts_file_read_at(f->fd, f->path, f->moment_at[which][mode],
                           ts_state_sections_bytes(&f->state, TS_SECTION_MOMENT, mode), ret, err);
}

int ts_state_check_tensor(const struct ts_state_file *f, const struct ts_tensor *t,
                          struct ts_err *err)
{
    const struct ts_state *s = &f->state;
    int same = s->order == t->order && s->nnz == t->nnz && s->tensor_hash == t->hash;
    for (uint32_t m = 0; m < t->order && same; m++)
        same = s->dim[m] == t->mode[m].disk.dim && s->n_rows[m] == t->mode[m].disk.n_rows;
    if (same)
        return 0;
    return ts_fail(err, TS_EARG,
                   "%s: is not the tensor of the run in %s: its checksum is %016" PRIx64
                   ", expected %016" PRIx64,
                   t->path, f->path, t->hash, s->tensor_hash);
}

const char *ts_state_option(const struct ts_state *s, const char *name)
{
    return ts_run_options_get(s->options, s->options_bytes, name);
}
