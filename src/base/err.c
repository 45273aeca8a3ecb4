/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes the message of a failure to a struct ts_err, and shortens it in the middle if it is too
 * long. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/setting.h"

#define WHOLE_CHARS 12288u /* two paths of PATH_MAX and the words around them */
#define HEAD_CHARS  300u   /* bytes that are kept of the start of a message that is too long */

static int inside_character(char c) /* whether a byte of UTF-8 is not the first of a character */
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Shortens a message in the middle, between characters, because its end says what went wrong, and
 * the end of a path is the name of the file. */
static void keep_ends(const char *whole, size_t len, char *text, size_t size)
{
    static const char gap[] = "...";
    size_t head = HEAD_CHARS, tail;
    if (len < size) {
        memcpy(text, whole, len + 1);
        return;
    }
    while (head > 0 && inside_character(whole[head]))
        head--;
    tail = len - (size - 1 - head - (sizeof gap - 1));
    while (tail < len && inside_character(whole[tail]))
        tail++;
    memcpy(text, whole, head);
    memcpy(text + head, gap, sizeof gap - 1);
    memcpy(text + head + sizeof gap - 1, whole + tail, len - tail + 1);
}

/* Fills err. err->text is written last, since the arguments may point into it. */
static int write_sentence(struct ts_err *err, int code, int sys, const char *fmt, va_list ap)
{
    char whole[WHOLE_CHARS];
    size_t len;
    int n;
    if (err == NULL)
        return code;
    n = vsnprintf(whole, sizeof whole, fmt, ap);
    len = n < 0 ? 0 : (size_t)n < sizeof whole ? (size_t)n : sizeof whole - 1;
    whole[len] = '\0';
    if (sys != 0) {
        const char *why = strerror(sys);
        const size_t most = sizeof whole - strlen(why) - 3;
        len = len < most ? len : most;
        len += (size_t)snprintf(whole + len, sizeof whole - len, ": %s", why);
    }
    err->code = code;
    err->sys = sys;
    if (memchr(whole, TS_SET_MARK, len) != NULL) {
        char said[WHOLE_CHARS];
        ts_setting_write(whole, said, sizeof said);
        keep_ends(said, strlen(said), err->text, sizeof err->text);
        return code;
    }
    keep_ends(whole, len, err->text, sizeof err->text);
    return code;
}

int ts_fail(struct ts_err *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    write_sentence(err, code, 0, fmt, ap);
    va_end(ap);
    return code;
}

int ts_vfail(struct ts_err *err, int code, const char *fmt, va_list ap)
{
    return write_sentence(err, code, 0, fmt, ap);
}

int ts_fail_errno(struct ts_err *err, int code, const char *fmt, ...)
{
    const int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    write_sentence(err, code, saved, fmt, ap);
    va_end(ap);
    return code;
}

int ts_no_memory(struct ts_err *err, const char *name)
{
    return ts_fail(err, TS_ENOMEM, "%s: out of memory", name);
}
