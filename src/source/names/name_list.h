/* SPDX-License-Identifier: BSD-3-Clause */
/* name_list.h - numbers the names of one mode that are given one after another, in the form in
 * which they are on disk (names.h).
 *
 * A name may be given several times. This gives names of several ranks, each of which read a part
 * of the text, the same indices as one process does, if they are given in the order of the text.
 *
 *     ts_name_list_add    takes bytes of names, cut anywhere
 *     ts_name_list_end    calls conf->label with each different name
 *     ts_name_list_next   returns the index of each name that was given
 *
 *   owner    the list owns memory and files
 *   units    bytes, names
 *   threads  one at a time
 *   errors   0 or a negative ts_code; TS_ESTOP when *conf->stop is set
 */
#ifndef TS_SOURCE_NAME_LIST_H
#define TS_SOURCE_NAME_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "source/names/names.h"

struct ts_name_list;

/* Makes a list. Of conf it uses sorted, bytes, tmp, stop and label, which is called for mode 0. */
int ts_name_list_new(const struct ts_names_conf *conf, struct ts_name_list **ret,
                     struct ts_err *err);
void ts_name_list_free(struct ts_name_list *l); /* l may be NULL */

int ts_name_list_add(struct ts_name_list *l, const char *bytes, size_t n, struct ts_err *err);
int ts_name_list_end(struct ts_name_list *l, struct ts_err *err);

/* To be called after end: next returns the indices of the next n names, and count the number of
 * different names. */
int ts_name_list_next(struct ts_name_list *l, uint64_t *index, uint64_t n, struct ts_err *err);
uint64_t ts_name_list_count(const struct ts_name_list *l);

#endif
