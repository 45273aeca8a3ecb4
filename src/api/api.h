/* SPDX-License-Identifier: BSD-3-Clause */
/* api.h - what all functions of include/tstream.h use: the locale of messages, errors, and structs
 * of other versions.
 *
 * A function that can fail calls ts_api_begin first and ts_api_end last. In between, the thread has
 * the locale "C", so that messages have numbers such as 0.5 whatever the program's locale is. A
 * failure in between is a struct ts_err.
 *
 *   threads  a struct ts_api belongs to one call
 */
#ifndef TS_API_API_H
#define TS_API_API_H

#include <stddef.h>
#include <string.h>

#include <tstream.h>

#include "base/c_locale.h"
#include "base/err.h"
#include "format/layout.h"

struct ts_api {
    struct ts_err err;
    locale_t before;
};

static inline void ts_api_begin(struct ts_api *a)
{
    a->err.code = a->err.sys = 0;
    a->before = ts_c_locale_enter();
}

/* Called before and after the library calls a function of the caller, which must run in the
 * caller's locale. */
static inline void ts_api_out(const struct ts_api *a)
{
    ts_c_locale_leave(a->before);
}

static inline void ts_api_in(void)
{
    (void)ts_c_locale_enter();
}

/* Ends a call: returns rc, and copies the message of a failure to *err. */
int ts_api_end(struct ts_api *a, int rc, ts_error *err);

/* Copies a configuration struct (ts_..._conf), which begins with its size and may be of an older or
 * newer version of this library. Members that it lacks become zero; members that this library does
 * not know must be zero. from NULL: all members are zero. */
int ts_api_conf(void *to, size_t room, const void *from, struct ts_err *err);
#define TS_API_CONF(to, from, err) ts_api_conf(to, sizeof *(to), from, err)

/* Copies a result to the caller's struct, which may be of an older or newer version: only the
 * members that this struct has. ret may be NULL. */
void ts_api_result(void *ret, const void *from, size_t room);

/* A condition that makes a request impossible, and its message. */
struct ts_api_rule {
    int broken;
    const char *sentence; /* the message; NULL marks the end of the rules */
};

/* Returns TS_EARG with the sentence of the first broken rule, or 0. */
int ts_api_rules(const struct ts_api_rule *rule, struct ts_err *err);
#define TS_API_REFUSE(err, ...) \
    ts_api_rules((const struct ts_api_rule[]){ __VA_ARGS__, { 0, NULL } }, err)

/* Calls the caller's function `note` with the warning, unless warn->code is 0 or `note` is NULL. */
void ts_api_note(const struct ts_api *a, ts_note_fn *note, void *ctx, const struct ts_err *warn);

/* Whether a decomposition can have this shape: TS_EARG if not. */
int ts_api_check_shape(uint32_t order, const uint64_t *dim, uint32_t rank, int precision,
                       struct ts_err *err);

/* Copies the weights of all components, which must be finite. */
int ts_api_take_weights(struct ts_kruskal *k, const double *weight, struct ts_err *err);

#endif
