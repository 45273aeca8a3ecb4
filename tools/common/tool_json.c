/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints JSON of the programs; each line on standard output is flushed. */
#include "tools/common/tool.h"

void tool_json_close(struct tool_json *j)
{
    ts_json_close(j);
    if (j->depth > 0)
        return;
    if (j->to == stdout)
        tool_flush();
    else
        fflush(j->to);
}

void tool_json_raw(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text, *const end = s + n;
    while (s < end) {
        size_t bytes = ts_json_utf8_length(s);
        uint32_t c;
        /* invalid UTF-8; the byte is read as Latin-1 */
        if (bytes == 0 || bytes > (size_t)(end - s))
            bytes = 1;
        c = ts_json_code_point(s, bytes);
        if (c < 0x80 && c != 0x7f)
            /* JSON strings cannot have control characters; between members these are line breaks
             * and blanks, which stay */
            putchar((int)c);
        else if ((bytes == 1 || ts_json_acts(c)) && c < 0x10000)
            printf("\\u%04x", c);
        else if (ts_json_acts(c))
            printf("\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
        else
            fwrite(s, 1, bytes, stdout);
        s += bytes;
    }
}

void tool_json_options(struct tool_json *j, const struct ts_cmd *cmd, const void *args)
{
    ts_json_options(j, cmd->opts, args);
}
