/* SPDX-License-Identifier: BSD-3-Clause */
/* tshard_plan.c - tshard plan: the disk space, memory and time of a build, before it starts.
 *
 * A trial build (ts_build_options.trial) takes all steps of the real one over a sample of the text,
 * about SAMPLE_BYTES: pieces spread over plain files, the start of packed files, or some of many
 * small files. Each byte of a gzip file counts as GZIP_RATIO bytes of text. The trial writes to
 * NAME.tsh.building, as the real build does, so it uses the same disks and meets the same errors.
 * All of it is removed at the end. After a kill, the next build of that name removes it.
 *
 * If the sample is all of the text, the figures are those of the build. Otherwise there are two
 * trials, of a quarter of the sample and of the sample, and these figures are extrapolated:
 *
 *   nonzeros  The number read is proportional to the bytes of the files. Sizes, used rows and the
 *             share of duplicates grow as a power of it. The two trials give the exponent, from 0
 *             (the sample shows the whole mode) to 1 (a sorted file goes along the mode).
 *   bytes     The gaps between indices shrink as nonzeros get denser, and so do the bytes of a
 *             nonzero. The entropy bound, log2(cells choose n) / n, falls by 1 bit with each
 *             doubling of n if cells are drawn at random, and by less if they come in clusters. The
 *             fall between the two trials is continued, at most that of the bound.
 *   time      The time of each phase is proportional to what it works on. If the build needs sorted
 *             runs, the sort areas of the trial are smaller in proportion to its text, so it has as
 *             many runs.
 *   memory    Records (unpacked nonzeros) have a known size. Other memory is what a trial used
 *             beside its records. If all records are sorted in memory, the scratch memory of the
 *             sorts grows as between the two trials.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/tools.h"
#include "tools/common/plan_rows.h"
#include "tools/common/tool.h"
#include "tools/tshard.h"

#define SAMPLE_BYTES (UINT64_C(96) << 20)
#define GZIP_RATIO   4
/* words of the smallest area in which a trial sorts records, for a tenth of a second */
#define LEAST_AREA_WORDS (UINT64_C(1) << 20)
/* largest decrease of the bytes of a nonzero for each doubling of nonzeros: 1 bit */
#define MOST_FALL 0.125

struct plan {
    const struct ts_build_options *o;
    struct tool_progress *progress;
    uint32_t n_trials;                /* number of trial builds begun */
    uint64_t input_bytes, text_bytes; /* bytes of all files, and of their text, estimated */
    /* fraction of the text that the sample has, which the last trial reads */
    double share;
    struct ts_build_report trial, quarter;
    /* sort area, in words, of the trial on the whole sample; 0: that of the real build */
    uint64_t trial_area;
    /* peak resident memory after the trial on the whole sample, and after the one on a quarter of
     * it */
    uint64_t trial_peak, quarter_peak;
    double measured_s;

    uint32_t order;
    double n_read, nnz, n_runs;
    double dim[TS_MAX_ORDER], n_rows[TS_MAX_ORDER];
    double shards_bytes[TS_MAX_ORDER], rows_bytes, labels_bytes, index_bytes;
    double disk_bytes, tmp_bytes;
    /* bytes of the records (unpacked nonzeros), and of all other memory */
    double record_bytes, other_bytes;
    struct ts_room room; /* free space on disks before the trials */
    /* bounds of the memory and disk space of the build, from all that is known */
    struct ts_need need;
    struct ts_err refused, may_lack; /* failures that the build would report; code 0: none */
    double read_s, merge_s, pack_s, sync_s;
};

/* ---- the input files ---- */

static int count_file(const char *path, struct plan *p, struct ts_err *err)
{
    unsigned char head[2] = { 0 };
    struct stat st;
    int fd;
    if (strcmp(path, "-") == 0)
        return ts_fail(err, TS_EARG,
                       "standard input has no size, and could not be read again for the "
                       "build: a plan needs files");
    if (stat(path, &st) != 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be opened", path);
    if (!S_ISREG(st.st_mode))
        return ts_fail(err, TS_EARG, "%s: not a regular file, which a plan needs", path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ts_fail_errno(err, TS_EIO, "%s: cannot be opened", path);
    if (pread(fd, head, sizeof head, 0) < 0)
        head[0] = 0; /* the error is ignored here: opening the input later reports it */
    close(fd);
    p->input_bytes += (uint64_t)st.st_size;
    p->text_bytes += (uint64_t)st.st_size * (head[0] == 0x1f && head[1] == 0x8b ? GZIP_RATIO : 1);
    return 0;
}

/* ---- the trial builds ---- */

static void show_trial(void *arg, const struct ts_build_step *step)
{
    struct plan *p = arg;
    char what[TOOL_PROGRESS_CHARS];
    snprintf(what, sizeof what, "sample %" PRIu32 " of %d, %s", p->n_trials, p->share < 1 ? 2 : 1,
             step->what);
    if (strcmp(p->progress->what, what) != 0)
        tool_progress_start(p->progress, what, strcmp(step->unit, "bytes") == 0 ? "bytes" : "",
                            step->phase == 1 && p->share < 1 ? 0 : step->total);
    tool_progress_update(p->progress, step->done);
}

static int try_build(const struct tshard_build_job *job, struct plan *p, double share,
                     uint64_t area_words, int maps, struct ts_build_report *ret, struct ts_err *err)
{
    struct ts_build_options o = *job->o;
    struct ts_err why;
    int rc;
    p->n_trials++;
    o.progress = show_trial;
    o.progress_arg = p;
    o.note = NULL;
    o.trial = share;
    o.force = 1; /* allowed, because a trial replaces no tensor */
    o.area_words = area_words;
    if (!maps)
        memset(o.map, 0, sizeof o.map);
    rc = ts_build_paths(&o, job->paths, job->n_paths, ret, &why);
    if (rc == TS_EIO && ret->refused.code != 0) { /* the disk is too small even for the trial */
        if (err != NULL)
            *err = ret->refused;
        return rc;
    }
    if (rc == TS_EFORMAT && share < 1 && !ret->binary)
        return ts_fail(err, rc, "%s (lines are counted in the sample that was read)", why.text);
    if (rc < 0 && err != NULL)
        *err = why;
    return rc;
}

/* Returns the words of the memory area in which the real build sorts records. */
static uint64_t area_words(const struct plan *p, uint32_t order)
{
    struct ts_build_memory m;
    ts_build_memory_share(p->o, order, &m);
    return m.area_words;
}

/* Returns the sort area of the next trial in words, after trial r on a quarter of the sample. 0:
 * the area of the real build. */
static uint64_t trial_area(const struct plan *p, const struct ts_build_report *r)
{
    const uint64_t area = area_words(p, r->order);
    const double words =
        (double)r->input_nnz * r->read_words * (double)p->input_bytes / (double)(r->text_bytes + 1);
    const uint64_t small = (uint64_t)((double)area * p->share);
    if (words < (double)area)
        return 0;
    return small > area ? area : small < LEAST_AREA_WORDS ? LEAST_AREA_WORDS : small;
}

static int try_all(const struct tshard_build_job *job, struct plan *p, struct ts_err *err)
{
    const uint64_t start = ts_clock_ns();
    int rc = 0;
    p->share = p->text_bytes <= SAMPLE_BYTES ? 1 : (double)SAMPLE_BYTES / (double)p->text_bytes;
    if (p->share < 1) {
        rc = try_build(job, p, p->share / 4, 0, 0, &p->quarter, err);
        p->trial_area = rc == 0 ? trial_area(p, &p->quarter) : 0;
        p->quarter_peak = ts_machine_peak_bytes();
    }
    if (rc == 0)
        rc = try_build(job, p, p->share, p->trial_area, 1, &p->trial, err);
    p->trial_peak = ts_machine_peak_bytes();
    p->measured_s = (double)(ts_clock_ns() - start) * 1e-9;
    return rc;
}

/* ---- extrapolation from the trials to the build ---- */

/* Extrapolates a count (such as used rows) as a power of the number of nonzeros, from its values in
 * both trials. times: nonzeros of the build per nonzero of the trial. */
static double grown(const struct plan *p, double quarter, double trial, double times)
{
    const double by = (double)p->trial.input_nnz / (double)(p->quarter.input_nnz + 1);
    double exponent;
    if (p->share >= 1 || quarter <= 0 || trial <= quarter || by <= 1)
        return trial;
    exponent = log(trial / quarter) / log(by);
    return trial * pow(times, exponent < 1 ? exponent : 1);
}

/* Returns the bytes that a nonzero takes in the copy of mode m. */
static double packed_per_nnz(const struct plan *p, uint32_t m)
{
    const struct ts_build_report *t = &p->trial, *q = &p->quarter;
    const double b = (double)t->shards_bytes[m] / (double)t->nnz;
    const double before = (double)q->shards_bytes[m] / (double)q->nnz;
    double fall;
    if (t->nnz <= q->nnz)
        return b;
    fall = (before - b) / log2((double)t->nnz / (double)q->nnz);
    fall = fmin(fall, MOST_FALL);
    return fmax(b - fall * log2(p->nnz / (double)t->nnz), b / 4);
}

static void extrapolate_size(struct plan *p)
{
    const struct ts_build_report *t = &p->trial, *q = &p->quarter;
    const double times = p->share >= 1 ? 1 : (double)p->input_bytes / (double)t->text_bytes;
    const double kept = (double)t->nnz + (double)t->n_zeros;
    const double merged = 1 - kept / (double)t->input_nnz;
    const double merged_before =
        p->share >= 1 ? 0 : 1 - (double)(q->nnz + q->n_zeros) / (double)q->input_nnz;
    const double zeros = (double)t->n_zeros * times;
    double packed = 0, packed_trial = 0;
    p->order = t->order;
    p->n_read = (double)t->input_nnz * times;
    p->nnz = p->n_read * (1 - fmin(grown(p, merged_before, merged, times), 1)) - zeros;
    p->nnz = fmax(p->share >= 1 ? (double)t->nnz : round(p->nnz), (double)t->nnz);
    for (uint32_t m = 0; m < p->order; m++) {
        p->dim[m] = round(grown(p, (double)q->dim[m], (double)t->dim[m], times));
        p->n_rows[m] =
            round(fmin(grown(p, (double)q->n_rows[m], (double)t->n_rows[m], times), p->dim[m]));
        p->shards_bytes[m] =
            p->share >= 1 ? (double)t->shards_bytes[m] : packed_per_nnz(p, m) * p->nnz;
        p->rows_bytes += (double)t->rows_bytes[m] * p->n_rows[m] / (double)t->n_rows[m];
        p->labels_bytes += (double)t->labels_bytes[m];
        packed += p->shards_bytes[m];
        packed_trial += (double)t->shards_bytes[m];
    }
    p->index_bytes = (double)t->index_bytes * packed / packed_trial;
    /* the files `sums` and `options`, which have about the same size in the real build */
    p->index_bytes += (double)(sizeof(struct ts_disk_sums) + t->options_bytes);
    p->disk_bytes = packed + p->rows_bytes + p->labels_bytes + p->index_bytes;
}

/* Returns the bounds of memory and disk for the extrapolated build, by the function with which a
 * build checks them. */
static struct ts_need need_of(const struct plan *p)
{
    const struct ts_build_report *t = &p->trial;
    struct ts_build_space_in in = { .o = p->o, .order = p->order };
    const uint64_t read = (uint64_t)(p->n_read - (double)t->n_zeros), nnz = (uint64_t)p->nnz;
    struct ts_need ret;
    in.value_bits = p->o->weights ? 64 : 8 * p->o->value_bytes;
    in.read = (struct ts_space){ read, read };
    in.nnz = (struct ts_space){ nnz, nnz };
    in.names_bytes = (uint64_t)p->labels_bytes;
    for (uint32_t m = 0; m < p->order; m++) {
        const uint64_t dim = (uint64_t)p->dim[m], copy = (uint64_t)p->shards_bytes[m];
        in.dim[m] = (struct ts_space){ dim, dim };
        in.copy[m] = (struct ts_space){ copy, copy };
    }
    ts_build_space_estimate(&in, &ret);
    return ret;
}

static void extrapolate_runs(struct plan *p)
{
    const struct ts_build_report *t = &p->trial;
    const double words = (p->n_read - (double)t->n_zeros) * t->read_words;
    const double area = (double)area_words(p, p->order);
    p->n_runs = p->share >= 1 ? (double)t->n_runs : words <= area ? 0 : ceil(words / area);
    p->tmp_bytes = p->n_runs == 0 ? 0 : (double)need_of(p).tmp.high;
}

/* Returns the bytes of the records of a trial, which are sorted in an area of `words` words. */
static double record_bytes(const struct ts_build_report *r, double words)
{
    return 16 * fmin((double)r->input_nnz * r->read_words, words);
}

/* Returns how much more scratch memory the sorts of the build take than those of the trial. It
 * depends on how indices cluster; the upper bound is a copy of all records. */
static double more_scratch(const struct plan *p, double other_quarter, double other_trial)
{
    const struct ts_build_report *t = &p->trial, *q = &p->quarter;
    struct ts_build_memory m;
    double each, most;
    if (p->share >= 1 || p->n_runs > 0 || t->input_nnz <= q->input_nnz)
        return 0;
    ts_build_memory_share(p->o, p->order, &m);
    most = 8 * fmin((double)m.scratch_words, p->nnz * t->packed_words);
    each = fmax(other_trial - other_quarter, 0) / (double)(t->input_nnz - q->input_nnz);
    return fmin(each * (p->n_read - (double)t->input_nnz), most);
}

/* Extrapolates the memory of the build. Records are in two sort areas; other memory is the peak
 * resident memory of a trial without its records. */
static void extrapolate_memory(struct plan *p)
{
    const double area = (double)area_words(p, p->order);
    const double of_trial = p->trial_area > 0 ? (double)p->trial_area : area;
    const double other_trial = (double)p->trial_peak - record_bytes(&p->trial, of_trial);
    const double other_quarter = (double)p->quarter_peak - record_bytes(&p->quarter, area);
    p->record_bytes = 16 * fmin(p->n_read * p->trial.read_words, area);
    p->other_bytes = fmax(p->trial_peak > p->quarter_peak ? other_trial : other_quarter, 0) +
                     more_scratch(p, other_quarter, other_trial);
}

static void extrapolate_time(struct plan *p)
{
    const struct ts_build_report *t = &p->trial;
    double bytes = 0, packed = 0;
    const double times = p->share >= 1 ? 1 : (double)p->input_bytes / (double)t->text_bytes;
    for (uint32_t m = 0; m < p->order; m++) {
        bytes += p->shards_bytes[m];
        packed += (double)t->shards_bytes[m];
    }
    p->read_s = 1e-9 * (double)t->read_ns * times;
    p->merge_s = 1e-9 * (double)t->merge_ns * times;
    p->pack_s = 1e-9 * (double)t->pack_ns * p->nnz / (double)t->nnz;
    p->sync_s = 1e-9 * (double)t->sync_ns * bytes / packed;
}

/* Finds the failures that the build would report: before it reads, from its own bounds; and after
 * reading, from the figures of the trials. If the trial read all text, its bounds are those of the
 * build. */
static void judge(struct plan *p)
{
    const struct ts_build_report *t = &p->trial;
    struct ts_need found = need_of(p);
    found.memory.low = (uint64_t)p->record_bytes;
    found.memory.high = (uint64_t)(p->record_bytes + p->other_bytes);
    p->need = p->share >= 1 ? found : t->need[TS_NEED_BEFORE];
    p->need.memory = found.memory;
    p->refused = t->refused;
    if (p->refused.code == 0)
        (void)ts_room_check(&p->room, &found,
                            p->share >= 1 ? "it would not be built"
                                          : "by a sample of the input it would not be built",
                            &p->refused);
    if (p->refused.code == 0)
        (void)ts_room_may_lack(&p->room, &p->need, "", &p->may_lack);
}

static double seconds(const struct plan *p)
{
    return p->read_s + p->merge_s + p->pack_s + p->sync_s;
}

/* ---- the plan as a table ---- */

static void free_note(char *note, size_t size, uint64_t bytes)
{
    char a[TS_NUM_CHARS];
    snprintf(note, size, "of %s free", bytes == UINT64_MAX ? "?" : ts_num_bytes(a, bytes));
}

static const char *verdict(const struct plan *p)
{
    return p->refused.code != 0 ? "no" : p->may_lack.code != 0 ? "perhaps" : "yes";
}

/* Returns the bounds of the space that the build takes on the disk of the result. */
static struct ts_space on_disk(const struct plan *p)
{
    return ts_room_is_one_disk(&p->room) ? p->need.both : p->need.result;
}

static void print_verdict(const struct plan *p)
{
    const struct ts_space s = on_disk(p);
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], note[80];
    if (s.high == UINT64_MAX)
        snprintf(note, sizeof note, "disk: %s or more", ts_num_bytes(a, s.low));
    else
        snprintf(note, sizeof note, "disk: %s to %s", ts_num_bytes(a, s.low),
                 ts_num_bytes(b, s.high));
    plan_row("fits here", verdict(p), note);
}

static void print_disk(const struct plan *p)
{
    char a[TS_NUM_CHARS], note[80], what[40];
    printf("disk\n");
    for (uint32_t m = 0; m < p->order; m++) {
        snprintf(what, sizeof what, "shards of mode %" PRIu32, m + 1);
        snprintf(note, sizeof note, "%.2f bytes for each nonzero", p->shards_bytes[m] / p->nnz);
        plan_bytes_row(what, p->shards_bytes[m], note);
    }
    plan_bytes_row("rows, names, index", p->rows_bytes + p->labels_bytes + p->index_bytes, "");
    free_note(note, sizeof note, p->room.out.bytes);
    plan_bytes_row("in all", p->disk_bytes, note);
    if (p->n_runs == 0) {
        plan_row("temporary files", "none", "all is sorted in memory");
        return;
    }
    free_note(note, sizeof note, p->room.in_tmp.bytes);
    plan_bytes_row("temporary files", p->tmp_bytes, note);
    plan_row("sorted runs through them", ts_num_count(a, (uint64_t)p->n_runs), "");
}

static void print_text(const struct plan *p)
{
    char a[TS_NUM_CHARS], b[TS_NUM_CHARS], note[80], out[4096];
    const double memory = p->record_bytes + p->other_bytes;
    printf("%s, %s, %" PRIu32 " thread%s\n", tool_plain(p->o->out, out, sizeof out),
           p->o->value_bytes == 4 ? "float32" : "float64", p->o->threads,
           tool_plural(p->o->threads));
    printf("tensor\n");
    plan_row("nonzeros", ts_num_short(a, p->nnz), p->share >= 1 ? "all were read" : "about");
    for (uint32_t m = 0; m < p->order; m++) {
        char what[40];
        snprintf(what, sizeof what, "size of mode %" PRIu32, m + 1);
        snprintf(note, sizeof note, "%s used", ts_num_short(b, p->n_rows[m]));
        plan_row(what, ts_num_short(a, p->dim[m]), note);
    }
    print_disk(p);
    printf("memory\n");
    plan_bytes_row("records, to sort them", p->record_bytes, "two areas");
    plan_bytes_row("reading, packing, program", p->other_bytes, "");
    free_note(note, sizeof note, p->room.memory_bytes);
    plan_bytes_row("in all", memory, note);
    plan_bytes_row("allowed: --memory and 24 MiB", (double)p->o->memory + (24 << 20), "");
    print_verdict(p);
    printf("time\n");
    snprintf(note, sizeof note, "%s of input", ts_num_bytes(a, p->input_bytes));
    plan_time_row("reading", p->read_s, note);
    plan_time_row("merging, numbering", p->merge_s, "");
    plan_time_row("packing", p->pack_s, "");
    plan_time_row("writing", p->sync_s, "");
    snprintf(note, sizeof note, "%s nonzeros/s", ts_num_short(a, p->n_read / (seconds(p) + 1e-9)));
    plan_time_row("in all", seconds(p), note);
    if (p->share >= 1)
        printf("measured here in %s: built from all of the input\n",
               ts_num_duration(a, (uint64_t)(p->measured_s * 1e9)));
    else
        printf("measured here in %s: built from %.3g %% of the input, the rest extrapolated\n",
               ts_num_duration(a, (uint64_t)(p->measured_s * 1e9)),
               100 * (double)p->trial.text_bytes / (double)p->input_bytes);
}

/* ---- the plan as JSON ---- */

/* Prints a number, or null for UINT64_MAX (unknown). */
static void json_known(struct tool_json *j, const char *key, uint64_t x)
{
    if (x == UINT64_MAX)
        tool_json_f64(j, key, NAN);
    else
        tool_json_u64(j, key, x);
}

static void json_bytes(struct tool_json *j, const char *key, double x)
{
    if (x < 0)
        tool_json_f64(j, key, NAN);
    else
        tool_json_u64(j, key, (uint64_t)x);
}

static void print_json(const struct ts_cmd *cmd, const struct tshard_build_job *job,
                       const struct plan *p)
{
    struct tool_json j;
    tool_json_open(&j, stdout);
    tool_json_str(&j, "event", "plan");
    tool_json_str(&j, "tensor", p->o->out);
    tool_json_array(&j, "shape");
    for (uint32_t m = 0; m < p->order; m++)
        json_bytes(&j, NULL, p->dim[m]);
    tool_json_close(&j);
    json_bytes(&j, "nnz", p->nnz);
    json_bytes(&j, "read", p->n_read);
    tool_json_bool(&j, "exact", p->share >= 1);
    tool_json_u64(&j, "input_bytes", p->input_bytes);
    tool_json_object(&j, "disk");
    tool_json_array(&j, "shards_bytes");
    for (uint32_t m = 0; m < p->order; m++)
        json_bytes(&j, NULL, p->shards_bytes[m]);
    tool_json_close(&j);
    json_bytes(&j, "rows_bytes", p->rows_bytes);
    json_bytes(&j, "labels_bytes", p->labels_bytes);
    json_bytes(&j, "index_bytes", p->index_bytes);
    json_bytes(&j, "total_bytes", p->disk_bytes);
    json_known(&j, "free_bytes", p->room.out.bytes);
    json_bytes(&j, "tmp_bytes", p->tmp_bytes);
    json_known(&j, "tmp_free_bytes", p->room.in_tmp.bytes);
    json_known(&j, "least_bytes", on_disk(p).low);
    json_known(&j, "most_bytes", on_disk(p).high);
    tool_json_close(&j);
    json_bytes(&j, "runs", p->n_runs);
    tool_json_object(&j, "memory");
    tool_json_u64(&j, "budget_bytes", p->o->memory);
    json_bytes(&j, "record_bytes", p->record_bytes);
    json_bytes(&j, "other_bytes", p->other_bytes);
    json_bytes(&j, "total_bytes", p->record_bytes + p->other_bytes);
    tool_json_u64(&j, "free_bytes", p->room.memory_bytes);
    tool_json_close(&j);
    tool_json_str(&j, "fits", verdict(p));
    tool_json_u64(&j, "threads", p->o->threads);
    tool_json_f64(&j, "seconds", seconds(p));
    tool_json_f64(&j, "read_seconds", p->read_s);
    tool_json_f64(&j, "merge_seconds", p->merge_s);
    tool_json_f64(&j, "pack_seconds", p->pack_s);
    tool_json_f64(&j, "sync_seconds", p->sync_s);
    tool_json_object(&j, "measured");
    tool_json_f64(&j, "seconds", p->measured_s);
    tool_json_f64(&j, "share_of_text", (double)p->trial.text_bytes / (double)p->input_bytes);
    tool_json_u64(&j, "nnz", p->trial.nnz);
    tool_json_close(&j);
    tool_json_options(&j, cmd, job->args);
    tool_json_close(&j);
}

/* ---- the command ---- */

static int plan_all(const struct ts_cmd *cmd, const struct tshard_build_job *job, struct plan *p,
                    struct ts_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < job->n_paths && rc == 0; i++)
        rc = count_file(job->paths[i], p, err);
    tool_progress_start(job->progress, "looking at the files", "", 0);
    if (rc == 0)
        rc = try_all(job, p, err);
    tool_progress_end(job->progress);
    if (rc < 0)
        return rc;
    extrapolate_size(p);
    extrapolate_runs(p);
    extrapolate_memory(p);
    extrapolate_time(p);
    judge(p);
    if (job->json)
        print_json(cmd, job, p);
    else
        print_text(p);
    if (p->may_lack.code != 0)
        tool_progress_warn(p->may_lack.text);
    if (p->refused.code == 0 || p->o->no_space_check)
        return 0;
    *err = p->refused;
    return err->code;
}

static int plan(const struct ts_cmd *cmd, const struct tshard_build_job *job, struct ts_err *err)
{
    struct plan p = { .o = job->o, .progress = job->progress };
    int rc;
    ts_room_look("the build", job->o->out, job->o->tmp, &p.room);
    rc = plan_all(cmd, job, &p, err);
    ts_room_free(&p.room);
    return rc;
}

static int run_plan(const struct ts_cmd *cmd, int argc, char **argv)
{
    return tshard_build_command(cmd, argc, argv, plan);
}

const struct ts_cmd tshard_plan_cmd = {
    .program = "tshard",
    .name = "plan",
    .operands = "[FILE...]",
    .min_operands = 0,
    .max_operands = UINT32_MAX,
    .summary = "estimate the disk space, memory and time of a build",
    .text =
        "Takes the files and options of tshard build and prints what that build would need. It "
        "shows disk space for shards and for temporary files, the number of sorted runs, memory, "
        "and the time of each phase.\n\n"
        "It ends with a verdict on the disk space. yes: the largest possible need is free. no: "
        "the smallest possible need is not free; this is an error unless --no-space-check is "
        "given. perhaps: free space is between the two; this is a warning. All other errors of "
        "tshard build are errors here as well.\n\n"
        "The figures come from a build of a sample, which takes a few seconds. The sample is "
        "about 96 MiB: pieces of each file, the start of a gzip file, or some of many small "
        "files. It is built in "
        "NAME.tsh.building, where the result would be, and then removed. If the files are small "
        "enough to be read whole, all figures but time and memory are exact. Otherwise nonzeros "
        "are assumed to grow with the size of the files. The bytes per nonzero follow the trend "
        "from a quarter of the sample to the whole sample.\n\n"
        "Without files, --nnz and --dims describe a tensor that does not exist yet. The plan then "
        "prints bounds that hold for any tensor of these sizes, without labels. --memory and "
        "--disk may be those of another machine.",
    .examples =
        "tshard plan amazon.tns.gz --memory 4G --tmp /scratch\n  is there room for it, and how long does it take?\n"
        "tshard plan --nnz 5G --dims 9000000x2000000x400 --memory 64G --disk 2T\n  is another machine large enough for a tensor that does not exist yet?\n",
    .opts = tshard_plan_opts,
    .headings = tshard_build_headings,
    .section = tshard_build_section,
    .brief = TSHARD_BUILD_BRIEF,
    .run = run_plan,
};
