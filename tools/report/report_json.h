/* SPDX-License-Identifier: BSD-3-Clause */
/* report_json.h - writes the figures of a decomposition as one JSON object, with all that its page
 * shows.
 *
 * docs/outputs.md lists the keys. The page (report_template.h) is drawn from this object alone.
 *
 *   owner    the caller owns all of it
 *   errors   a failed write stays an error of the FILE, to be checked at its end
 */
#ifndef TS_TOOLS_REPORT_JSON_H
#define TS_TOOLS_REPORT_JSON_H

#include <stdio.h>

#include "tools/report/report_figures.h"

struct report_parts {
    const struct model_view *view;
    const struct report_scan *scan;
    const struct report_figures *figures;
    /* table of the models that were computed together with the model shown */
    const struct ts_models_table *models;
};

/* How a run treats cells that its tensor does not list: "zeros" or "unknown". NULL if there is no
 * run.json, or if the tensor lists all cells. */
const char *report_unlisted(const struct ts_json_value *run);

void report_json_put(FILE *to, const struct report_parts *p);

#endif
