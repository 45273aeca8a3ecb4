/* SPDX-License-Identifier: BSD-3-Clause */
/* settings_page.h - writes docs/options.md: every setting with its three names, from
 * base/settings.def. */
#ifndef TS_TOOLS_SETTINGS_PAGE_H
#define TS_TOOLS_SETTINGS_PAGE_H

#include <stdio.h>

/* Writes the page as Markdown. Errors of writing are reported when `to` is closed. */
void settings_page(FILE *to);

#endif
