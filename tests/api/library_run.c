/* SPDX-License-Identifier: BSD-3-Clause */
/* library_run TENSOR.tsh OUT SWEEPS STOP SEEN: a run of the library, for scripts that look at what
 * it leaves. It is asked to stop after sweep STOP (0: never), and copies status.json to SEEN at the
 * end of the first sweep. Prints the sentence of a failure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tstream.h>

struct watch {
    const char *out, *seen;
    uint32_t stop;
};

static int swept(void *ctx, const ts_sweep *s)
{
    const struct watch *w = ctx;
    char name[4096], text[65536];
    FILE *from, *to;
    size_t n;
    if (s->sweep == 1) {
        snprintf(name, sizeof name, "%s.partial/status.json", w->out);
        from = fopen(name, "r");
        to = fopen(w->seen, "w");
        if (from == NULL || to == NULL)
            exit(3);
        n = fread(text, 1, sizeof text, from);
        if (fwrite(text, 1, n, to) != n || fclose(to) != 0)
            exit(3);
        fclose(from);
    }
    return s->sweep == w->stop;
}

static int fail(const ts_error *err)
{
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

int main(int argc, char **argv)
{
    const double l2[TS_MODES_MAX] = { 0.01 };
    ts_session_conf sc = { .size = sizeof sc, .rank = 2, .cpu = 1, .threads = 2, .checkpoints = 1 };
    ts_cp_conf conf = { .size = sizeof conf, .l2 = l2, .replace = 1 };
    struct watch w;
    ts_tensor *t;
    ts_session *s;
    ts_cpd *c;
    ts_error err;
    if (argc != 6)
        return 2;
    w = (struct watch){ .out = argv[2], .seen = argv[5], .stop = (uint32_t)atoi(argv[4]) };
    conf.out = argv[2];
    conf.sweeps = (uint32_t)atoi(argv[3]);
    conf.sweep = swept;
    conf.ctx = &w;
    t = ts_open(argv[1], &err);
    s = t == NULL ? NULL : ts_session_open(t, &sc, &err);
    c = s == NULL ? NULL : ts_cp(s, &conf, NULL, &err);
    ts_cpd_free(c);
    ts_session_close(s);
    ts_close(t);
    return c == NULL ? fail(&err) : 0;
}
