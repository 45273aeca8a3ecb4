/* SPDX-License-Identifier: BSD-3-Clause */
/* settings_page.h - docs/options.md: every setting of a run by its three names, from
 * base/settings.def. */
#ifndef TS_TOOLS_SETTINGS_PAGE_H
#define TS_TOOLS_SETTINGS_PAGE_H

#include <stdio.h>

/* Writes the page, Markdown. What cannot be written shows when `to` is closed. */
void settings_page(FILE *to);

#endif
