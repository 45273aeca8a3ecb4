/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes bounds of the number of nonzeros of a source before it is read: for the generator, text,
 * binary files and tensors. */
#include "build/room/build_space.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/binary/binary_kind.h"
#include "source/packed/byte_input.h"
#include "source/text/number_text.h"
#include "stream/comm.h"

#define PIECES 16 /* number of pieces of a file that are read, of PIECE bytes each */
#define PIECE  32768
#define HEAD   (UINT64_C(1) << 20) /* most bytes of text that are read of a compressed file */
#define FILES  64                  /* most files that are read; others are estimated from these */
#define VALUES 1024 /* values of a binary file that are read at each of PIECES places */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ------------------------------------------------------------------ cells of the generator */

/* Returns log2 of n choose k. */
static double log2_choose(double n, double k)
{
    return k <= 0 || k >= n ? 0 : (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2);
}

/* Computes the sum of squares and the entropy of the probabilities of the indices of a mode. For a
 * power law, the probabilities of the first indices are added one by one, and those of later
 * indices in steps. */
static void law_of(const struct ts_synth *s, uint32_t m, double *squares, double *entropy)
{
    const double n = (double)s->dim[m], a = s->power[m], e = 1 - a;
    double at = 1, top = fabs(e) < 1e-9 ? log(n + 1) : (pow(n + 1, e) - 1) / e;
    *squares = *entropy = 0;
    if (a == 0) {
        *squares = 1 / n;
        *entropy = log2(n);
        return;
    }
    /* the probabilities of the indices in a step differ by about a hundredth at most */
    while (at < n + 1) {
        const double end = fmin(n + 1, floor(at * 1.01) > at ? floor(at * 1.01) : at + 1);
        const double mass = (fabs(e) < 1e-9 ? log(end / at) : (pow(end, e) - pow(at, e)) / e) / top;
        const double each = mass / (end - at);
        if (mass <= 0)
            break;
        *squares += mass * each;
        *entropy -= mass * log2(each);
        at = end;
    }
}

void ts_build_space_of_synth(const struct ts_synth *s, struct ts_build_space_in *in)
{
    const double n = (double)s->nnz, range = (double)(s->value_last - s->value_first) + 1;
    double cells = 1, squares = 1, entropy = 0, drawn, value, bits;
    for (uint32_t m = 0; m < s->order; m++) {
        double q, h;
        in->dim[m] = (struct ts_space){ s->dim[m], s->dim[m] };
        cells *= (double)s->dim[m];
        law_of(s, m, &q, &h);
        squares *= q;
        entropy += h;
    }
    in->read = in->nnz = (struct ts_space){ s->nnz, s->nnz };
    in->nnz.high = ts_space_bytes(fmin(n, cells));
    if (s->planted > 0 && !s->ratings) {
        for (uint32_t m = 0; m < s->order; m++)
            in->dim[m].low = least(s->side[m], s->dim[m]);
        return;
    }
    /* Lower bound of the number of different cells that n draws hit, if the cells have
     * probabilities p: (1 - exp(-n q)) / q, where q is the mean of p over draws. It holds because
     * (1 - exp(-n p)) / p is convex in p. Five standard deviations are subtracted. */
    drawn = s->ratings ? n : -expm1(-n * squares * 1.02) / (squares * 1.02);
    drawn = fmax(1, drawn - (s->ratings ? 0 : 5 * sqrt(n) + 1));
    value = s->value_last == 0 || s->ratings ? (s->value_bytes == 4 ? 22 : 50) : log2(range);
    /* values may be 0, and zeros are dropped */
    if (s->value_last > 0 && s->value_first == 0 && !s->ratings) {
        const double kept = (range - 1) / range;
        in->read.low = ts_space_bytes(fmax(0, n * kept - 5 * sqrt(n)));
        drawn = fmax(1, drawn * kept - 5 * sqrt(n));
        value = 0;
    }
    in->nnz.low = least(ts_space_bytes(drawn), in->nnz.high);
    /* if all cells have about the same probability, all sets of nnz cells are equally likely */
    if (s->ratings || squares * cells < 1.001)
        bits = fmin(log2_choose(cells, (double)in->nnz.low),
                    log2_choose(cells, ts_space_number(in->nnz.high)));
    else /* entropy of the draws, minus that of their order and of how many draws hit each cell */
        bits = n * entropy * 0.98 - lgamma(n + 1) / log(2) -
               log2_choose(n, fmax((double)in->nnz.low, n / 2));
    in->cell_bits = 0.999 * (fmax(0, bits) + value * (double)in->nnz.low);
    if (s->value_last > 0 && !s->ratings && in->o->weights == 0) {
        /* upper bound of the sum of the values of one cell */
        const double sum = range * (1 + 64 * n * squares + 64);
        in->value_bits = (uint32_t)least(in->value_bits, (uint64_t)ceil(log2(sum)) + 1);
    }
}

/* ------------------------------------------------------------------ lines of text files */

struct lines {
    /* of the pieces of text that were read: bytes, lines, and lines that are certainly not left
     * out */
    double bytes, all, sure;
};

/* Whether a line with this field may be left out of the nonzeros, because the field is 0, may be
 * rounded to 0 in the stored type, or is missing. Quotes are ignored. */
static int may_be_nothing(const struct ts_build_options *o, const char *p, const char *end)
{
    const int least_point = o->value_bytes == 4 || o->weights ? FLT_MIN_10_EXP : DBL_MIN_10_EXP;
    struct ts_number x;
    for (; p < end && *p == '"'; p++)
        ;
    for (; p < end && end[-1] == '"'; end--)
        ;
    if (o->skip_missing && ts_number_missing(p, (size_t)(end - p)))
        return 1;
    return ts_number_read(p, (size_t)(end - p), &x) && (x.n == 0 || x.point <= least_point);
}

/* Whether a line has more than blanks or a comment. *sure: 1 if the line is certainly not left out,
 * because it has no zero and, with --missing skip, no missing field. A separator in quotes can only
 * set *sure to 0. */
static int look_at_line(const struct ts_build_space_in *in, const char *p, const char *end,
                        int *sure)
{
    const int blanks = in->separator == 0 || in->separator == ' ';
    const char *first = NULL;
    int any = 0, empty = 1;
    *sure = 1;
    for (; p <= end; p++) {
        const int divides = p == end || *p == in->separator || *p == ',' || *p == ';';
        if (!divides && *p != ' ' && *p != '\t' && *p != '\r') {
            if (!any && (*p == '#' || *p == '%')) {
                if (blanks)
                    return 0;
                *sure = 0;
            }
            first = first == NULL ? p : first;
            any = 1;
            continue;
        }
        if (first != NULL) {
            *sure = *sure && !may_be_nothing(in->o, first, p);
            empty = 0;
        }
        first = NULL;
        if (divides && !blanks) {
            *sure = *sure && !(empty && in->o->skip_missing);
            empty = 1;
        }
    }
    return any;
}

static void look_at_piece(const struct ts_build_space_in *in, const char *text, size_t n, int whole,
                          struct lines *l)
{
    const char *p = text, *end = text + n;
    if (!whole) {
        p = memchr(text, '\n', n);
        p = p == NULL ? end : p + 1;
    }
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        int sure, any;
        if (stop == NULL && !whole)
            break;
        stop = stop == NULL ? end : stop;
        any = look_at_line(in, p, stop, &sure);
        l->bytes += (double)(stop - p + 1);
        l->all += any;
        l->sure += any && sure;
        p = stop + 1;
    }
}

/* Returns a lower bound of the bytes of text in a compressed file. It is 0.8 of the compressed size
 * or, for gzip, a quarter of the length of the last member, which the last four bytes state. A
 * quarter, because later lines may be three times as long as the first ones, if all indices grow
 * from one digit to eight. */
static double packed_text_low(int fd, uint64_t size, int gzip)
{
    unsigned char end[4];
    uint64_t last = 0;
    if (gzip && size > 18 && pread(fd, end, sizeof end, (off_t)(size - 4)) == 4)
        last = end[0] | end[1] << 8 | end[2] << 16 | (uint64_t)end[3] << 24;
    return fmax(0.8 * (double)size, (double)last / 4);
}

/* Returns a lower bound of the number of lines of a compressed file. If lines may be left out, only
 * the lines at the start count, because all later ones may be zeros, as in a table sorted by its
 * values. */
static double look_at_packed(const struct ts_build_space_in *space, const char *path, int fd,
                             uint64_t size, int gzip, uint64_t memory)
{
    struct ts_byte_input *in = NULL;
    char text[PIECE];
    double low = INFINITY, seen = 0;
    size_t n = PIECE;
    if (ts_byte_input_open(path, memory, NULL, &in, NULL) < 0)
        return 0;
    for (uint64_t at = 0; at < HEAD && n == PIECE; at += n) {
        struct lines l = { 0 };
        if (ts_byte_input_read(in, text, sizeof text, &n, NULL) < 0 || n == 0)
            break;
        look_at_piece(space, text, n, 0, &l);
        low = l.bytes == 0 ? low : fmin(low, l.sure / l.bytes);
        seen += l.sure;
    }
    ts_byte_input_close(in);
    if (!space->o->zeros || space->o->skip_missing)
        return seen;
    return low < INFINITY ? low * packed_text_low(fd, size, gzip) : 0;
}

/* Computes bounds of the number of lines of a file that is not compressed, from the pieces with the
 * most and the fewest lines. Returns -1 if the file cannot be read. */
static int look_at_plain(const struct ts_build_space_in *in, int fd, uint64_t size, double *low,
                         double *high)
{
    const uint64_t pieces = size <= PIECES * (uint64_t)PIECE ? (size + PIECE - 1) / PIECE : PIECES;
    char text[PIECE];
    *low = INFINITY;
    *high = 0;
    for (uint64_t k = 0; k < pieces; k++) {
        const uint64_t at = pieces == 1 ? 0 : (size - PIECE) / (pieces - 1) * k;
        struct lines l = { 0 };
        const ssize_t n = pread(fd, text, sizeof text, (off_t)at);
        if (n <= 0)
            return -1;
        look_at_piece(in, text, (size_t)n, pieces == 1, &l);
        *low = fmin(*low, l.bytes == 0 ? 0 : l.sure / l.bytes);
        *high = fmax(*high, l.bytes == 0 ? 1 : l.all / l.bytes);
    }
    *low = pieces == 0 ? 0 : *low * (double)size * (pieces == 1 ? 1 : 0.8);
    *high = *high * (double)size * (pieces == 1 ? 1 : 1.25) + 1;
    return 0;
}

/* A file of text on disk whose lines are estimated. */
struct text_file {
    int fd; /* -1: the file cannot be read before the build reads it */
    int packed;
    int gzip;
    uint64_t size;
};

static struct text_file open_text(const char *path)
{
    static const unsigned char starts[][2] = {
        { 0x1f, 0x8b }, { 0x28, 0xb5 }, { 0xfd, '7' }, { 'B', 'Z' }
    };
    struct text_file f = { .fd = -1 };
    unsigned char head[2] = { 0 };
    struct stat st;
    f.fd = ts_byte_input_look(path, &st);
    if (f.fd < 0)
        return f;
    f.size = (uint64_t)st.st_size;
    if (pread(f.fd, head, sizeof head, 0) < 0) {
        close(f.fd);
        f.fd = -1;
    }
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        f.packed |= memcmp(head, starts[i], sizeof head) == 0;
    f.gzip = f.packed && head[0] == 0x1f;
    return f;
}

/* Computes bounds of the number of lines of a file. If the file cannot be read, they are 0 and
 * infinity. */
static void look_at_file(const struct ts_build_space_in *in, const char *path,
                         const struct text_file *f, uint64_t memory, double *low, double *high)
{
    *low = 0;
    *high = INFINITY;
    if (f->fd >= 0 && f->packed)
        *low = look_at_packed(in, path, f->fd, f->size, f->gzip, memory);
    else if (f->fd >= 0 && look_at_plain(in, f->fd, f->size, low, high) < 0)
        *low = 0, *high = INFINITY;
}

/* Returns the fraction of a file that this rank reads, as a lower bound. With several ranks, each
 * rank reads a part of a file that is not compressed. One rank reads all of a compressed file: rank
 * i % n reads file i. */
static double own_share(const struct ts_comm *comm, uint32_t file, int packed)
{
    if (!ts_comm_many(comm))
        return 1;
    return packed ? file % comm->n == comm->rank : 0.98 / comm->n;
}

static void set_read(struct ts_build_space_in *in, double low, double own, double high)
{
    in->read = (struct ts_space){ ts_space_bytes(floor(low)), ts_space_bytes(ceil(high)) };
    in->own_low = ts_space_bytes(fmax(0, floor(own) - 1));
    in->nnz = (struct ts_space){ in->o->duplicates == TS_DUPLICATES_SUM ? 1 : in->read.low,
                                 in->read.high };
}

/* The fewest and the most lines per byte in some files: the compressed ones, or the others. */
struct density {
    int any;
    double low, high;
};

static void add_density(struct density *d, const struct text_file *f, double low, double high)
{
    if (f->fd < 0 || f->size == 0)
        return;
    d->low = d->any ? fmin(d->low, low / (double)f->size) : low / (double)f->size;
    d->high = d->any ? fmax(d->high, high / (double)f->size) : high / (double)f->size;
    d->any = 1;
}

/* Computes bounds of the number of lines of a file from the density of other files, with the
 * margins that look_at_plain uses between the pieces of a file. */
static void guess_by_others(const struct density *d, const struct text_file *f, double *low,
                            double *high)
{
    *low = f->fd >= 0 && d->any ? 0.8 * d->low * (double)f->size : 0;
    *high = f->fd >= 0 && d->any ? 1.25 * d->high * (double)f->size + 1 : INFINITY;
}

void ts_build_space_of_text(const char *const paths[], uint32_t n_paths, uint64_t unpack_bytes,
                            struct ts_build_space_in *in)
{
    const uint32_t step = n_paths <= FILES ? 1 : (n_paths + FILES - 1) / FILES;
    struct density seen[2] = { { 0 } }; /* [0]: of uncompressed files, [1]: of compressed files */
    double sum_low = 0, sum_own = 0, sum_high = 0;
    for (uint32_t i = 0, pass = 0; pass < 2; i = i + 1 == n_paths ? (pass++, 0) : i + 1) {
        struct text_file f;
        double low, high;
        if ((i % step == 0) != (pass == 0))
            continue;
        if (in->o->stop != NULL && *in->o->stop) /* the build stops, so it does not use the sums */
            break;
        f = open_text(paths[i]);
        if (pass == 0) {
            look_at_file(in, paths[i], &f, unpack_bytes, &low, &high);
            add_density(&seen[f.packed], &f, low, high);
        } else {
            guess_by_others(&seen[f.packed], &f, &low, &high);
        }
        if (f.fd >= 0)
            close(f.fd);
        sum_low += low;
        sum_own += low * own_share(in->o->comm, i, f.packed);
        sum_high += high;
    }
    set_read(in, sum_low, sum_own, sum_high);
}

/* ------------------------------------------------------------------ nonzeros of binary files */

/* Returns how many of the values of nonzeros first .. first + n - 1 are 0, or become 0 in the
 * stored type, or -1 if they cannot be read. */
static int count_zeros(int fd, const struct ts_binary_form *f, uint64_t first, uint64_t n,
                       double least_value)
{
    int zeros = 0;
    for (uint64_t i = first; i < first + n; i++) {
        const uint64_t at = ts_binary_place(f, i, f->order);
        unsigned char raw[8];
        double x;
        float narrow;
        if (pread(fd, raw, f->value_bytes, (off_t)at) != (ssize_t)f->value_bytes)
            return -1;
        for (uint32_t k = 0; f->big_endian && k < f->value_bytes / 2; k++) {
            const unsigned char c = raw[k];
            raw[k] = raw[f->value_bytes - 1 - k];
            raw[f->value_bytes - 1 - k] = c;
        }
        memcpy(&x, raw, sizeof x);
        memcpy(&narrow, raw, sizeof narrow);
        zeros += fabs(f->value_bytes == 8 ? x : (double)narrow) < least_value;
    }
    return zeros;
}

/* Returns a lower bound of the number of nonzeros of a file, from the place in the file with the
 * most zeros among its values. */
static double sure_nonzeros(int fd, const struct ts_binary_form *f,
                            const struct ts_build_options *o)
{
    const double least_value = o->value_bytes == 4 ? FLT_MIN : DBL_MIN;
    const uint64_t all = PIECES * (uint64_t)VALUES, n = f->nnz <= all ? f->nnz : VALUES;
    const uint64_t places = f->nnz <= all ? 1 : PIECES;
    double share = 1;
    if (o->zeros)
        return (double)f->nnz;
    for (uint64_t k = 0; k < places && fd >= 0; k++) {
        const uint64_t first = places == 1 ? 0 : (f->nnz - n) / (places - 1) * k;
        const int zeros = n == 0 ? 0 : count_zeros(fd, f, first, n, least_value);
        share = zeros < 0 ? 0 : n == 0 ? 1 : fmin(share, 1 - (double)zeros / (double)n);
    }
    return fd < 0 ? 0 : (double)f->nnz * share * (places == 1 ? 1 : 0.8);
}

void ts_build_space_of_binary(const char *const paths[], uint32_t n_paths, uint64_t unpack_bytes,
                              struct ts_build_space_in *in)
{
    double sum_low = 0, sum_own = 0, sum_high = 0;
    for (uint32_t i = 0; i < n_paths; i++) {
        const struct ts_binary_kind *kind = NULL;
        struct ts_binary_form form;
        struct ts_byte_input *file = NULL;
        const unsigned char *head;
        double low = 0, high = INFINITY;
        uint64_t at;
        struct stat st;
        size_t n;
        int packed = 0, rc = stat(paths[i], &st) == 0 && S_ISREG(st.st_mode) ? 0 : -1;
        if (rc == 0)
            rc = ts_byte_input_open(paths[i], unpack_bytes, NULL, &file, NULL);
        if (rc == 0)
            rc = ts_byte_input_peek(file, &head, &n, NULL);
        if (rc == 0)
            kind = ts_binary_kind_find(head, n);
        if (kind != NULL && kind->header(head, n, &form, &at, NULL) == 0) {
            low = sure_nonzeros(ts_byte_input_fd(file), &form, in->o);
            high = (double)form.nnz;
            packed = ts_byte_input_packed(file);
        }
        ts_byte_input_close(file);
        sum_low += low;
        sum_own += low * own_share(in->o->comm, i, packed);
        sum_high += high;
    }
    set_read(in, sum_low, sum_own, sum_high);
}

/* ------------------------------------------------------------------ nonzeros of a tensor */

/* Returns how many of rows first .. last are picked. rows: a bit for each row. */
static uint64_t picked(const unsigned char *rows, uint64_t first, uint64_t last)
{
    uint64_t n = 0;
    for (uint64_t r = first; r <= last; r++)
        n += rows[r / 8] >> r % 8 & 1;
    return n;
}

/* Counts the nonzeros of the copy for `mode`: *lost, in shards with a row that is not picked;
 * *kept, in shards with a row that is picked. */
static void look_at_mode(const struct ts_tensor *t, const struct ts_pick *pick, uint32_t mode,
                         uint64_t *lost, uint64_t *kept)
{
    *lost = *kept = 0;
    for (uint64_t i = 0; i < t->mode[mode].disk.n_shards; i++) {
        const struct ts_disk_shard *s = &t->mode[mode].shard[i];
        const uint64_t n = picked(pick->rows[mode], s->row_first, s->row_last);
        *lost += n <= s->row_last - s->row_first ? s->nnz : 0;
        *kept += n > 0 ? s->nnz : 0;
    }
}

void ts_build_space_of_tensor(const struct ts_tensor *t, const struct ts_pick *pick,
                              struct ts_build_space_in *in)
{
    double low = (double)t->nnz, high = low;
    for (uint32_t m = 0; m < t->order; m++) {
        uint64_t lost, kept;
        if (pick->rows[m] == NULL)
            continue;
        look_at_mode(t, pick, m, &lost, &kept);
        low -= (double)lost;
        high = fmin(high, (double)kept);
    }
    low = fmax(0, low);
    if (pick->side != TS_PICK_ALL && (t->header.flags & TS_TENSOR_DUPLICATES) != 0) {
        /* nonzeros of one cell have the same hash, so all may be held out, or none */
        low = 0;
    } else if (pick->side != TS_PICK_ALL) {
        /* the bounds are eight standard deviations from the mean number */
        const double share =
            pick->side == TS_PICK_HELD ? pick->hold_out.share : 1 - pick->hold_out.share;
        low = fmax(0, low * share - 8 * sqrt(low * share) - 1);
        high = fmin(high, high * share + 8 * sqrt(high * share) + 1);
    }
    in->read = (struct ts_space){ ts_space_bytes(floor(low)), ts_space_bytes(ceil(high)) };
    in->nnz = (struct ts_space){ pick->left_out == 0 ? most(1, in->read.low) : 1,
                                 most(1, in->read.high) };
}
