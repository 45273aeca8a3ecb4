/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions that all calls of libtstream use: return the version, copy structs that begin with
 * their size, and pass errors and notes on to the caller. */
#include "api/api.h"

#include "config.h"

#include "base/setting.h"

_Static_assert(TS_ERR_MEMORY == (int)TS_ENOMEM && TS_ERR_IO == (int)TS_EIO &&
                   TS_ERR_FORMAT == (int)TS_EFORMAT && TS_ERR_DEVICE == (int)TS_ECUDA &&
                   TS_ERR_LIMIT == (int)TS_ELIMIT && TS_ERR_BUSY == (int)TS_EBUSY &&
                   TS_ERR_ARGUMENT == (int)TS_EARG && TS_ERR_STOPPED == (int)TS_ESTOP,
               "codes are those of base/err.h");
_Static_assert(TS_WORDS_C == (int)TS_WORDS_FIELDS && TS_WORDS_PYTHON == (int)TS_WORDS_KEYWORDS,
               "words are those of base/setting.h");
_Static_assert(sizeof(((ts_error *)NULL)->text) == sizeof(((struct ts_err *)NULL)->text),
               "sentences have one length");
_Static_assert(TS_MODES_MAX == TS_MAX_ORDER, "modes of a tensor");

const char *ts_library_version(void)
{
    return PACKAGE_VERSION;
}

void ts_words(int words)
{
    if (words == TS_WORDS_C || words == TS_WORDS_PYTHON)
        ts_setting_words((enum ts_words)words);
}

int ts_api_end(struct ts_api *a, int rc, ts_error *err)
{
    ts_c_locale_leave(a->before);
    if (err != NULL) {
        err->code = rc;
        err->sys = rc < 0 ? a->err.sys : 0;
        err->text[0] = '\0';
        if (rc < 0)
            memcpy(err->text, a->err.text, sizeof err->text);
    }
    return rc;
}

int ts_api_conf(void *to, size_t room, const void *from, struct ts_err *err)
{
    const unsigned char *bytes = from;
    size_t size;
    memset(to, 0, room);
    if (from == NULL)
        return 0;
    memcpy(&size, from, sizeof size);
    if (size < sizeof size)
        return ts_fail(err, TS_EARG, "a conf must begin with its size");
    memcpy(to, from, size < room ? size : room);
    for (size_t i = room; i < size; i++)
        if (bytes[i] != 0)
            return ts_fail(err, TS_EARG,
                           "a conf asks for what this library (version " PACKAGE_VERSION
                           ") does not know: the program was made for a newer one");
    return 0;
}

int ts_api_rules(const struct ts_api_rule *rule, struct ts_err *err)
{
    while (rule->sentence != NULL && !rule->broken)
        rule++;
    return rule->sentence != NULL ? ts_fail(err, TS_EARG, "%s", rule->sentence) : 0;
}

void ts_api_result(void *ret, const void *from, size_t room)
{
    size_t size;
    if (ret == NULL)
        return;
    memcpy(&size, ret, sizeof size);
    if (size <= sizeof size)
        return;
    memcpy((char *)ret + sizeof size, (const char *)from + sizeof size,
           (size < room ? size : room) - sizeof size);
}

void ts_api_note(const struct ts_api *a, ts_note_fn *note, void *ctx, const struct ts_err *warn)
{
    if (note == NULL || warn->code == 0)
        return;
    ts_api_out(a);
    note(ctx, warn->text);
    ts_api_in();
}
