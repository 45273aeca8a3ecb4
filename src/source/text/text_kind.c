/* SPDX-License-Identifier: BSD-3-Clause */
/* text_kind.c - finds the kind of a text in the table of kinds. */
#include "source/text/text_kind.h"

#include <string.h>

#define ADDRESS(kind) &ts_text_##kind,
static const struct ts_text_kind *const kinds[] = { TS_TEXT_KINDS(ADDRESS) };

const struct ts_text_kind *ts_text_kind_of(enum ts_text_kind_number number)
{
    return kinds[number];
}

const struct ts_text_kind *ts_text_kind_find(const char *text, size_t bytes)
{
    uint32_t k = 0;
    while (kinds[k]->recognise == NULL || !kinds[k]->recognise(text, bytes))
        k++;
    return kinds[k];
}

int ts_text_kind_has_ending(const char *ending)
{
    for (uint32_t k = 0; k < TS_TEXT_N_KINDS; k++)
        for (const char *const *e = kinds[k]->ending; *e != NULL; e++)
            if (strcmp(*e, ending) == 0)
                return 1;
    return 0;
}
