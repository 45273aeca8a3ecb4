/* SPDX-License-Identifier: BSD-3-Clause */
/* report_page.h - the page of tstream report: one HTML file without anything that is fetched.
 *
 *   owner    the caller owns all of it
 *   units    characters of names; the size of the page is about 200 kB + 5 kB for each component and mode at most
 *   errors   those of the file, which is asked at its end
 */
#ifndef TS_TOOLS_REPORT_PAGE_H
#define TS_TOOLS_REPORT_PAGE_H

#include <stdio.h>

#include "tools/report_figures.h"

struct report_page {
    const struct model_view *view;
    const struct report_scan *scan;
    const struct report_figures *figures;
    const struct ts_models_table *models; /* computed with this one */
};

/* Writes the page. */
void report_page_put(FILE *to, const struct report_page *p);

#endif
