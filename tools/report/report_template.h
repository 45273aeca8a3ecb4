/* SPDX-License-Identifier: BSD-3-Clause */
/* report_template.h - fills a template with a JSON object, and makes a page of HTML that is also
 * well-formed XML.
 *
 * The template is text with tags between two braces each. A path is a name, or names with dots
 * between. The first name is looked up in the object of the innermost section, then in those
 * around it. A dot alone is the object of the section itself.
 *
 *   {{path}}            its text, escaped
 *   {{%.3g path}}       a number in a format of printf
 *   {{word path}}       a word of the list in report_template.c, such as count, or a drawing
 *                       (report_draw.h)
 *   {{#path}}...{{/}}   for each element of an array; else once, unless it is missing, null, false,
 *                       0 or empty
 *   {{^path}}...{{/}}   once, in the other case
 *   {{#path=text}}      if its text is that; {{#path==path}} if two have the same text
 *   {{#path<0}}         if a number, or the length of an array, is below or above (>) a limit
 *   {{@rest}}           used as a path: true except in the first element of the innermost array
 *
 *   owner    the caller owns all of it
 *   errors   a failed write stays an error of the FILE, to be checked at its end. The template is
 *            part of the program: asserts check it
 */
#ifndef TS_TOOLS_REPORT_TEMPLATE_H
#define TS_TOOLS_REPORT_TEMPLATE_H

#include <stdio.h>

#include "api/tools.h"

void report_template_put(FILE *to, const char *template, const struct ts_json_value *figures);

#endif
