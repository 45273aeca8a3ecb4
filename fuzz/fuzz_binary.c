/* SPDX-License-Identifier: BSD-3-Clause */
/* libFuzzer: binary files as tshard build reads them. The first byte chooses base, precision and
 * threads, the second the nonzeros in a piece, the rest is the file.
 *
 * Whatever the file, every nonzero given must obey its header, a file that is taken must give as
 * many as that says, and neither the pieces nor a pipe in place of the file may change what comes.
 */
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>

#include "fuzz/fuzz.h"
#include "source/binary/binary_kind.h"
#include "source/binary/binary_source.h"

/* What a file came to, and what its nonzeros must obey. */
struct outcome {
    int rc;
    uint64_t hash, n_read, next, done;
    uint32_t order, value_bytes;
    const uint64_t *dim;
};

static int put(void *self, uint64_t number, const struct ts_batch *b)
{
    struct outcome *o = self;
    MUST(number == o->next++ && b->order == o->order);
    MUST(b->n <= b->room && b->n + b->n_zeros == b->n_read);
    for (uint64_t i = 0; i < b->n; i++) {
        const double value = ts_value_of_bits(b->value[i], o->value_bytes);
        MUST(value != 0 && isfinite(value));
        for (uint32_t m = 0; m < o->order; m++) {
            const uint64_t index = b->index[i * o->order + m];
            MUST(index < o->dim[m] && index <= b->max[m]);
            o->hash = (o->hash ^ index) * UINT64_C(0x100000001b3);
        }
        o->hash = (o->hash ^ b->value[i]) * UINT64_C(0x100000001b3);
    }
    o->n_read += b->n_read;
    return 0;
}

static void done(void *self)
{
    ((struct outcome *)self)->done++;
}

static void fail(void *self, uint64_t number, const struct ts_err *why, const char *name,
                 uint32_t file, uint64_t line)
{
    struct outcome *o = self;
    (void)file;
    (void)line;
    MUST(number == o->next && name == NULL && why->code < 0 && why->text[0] != '\0');
    o->rc = why->code;
}

/* One thread: batches then come in their order. */
static struct outcome run(const char *path, const uint8_t rules, size_t piece)
{
    struct ts_files_plan plan = { .paths = &path,
                                  .n_paths = 1,
                                  .piece_bytes = piece,
                                  .read_bytes = 1,
                                  .threads = 1,
                                  .base = rules & 1,
                                  .value_bytes = rules & 2 ? 4 : 8 };
    struct outcome o = { .value_bytes = plan.value_bytes };
    const struct ts_sink sink = { .self = &o, .put = put, .done = done, .fail = fail };
    struct ts_binary_source *s = NULL;
    struct ts_err err;
    o.rc = ts_binary_source_open(&plan, &s, &err);
    MUST(o.rc == 0 || err.text[0] != '\0');
    if (o.rc == 0) {
        const struct ts_source source = ts_binary_source_as_source(s);
        o.order = ts_binary_source_order(s);
        o.dim = ts_binary_source_dims(s);
        MUST(o.order >= TS_MIN_ORDER && o.order <= TS_MAX_ORDER);
        MUST(source.start(source.self, &sink, &err) == 0);
        source.stop(source.self);
        MUST(o.done == 1);
    }
    ts_binary_source_close(s);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ts_binary_kind *kind;
    struct outcome whole, cut, piped;
    struct ts_binary_form form;
    struct ts_err why;
    uint64_t at;
    char path[64];
    int fd, end[2];
    if (size < 2 || size > 1 << 14)
        return 0;
    fd = memfd_create("binary", 0);
    MUST(fd >= 0 && write(fd, data + 2, size - 2) == (ssize_t)(size - 2));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    whole = run(path, data[0], 1 << 17);
    cut = run(path, data[0], (size_t)data[1] + 1);
    close(fd);
    MUST(whole.rc == cut.rc);
    MUST(whole.rc < 0 || (whole.hash == cut.hash && whole.n_read == cut.n_read));
    kind = ts_binary_kind_find(data + 2, size - 2);
    MUST(kind != NULL || whole.rc < 0);
    if (kind == NULL ||
        kind->header(data + 2, size - 2 < 320 ? size - 2 : 320, &form, &at, &why) < 0) {
        MUST(whole.rc < 0);
        return 0;
    }
    MUST(ts_binary_size(&form) == size - 2 || whole.rc < 0);
    MUST(whole.rc < 0 || whole.n_read == form.nnz);
    MUST(pipe2(end, O_CLOEXEC) == 0 && write(end[1], data + 2, size - 2) == (ssize_t)(size - 2));
    close(end[1]);
    snprintf(path, sizeof path, "/proc/self/fd/%d", end[0]);
    piped = run(path, data[0], (size_t)data[1] + 1);
    close(end[0]);
    if (form.columns)
        MUST(piped.rc < 0);
    else
        MUST((piped.rc < 0) == (whole.rc < 0) && (piped.rc < 0 || piped.hash == whole.hash));
    return 0;
}
