/* SPDX-License-Identifier: BSD-3-Clause */
/* name_list.h - numbers the names of one mode that come one behind the other, as they lie on disk
 * (names.h).
 *
 * A name may come several times. So names of several processes, each of which saw a part of the
 * text, get the indices that one process gives them: they come in the order of the text, those of a
 * part as they were seen there.
 *
 *     ts_name_list_add    bytes, cut anywhere
 *     ts_name_list_end    calls conf->label
 *     ts_name_list_next   the index of each name that came
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

/* Uses sorted, bytes, tmp, stop and label of conf. label is called for mode 0. */
int ts_name_list_new(const struct ts_names_conf *conf, struct ts_name_list **ret,
                     struct ts_err *err);
void ts_name_list_free(struct ts_name_list *l); /* NULL is fine */

int ts_name_list_add(struct ts_name_list *l, const char *bytes, size_t n, struct ts_err *err);
int ts_name_list_end(struct ts_name_list *l, struct ts_err *err);

/* After the end: the indices of the next n names, and how many different ones there are. */
int ts_name_list_next(struct ts_name_list *l, uint64_t *index, uint64_t n, struct ts_err *err);
uint64_t ts_name_list_count(const struct ts_name_list *l);

#endif
