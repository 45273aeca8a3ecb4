/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds of what a build takes of disk and memory. */
#include "build/build_space.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build/build_memory.h"
#include "build/mode_writer.h"
#include "build/record.h"
#include "build/slices.h"
#include "format/layout.h"
#include "stream/comm.h"

#define LZ4_MOST  255 /* bytes that LZ4 makes of one, at most */
#define ROW_BYTES 6   /* of an index in modeK.rows, at most */
#define PIECES    16  /* of a text that are looked at, */
#define PIECE     32768

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Products and sums of bounds, in float64: a high bound that is not known stays so. */
static uint64_t bytes(double x)
{
    return x < 9e18 ? (uint64_t)x : UINT64_MAX;
}

static double number(uint64_t x)
{
    return x == UINT64_MAX ? INFINITY : (double)x;
}

static uint32_t words_of(const uint32_t *width, uint32_t order, uint32_t value_bits)
{
    uint32_t all[TS_RECORD_FIELDS];
    struct ts_record_layout l;
    memcpy(all, width, order * sizeof *all);
    all[order] = value_bits;
    ts_record_layout_set(&l, order + 1, all);
    return l.words;
}

/* Words of a record as it is read, and as it is packed: of rows, of which there are no more than
 * nonzeros. `slack`: of sorted runs that came before the largest indices. */
static double read_words(const struct ts_build_space_in *in, int high, uint32_t slack)
{
    const uint32_t value = in->o->weights ? 64 : 8 * in->o->value_bytes;
    uint32_t width[TS_MAX_ORDER];
    for (uint32_t m = 0; m < in->order; m++) {
        const uint64_t dim = high ? least(in->dim[m].high, TS_MAX_DIM) : in->dim[m].low;
        width[m] = dim == 0 ? 0 : ts_record_width(dim - 1);
        width[m] -= least(width[m], slack);
    }
    return words_of(width, in->order, value);
}

static uint32_t row_width(const struct ts_build_space_in *in, uint32_t m)
{
    const uint64_t rows = least(in->dim[m].high, least(in->nnz.high, UINT32_MAX));
    return rows == 0 ? 0 : ts_record_width(rows - 1);
}

static double packed_words(const struct ts_build_space_in *in, int high)
{
    uint32_t width[TS_MAX_ORDER] = { 0 };
    for (uint32_t m = 0; m < in->order && high; m++)
        width[m] = row_width(in, m);
    return words_of(width, in->order, high ? in->value_bits : 0);
}

/* A copy with every index at its full width: of a row only where it begins, of each level its
 * flags, of each stream and block what block_codec.h says. */
static double copy_high(const struct ts_build_space_in *in, uint32_t mode)
{
    const uint32_t levels = in->order - 1, streams = 2 * levels + 2;
    const double nnz = number(in->nnz.high), blocks = nnz / TS_BLOCK_NNZ + 1;
    double bits = in->value_bits + levels, body;
    for (uint32_t m = 0; m < in->order; m++)
        bits += m == mode ? 0 : row_width(in, m);
    body = nnz * bits / 8 + blocks * 4 * (levels + 12.0 + 3 * streams);
    return body + (body / ((double)in->o->shard_bytes / 2) + 2) * TS_PAGE;
}

/* Headers of blocks, which LZ4 may shrink; and the information of the cells that rows and index do
 * not have. */
static double copy_low(const struct ts_build_space_in *in)
{
    const uint32_t levels = in->order - 1;
    double least_bits = 0, rows = 0;
    const double blocks = ceil((double)in->nnz.low / TS_BLOCK_NNZ);
    for (uint32_t m = 0; m < in->order && in->cell_bits > 0; m++) { /* log2 of dim choose rows */
        const double dim = number(in->dim[m].high);
        const double n = fmin(number(in->nnz.high), dim / 2);
        rows += fmin(dim, n * (log2(dim / n) + 1.4427));
    }
    least_bits = fmax(0, in->cell_bits - rows - 8 * 16384.0);
    return fmax(blocks * 4 * (levels / 4 + 2 * levels) / LZ4_MOST, least_bits / 8);
}

static void estimate_result(const struct ts_build_space_in *in, struct ts_build_space *s)
{
    double low = 0, high = 65536.0 + number(in->names_bytes), ahead = 0;
    for (uint32_t m = 0; m < in->order; m++) {
        const int known = in->copy[m].high > 0;
        const double one_low = known ? number(in->copy[m].low) : copy_low(in);
        const double one = known ? number(in->copy[m].high) : copy_high(in, m);
        low += one_low;
        s->file.low = most(s->file.low, bytes(one_low));
        high += one + number(least(in->dim[m].high, in->nnz.high)) * ROW_BYTES + TS_PAGE;
        high += one / ((double)in->o->shard_bytes / 2) * sizeof(struct ts_disk_shard);
        ahead = fmax(ahead, one / 4 + (64 << 20)); /* a file grows ahead of what is written */
    }
    s->result = (struct ts_space){ bytes(low), bytes(high + ahead) };
}

/* Whether a mode may be numbered by a sort (high), or certainly is. */
static int is_numbered(const struct ts_build_space_in *in, const struct ts_build_memory *m,
                       int high)
{
    double sum = 0;
    for (uint32_t k = 0; k < in->order; k++) {
        const uint64_t dim = high ? least(in->dim[k].high, TS_MAX_DIM) : in->dim[k].low;
        const double one = (double)ts_slices_bytes(dim);
        sum = high ? sum + one : fmax(sum, one);
    }
    return sum > (double)m->bitmap_bytes;
}

void ts_build_space_estimate(const struct ts_build_space_in *in, struct ts_build_space *ret)
{
    struct ts_build_space s;
    struct ts_build_memory m;
    const double read_low = (double)in->read.low, nnz_low = (double)in->nnz.low;
    const double read = number(in->read.high), nnz = number(in->nnz.high);
    const double w = read_words(in, 1, 0), p = packed_words(in, 1);
    const int ranks = ts_comm_many(in->o->comm);
    double low = 0, high = 0, pack_low = 0, pack_high = 0, area;
    memset(&s, 0, sizeof s);
    ts_build_memory_share_beside(in->o, in->order, in->beside_bytes, &m);
    area = (double)m.area_words;
    estimate_result(in, &s);
    s.memory.low = ranks ? 0 : bytes(8 * fmin(read_low * read_words(in, 0, 4), area));
    if (!ranks && (in->runs_bytes > 0 || read_low * read_words(in, 0, 4) > area)) {
        const double runs = fmax(8 * read_low * read_words(in, 0, 4), (double)in->runs_bytes);
        const double cells = 8 * nnz_low * read_words(in, 0, 0);
        low = fmax(runs + cells, is_numbered(in, &m, 0) ? 2 * cells : 0);
        pack_low = 8 * nnz_low * packed_words(in, 0);
        s.file.low = most(s.file.low, bytes(runs));
    }
    if (ranks || read * w > area / 2) {
        high = fmax(8 * (read + nnz) * w, is_numbered(in, &m, 1) ? 24 * nnz * w : 0);
        high = fmax(high, 8 * nnz * (w + p));
        pack_high = 16 * nnz * p;
    }
    if (ranks) { /* what is dealt, its runs, what comes of it; packed partitions of two modes */
        high = 8 * (2 * read + nnz) * w;
        pack_high = 24 * nnz * p + (double)s.result.high;
    }
    high += number(in->names_bytes);
    s.tmp = (struct ts_space){ bytes(fmax(low, pack_low)), bytes(fmax(high, pack_high)) };
    s.both.low = bytes(fmax(low, pack_low + (double)s.result.low));
    s.both.high = bytes(fmax(high, pack_high) + number(s.result.high));
    *ret = s;
}

/* ------------------------------------------------------------------ draws */

/* log2 of n choose k. */
static double log2_choose(double n, double k)
{
    return k <= 0 || k >= n ? 0 : (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2);
}

/* Sum of squared shares of the indices, and their entropy: of a power law from the density of
 * rank k, the first ranks one by one. */
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
    while (at < n + 1) { /* ranks of a step have shares that differ by a hundredth */
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
    in->nnz.high = bytes(fmin(n, cells));
    if (s->planted > 0 && !s->ratings) {
        for (uint32_t m = 0; m < s->order; m++)
            in->dim[m].low = least(s->side[m], s->dim[m]);
        return;
    }
    /* Of draws with shares p the cells hit are at least (1 - exp(-n q)) / q with q the mean of p:
     * (1 - exp(-n p)) / p is convex in p. Five deviations of chance are left. */
    drawn = s->ratings ? n : -expm1(-n * squares * 1.02) / (squares * 1.02);
    drawn = fmax(1, drawn - (s->ratings ? 0 : 5 * sqrt(n) + 1));
    value = s->value_last == 0 || s->ratings ? (s->value_bytes == 4 ? 22 : 50) : log2(range);
    if (s->value_last > 0 && s->value_first == 0 && !s->ratings) { /* zeros are left out */
        const double kept = (range - 1) / range;
        in->read.low = bytes(fmax(0, n * kept - 5 * sqrt(n)));
        drawn = fmax(1, drawn * kept - 5 * sqrt(n));
        value = 0;
    }
    in->nnz.low = least(bytes(drawn), in->nnz.high);
    if (s->ratings || squares * cells < 1.001) /* all sets of cells are as likely */
        bits =
            fmin(log2_choose(cells, (double)in->nnz.low), log2_choose(cells, number(in->nnz.high)));
    else /* an order of the draws and how often each cell was drawn are all that the set lacks */
        bits = n * entropy * 0.98 - lgamma(n + 1) / log(2) -
               log2_choose(n, fmax((double)in->nnz.low, n / 2));
    in->cell_bits = 0.999 * (fmax(0, bits) + value * (double)in->nnz.low);
    if (s->value_last > 0 && !s->ratings && in->o->weights == 0) {
        const double sum = range * (1 + 64 * n * squares + 64); /* of the draws on one cell */
        in->value_bits = (uint32_t)least(in->value_bits, (uint64_t)ceil(log2(sum)) + 1);
    }
}

/* ------------------------------------------------------------------ text */

struct lines {
    double bytes, all,
        sure; /* of the pieces: lines, and those with a number other than 0 everywhere */
};

/* Whether no field of a line is a zero, and whether it is more than blanks or a comment. */
static int look_at_line(const char *p, const char *end, int *sure)
{
    int digits = 0, other = 0, any = 0;
    *sure = 1;
    for (; p <= end; p++) {
        const int sep = p == end || *p == ' ' || *p == '\t' || *p == ',' || *p == ';' || *p == '\r';
        if (!any && !sep && (*p == '#' || *p == '%'))
            return 0;
        any |= !sep;
        if (!sep) {
            digits |= *p == '0';
            other |= *p != '0' && *p != '.' && *p != '-' && *p != '+';
            continue;
        }
        if (digits && !other)
            *sure = 0;
        digits = other = 0;
    }
    return any;
}

static void look_at_piece(const char *text, size_t n, int whole, struct lines *l)
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
        any = look_at_line(p, stop, &sure);
        l->bytes += (double)(stop - p + 1);
        l->all += any;
        l->sure += any && sure;
        p = stop + 1;
    }
}

/* Lines of a file, at least and at most: of the densest and of the sparsest piece. Returns -1
 * where it cannot be seen. */
static int look_at_file(const char *path, double *low, double *high)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    static const unsigned char packed[][2] = {
        { 0x1f, 0x8b }, { 0x28, 0xb5 }, { 0xfd, '7' }, { 'B', 'Z' }
    };
    char text[PIECE];
    struct stat st;
    int rc = fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ? -1 : 0;
    const uint64_t size = rc == 0 ? (uint64_t)st.st_size : 0;
    const uint64_t pieces = size <= PIECES * (uint64_t)PIECE ? (size + PIECE - 1) / PIECE : PIECES;
    *low = INFINITY;
    *high = 0;
    for (uint64_t k = 0; k < pieces && rc == 0; k++) {
        const uint64_t at = pieces == 1 ? 0 : (size - PIECE) / (pieces - 1) * k;
        struct lines l = { 0 };
        const ssize_t n = pread(fd, text, sizeof text, (off_t)at);
        for (size_t i = 0; i < 4 && k == 0 && n > 1; i++)
            rc |= memcmp(text, packed[i], 2) == 0 ? -1 : 0;
        if (n <= 0 || rc < 0) {
            rc = -1;
            break;
        }
        look_at_piece(text, (size_t)n, pieces == 1, &l);
        *low = fmin(*low, l.bytes == 0 ? 0 : l.sure / l.bytes);
        *high = fmax(*high, l.bytes == 0 ? 1 : l.all / l.bytes);
    }
    *low = pieces == 0 ? 0 : *low * (double)size * (pieces == 1 ? 1 : 0.8);
    *high = *high * (double)size * (pieces == 1 ? 1 : 1.25) + 1;
    if (fd >= 0)
        close(fd);
    return rc;
}

void ts_build_space_of_text(const char *const paths[], uint32_t n_paths,
                            struct ts_build_space_in *in)
{
    double sum_low = 0, sum_high = 0;
    for (uint32_t i = 0; i < n_paths; i++) {
        double low, high;
        if (look_at_file(paths[i], &low, &high) < 0) {
            sum_high = INFINITY;
            continue;
        }
        sum_low += low;
        sum_high += high;
    }
    in->read = (struct ts_space){ bytes(floor(sum_low)), bytes(ceil(sum_high)) };
    in->nnz = (struct ts_space){ in->o->duplicates == TS_DUPLICATES_SUM ? 1 : in->read.low,
                                 in->read.high };
}
