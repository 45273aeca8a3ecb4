#include "cpd/model_write.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "cpd/out_dir.h"

#define CHUNK_BYTES (UINT64_C(1) << 20) /* of float64 rows at a time */
#define PIECES 16u     /* of a chunk, formatted as text side by side */
#define NUMBER_CHARS 26u /* sign, 17 digits, point, exponent, blank */

struct ts_model_out {
    struct ts_model_conf conf;
    struct ts_out_dir dir;
    void *be;
    uint64_t chunk;      /* rows */
    double *raw, *rows;  /* chunk x rank: from the backend, and sorted with signs */
    char *text;          /* chunk x (rank * NUMBER_CHARS + 1) */
    uint32_t *from;      /* rank: output column c is column from[c] of the factors */
    double *weight;      /* rank, sorted */
    double *sign;        /* order x rank: +1 or -1, by output column */
};

/* Where rows of a mode go. */
typedef int (*row_sink)(struct ts_model_out *o, void *to, uint64_t n, struct ts_err *err);

static int ours(const char *name)
{
    static const char *const suffix[] = { ".npy", ".mat", ".index" };
    char *end;
    if (strcmp(name, "model.ktensor") == 0 || strcmp(name, "weights.npy") == 0 ||
        strcmp(name, "lambda.mat") == 0)
        return 1;
    if (strncmp(name, "mode", 4) != 0 || name[4] < '1' || name[4] > '9')
        return 0;
    if (strtoul(name + 4, &end, 10) > TS_MAX_ORDER)
        return 0;
    for (uint32_t i = 0; i < sizeof suffix / sizeof suffix[0]; i++)
        if (strcmp(end, suffix[i]) == 0)
            return 1;
    return 0;
}

int ts_model_formats(const char *list, unsigned *ret, struct ts_err *err)
{
    static const char *const name[] = { "ktensor", "npy", "splatt" };
    unsigned formats = 0;
    for (const char *at = list;;) {
        const size_t n = strcspn(at, ",");
        unsigned bit = 0;
        for (unsigned i = 0; i < 3; i++)
            if (strlen(name[i]) == n && strncmp(at, name[i], n) == 0)
                bit = 1u << i;
        if (bit == 0)
            return ts_fail(err, TS_EARG,
                           "format \"%.*s\" is not known: there are ktensor, npy and splatt", (int)n,
                           at);
        formats |= bit;
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
    *ret = formats;
    return 0;
}

static uint64_t rows_of(const struct ts_model_out *o, uint32_t mode)
{
    const struct ts_disk_mode *disk = &o->conf.tensor->mode[mode].disk;
    return o->conf.used_rows ? disk->n_rows : disk->dim;
}

/* Least bytes that the files take for a mode: zeros are short as text. */
static double least_bytes(const struct ts_model_out *o, uint32_t mode)
{
    const struct ts_model_conf *c = &o->conf;
    const double number = c->precision == TS_FLOAT32 ? 4 : 8, rows = (double)rows_of(o, mode);
    const double used = (double)c->tensor->mode[mode].disk.n_rows;
    const double text = used * c->rank * 2 * number + (rows - used) * c->rank * 2;
    return (c->formats & TS_WRITE_NPY ? rows * c->rank * number : 0) +
           (c->formats & TS_WRITE_KTENSOR ? text : 0) + (c->formats & TS_WRITE_SPLATT ? text : 0);
}

/* Refuses what the disk cannot hold; the sentence is about the largest mode. */
static int check_room(const struct ts_model_out *o, struct ts_err *err)
{
    const struct ts_tensor *t = o->conf.tensor;
    double total = 0;
    uint32_t largest = 0;
    for (uint32_t m = 0; m < t->order; m++) {
        total += least_bytes(o, m);
        if (least_bytes(o, m) > least_bytes(o, largest))
            largest = m;
    }
    if (total <= (double)o->dir.free_bytes)
        return 0;
    return ts_fail(err, TS_ELIMIT,
                   "%s: mode %u with %" PRIu64 " rows of %u columns takes at least %.3g bytes, all "
                   "modes %.3g, and %.3g are free there%s",
                   o->dir.dir, largest + 1, rows_of(o, largest), o->conf.rank,
                   least_bytes(o, largest), total, (double)o->dir.free_bytes,
                   t->mode[largest].disk.n_rows < rows_of(o, largest)
                       ? "; rows of used slices alone would be fewer (--rows used)"
                       : "");
}

int ts_model_begin(const struct ts_model_conf *conf, struct ts_model_out **ret, struct ts_err *err)
{
    struct ts_model_out *o = calloc(1, sizeof *o);
    const size_t rank = conf->rank;
    int rc;
    if (o == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->dir);
    o->conf = *conf;
    o->dir.fd = -1;
    o->chunk = CHUNK_BYTES / (rank * sizeof(double)) + 1;
    o->raw = malloc(o->chunk * rank * sizeof(double));
    o->rows = malloc(o->chunk * rank * sizeof(double));
    o->text = malloc(o->chunk * (rank * NUMBER_CHARS + 1));
    o->from = calloc(rank, sizeof *o->from);
    o->weight = calloc(rank, sizeof *o->weight);
    o->sign = calloc(conf->tensor->order * rank, sizeof *o->sign);
    rc = o->raw == NULL || o->rows == NULL || o->text == NULL || o->from == NULL ||
                 o->weight == NULL || o->sign == NULL
             ? ts_fail(err, TS_ENOMEM, "%s: out of memory", conf->dir)
             : ts_out_dir_open(conf->dir, ours, &o->dir, err);
    if (rc == 0)
        rc = check_room(o, err);
    if (rc == 0)
        *ret = o;
    else
        ts_model_end(o);
    return rc;
}

void ts_model_end(struct ts_model_out *o)
{
    if (o == NULL)
        return;
    ts_out_dir_close(&o->dir, ours);
    free(o->raw);
    free(o->rows);
    free(o->text);
    free(o->from);
    free(o->weight);
    free(o->sign);
    free(o);
}

/* from[] sorts the weights, largest first, equal ones in the order of their columns. */
static void sort_weights(struct ts_model_out *o, const double *weight)
{
    for (uint32_t r = 0; r < o->conf.rank; r++) {
        uint32_t at = r;
        for (; at > 0 && o->weight[at - 1] < weight[r]; at--) {
            o->weight[at] = o->weight[at - 1];
            o->from[at] = o->from[at - 1];
        }
        o->weight[at] = weight[r];
        o->from[at] = r;
    }
}

/* sign[mode] := sign of the entry of largest magnitude of each column */
static int find_signs(struct ts_model_out *o, uint32_t mode, struct ts_err *err)
{
    const uint32_t rank = o->conf.rank;
    const uint64_t n_rows = o->conf.tensor->mode[mode].disk.n_rows;
    double *sign = o->sign + (size_t)mode * rank, *most = o->rows; /* rank of them */
    memset(most, 0, rank * sizeof *most);
    for (uint32_t r = 0; r < rank; r++)
        sign[r] = 1;
    for (uint64_t row = 0; row < n_rows; row += o->chunk) {
        const uint64_t n = n_rows - row < o->chunk ? n_rows - row : o->chunk;
        const int rc = o->conf.backend->get_rows(o->be, mode, row, n, o->raw, err);
        if (rc < 0)
            return rc;
        for (uint64_t i = 0; i < n; i++)
            for (uint32_t r = 0; r < rank; r++) {
                const double x = o->raw[i * rank + o->from[r]];
                if (fabs(x) > most[r]) {
                    most[r] = fabs(x);
                    sign[r] = x < 0 ? -1 : 1;
                }
            }
    }
    return 0;
}

/* Signs are flipped in pairs of modes; the last of an odd number stays negative. */
static int fix_signs(struct ts_model_out *o, struct ts_err *err)
{
    const uint32_t order = o->conf.tensor->order, rank = o->conf.rank;
    for (uint32_t m = 0; m < order; m++) {
        const int rc = find_signs(o, m, err);
        if (rc < 0)
            return rc;
    }
    for (uint32_t r = 0; r < rank; r++) {
        uint32_t negative = 0, last = 0;
        for (uint32_t m = 0; m < order; m++)
            if (o->sign[(size_t)m * rank + r] < 0) {
                negative++;
                last = m;
            }
        if (negative % 2 == 1)
            o->sign[(size_t)last * rank + r] = 1;
    }
    return 0;
}

/* Calls sink for all rows of a mode in order, o->rows holding them. index: of used rows, or NULL. */
static int walk_rows(struct ts_model_out *o, uint32_t mode, const uint64_t *index, row_sink sink,
                     void *to, struct ts_err *err)
{
    const uint32_t rank = o->conf.rank;
    const uint64_t n_used = o->conf.tensor->mode[mode].disk.n_rows, n_out = rows_of(o, mode);
    const double *sign = o->sign + (size_t)mode * rank;
    uint64_t used = 0;
    for (uint64_t row = 0; row < n_out; row += o->chunk) {
        const uint64_t n = n_out - row < o->chunk ? n_out - row : o->chunk;
        uint64_t k = 0;
        int rc;
        if (index == NULL)
            k = n;
        else
            while (used + k < n_used && index[used + k] < row + n)
                k++;
        rc = k > 0 ? o->conf.backend->get_rows(o->be, mode, used, k, o->raw, err) : 0;
        if (rc < 0)
            return rc;
        if (k < n)
            memset(o->rows, 0, n * rank * sizeof *o->rows);
        for (uint64_t i = 0; i < k; i++) {
            const uint64_t at = index == NULL ? i : index[used + i] - row;
            for (uint32_t r = 0; r < rank; r++) /* + 0: no negative zeros */
                o->rows[at * rank + r] = o->raw[i * rank + o->from[r]] * sign[r] + 0.0;
        }
        used += k;
        rc = sink(o, to, n, err);
        if (rc < 0)
            return rc;
        if (ts_stop_asked(o->conf.stop))
            return ts_fail(err, TS_ESTOP, "stopped while writing factors");
    }
    return 0;
}

struct sink_file {
    FILE *file;
    char *path;
};

static int put(const struct sink_file *to, const void *bytes, size_t n, struct ts_err *err)
{
    return n == 0 || fwrite(bytes, 1, n, to->file) == n
               ? 0
               : ts_fail_errno(err, TS_EIO, "%s: cannot be written", to->path);
}

static int sink_text(struct ts_model_out *o, void *sink, uint64_t n, struct ts_err *err)
{
    const uint32_t rank = o->conf.rank;
    const size_t room = (size_t)rank * NUMBER_CHARS + 1;
    const int digits = o->conf.precision == TS_FLOAT32 ? 9 : 17;
    const int threads = o->conf.threads > 0 ? (int)o->conf.threads : omp_get_max_threads();
    size_t length[PIECES];
    int rc = 0;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (uint32_t p = 0; p < PIECES; p++) {
        char *start = o->text + n * p / PIECES * room, *at = start;
        for (uint64_t i = n * p / PIECES; i < n * (p + 1) / PIECES; i++)
            for (uint32_t r = 0; r < rank; r++) {
                const double x = o->rows[i * rank + r];
                if (x == 0)
                    *at++ = '0';
                else
                    at += snprintf(at, NUMBER_CHARS, "%.*g", digits, x);
                *at++ = r + 1 < rank ? ' ' : '\n';
            }
        length[p] = (size_t)(at - start);
    }
    for (uint32_t p = 0; p < PIECES && rc == 0; p++)
        rc = put(sink, o->text + n * p / PIECES * room, length[p], err);
    return rc;
}

static int sink_binary(struct ts_model_out *o, void *sink, uint64_t n, struct ts_err *err)
{
    float *narrow = (float *)(void *)o->text; /* NUMBER_CHARS of room for 4 bytes each */
    if (o->conf.precision == TS_FLOAT64)
        return put(sink, o->rows, n * o->conf.rank * sizeof(double), err);
    for (uint64_t i = 0; i < n * o->conf.rank; i++)
        narrow[i] = (float)o->rows[i];
    return put(sink, narrow, n * o->conf.rank * sizeof(float), err);
}

/* NumPy's format 1.0; the header is padded so that data start at a multiple of 64. */
static int npy_header(const struct sink_file *to, const char *type, uint64_t rows, uint32_t columns,
                      struct ts_err *err)
{
    char dict[160], head[256];
    int n, total;
    n = columns > 0 ? snprintf(dict, sizeof dict,
                               "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ", %u), }",
                               type, rows, columns)
                    : snprintf(dict, sizeof dict,
                               "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ",), }",
                               type, rows);
    total = (10 + n + 1 + 63) / 64 * 64;
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00", 8);
    head[8] = (char)((total - 10) & 255);
    head[9] = (char)((total - 10) >> 8);
    memcpy(head + 10, dict, (size_t)n);
    head[total - 1] = '\n';
    return put(to, head, (size_t)total, err);
}

static int open_sink(struct ts_model_out *o, const char *name, struct sink_file *to,
                     struct ts_err *err)
{
    return ts_out_dir_create(&o->dir, name, &to->file, &to->path, err);
}

static int close_sink(struct sink_file *to, int rc, struct ts_err *err)
{
    if (rc == 0)
        rc = ts_out_dir_finish(to->file, to->path, err);
    else
        fclose(to->file);
    free(to->path);
    return rc;
}

static int put_weights(const struct ts_model_out *o, const struct sink_file *to, char divider,
                       struct ts_err *err)
{
    for (uint32_t r = 0; r < o->conf.rank; r++)
        if (fprintf(to->file, "%.17g%c", o->weight[r], r + 1 < o->conf.rank ? divider : '\n') < 0)
            return ts_fail_errno(err, TS_EIO, "%s: cannot be written", to->path);
    return 0;
}

/* The rows of a mode, those of empty slices included where that is asked for. */
static int put_mode(struct ts_model_out *o, uint32_t mode, row_sink sink, struct sink_file *to,
                    struct ts_err *err)
{
    uint64_t *index = NULL;
    int rc = o->conf.used_rows ? 0 : ts_tensor_rows(o->conf.tensor, mode, &index, err);
    if (rc == 0)
        rc = walk_rows(o, mode, index, sink, to, err);
    free(index);
    return rc;
}

static int write_ktensor(struct ts_model_out *o, struct ts_err *err)
{
    const uint32_t order = o->conf.tensor->order, rank = o->conf.rank;
    struct sink_file to;
    int rc = open_sink(o, "model.ktensor", &to, err);
    if (rc < 0)
        return rc;
    fprintf(to.file, "ktensor\n%u\n", order);
    for (uint32_t m = 0; m < order; m++)
        fprintf(to.file, "%" PRIu64 "%c", rows_of(o, m), m + 1 < order ? ' ' : '\n');
    fprintf(to.file, "%u\n", rank);
    rc = put_weights(o, &to, ' ', err);
    for (uint32_t m = 0; m < order && rc == 0; m++) {
        fprintf(to.file, "matrix\n2\n%" PRIu64 " %u\n", rows_of(o, m), rank);
        rc = put_mode(o, m, sink_text, &to, err);
    }
    return close_sink(&to, rc, err);
}

static int write_npy(struct ts_model_out *o, struct ts_err *err)
{
    struct sink_file to;
    char name[32];
    int rc = open_sink(o, "weights.npy", &to, err);
    if (rc < 0)
        return rc;
    rc = npy_header(&to, "<f8", o->conf.rank, 0, err);
    if (rc == 0)
        rc = put(&to, o->weight, o->conf.rank * sizeof(double), err);
    rc = close_sink(&to, rc, err);
    for (uint32_t m = 0; m < o->conf.tensor->order && rc == 0; m++) {
        snprintf(name, sizeof name, "mode%u.npy", m + 1);
        rc = open_sink(o, name, &to, err);
        if (rc < 0)
            return rc;
        rc = npy_header(&to, o->conf.precision == TS_FLOAT32 ? "<f4" : "<f8", rows_of(o, m),
                        o->conf.rank, err);
        if (rc == 0)
            rc = put_mode(o, m, sink_binary, &to, err);
        rc = close_sink(&to, rc, err);
    }
    return rc;
}

static int write_splatt(struct ts_model_out *o, struct ts_err *err)
{
    struct sink_file to;
    char name[32];
    int rc = open_sink(o, "lambda.mat", &to, err);
    if (rc < 0)
        return rc;
    rc = close_sink(&to, put_weights(o, &to, '\n', err), err);
    for (uint32_t m = 0; m < o->conf.tensor->order && rc == 0; m++) {
        snprintf(name, sizeof name, "mode%u.mat", m + 1);
        rc = open_sink(o, name, &to, err);
        if (rc == 0)
            rc = close_sink(&to, put_mode(o, m, sink_text, &to, err), err);
    }
    return rc;
}

/* modeK.index, for modes whose rows are not simply 1, 2, 3, ... */
static int write_index(struct ts_model_out *o, struct ts_err *err)
{
    for (uint32_t m = 0; m < o->conf.tensor->order; m++) {
        struct sink_file to;
        uint64_t *index = NULL;
        char name[32];
        int rc = ts_tensor_rows(o->conf.tensor, m, &index, err);
        if (rc < 0)
            return rc;
        if (index == NULL)
            continue;
        snprintf(name, sizeof name, "mode%u.index", m + 1);
        rc = open_sink(o, name, &to, err);
        if (rc == 0) {
            for (uint64_t i = 0; i < o->conf.tensor->mode[m].disk.n_rows; i++)
                fprintf(to.file, "%" PRIu64 "\n", index[i] + 1);
            rc = close_sink(&to, 0, err);
        }
        free(index);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int ts_model_write(struct ts_model_out *o, void *be, const double *weight, struct ts_err *err)
{
    int rc;
    o->be = be;
    sort_weights(o, weight);
    rc = fix_signs(o, err);
    if (rc == 0 && (o->conf.formats & TS_WRITE_KTENSOR))
        rc = write_ktensor(o, err);
    if (rc == 0 && (o->conf.formats & TS_WRITE_NPY))
        rc = write_npy(o, err);
    if (rc == 0 && (o->conf.formats & TS_WRITE_SPLATT))
        rc = write_splatt(o, err);
    if (rc == 0 && o->conf.used_rows)
        rc = write_index(o, err);
    return rc == 0 ? ts_out_dir_commit(&o->dir, ours, err) : rc;
}
