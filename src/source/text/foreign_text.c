/* SPDX-License-Identifier: BSD-3-Clause */
/* foreign_text.c - lists formats of other programs whose files are refused, each with advice how to
 * convert them. */
#include "source/text/foreign_text.h"

#include <string.h>
#include <strings.h>

#include "source/packed/decompress.h"

#define FRAME(reader) \
    "in Python, pandas." reader "(FILE).to_csv(\"table.csv\", index=False) makes a table of it"

/* The formats and their first bytes (magic). The first entry whose magic matches a file counts. */
static const struct foreign {
    const char *magic;
    size_t bytes; /* number of bytes of the magic */
    const char *what, *how;
} foreign[] = {
    { "PAR1", 4, "a Parquet file", FRAME("read_parquet") },
    { "ARROW1", 6, "a Feather or Arrow file", FRAME("read_feather") },
    { "FEA1", 4, "a Feather file of version 1", FRAME("read_feather") },
    { "MATLAB ", 7, "a MATLAB file",
      "write its nonzeros as text there, an index for each mode and a value to a line, or read it "
      "with scipy.io.loadmat and build with tstream.from_coo in Python" },
    { "SQLite format 3", 15, "an SQLite database",
      "sqlite3 -csv -header FILE 'select ...' prints a table of it" },
    { "RDX2\n", 5, "data of R",
      "write.csv(x, \"table.csv\", row.names = FALSE) makes a table there" },
    { "RDX3\n", 5, "data of R",
      "write.csv(x, \"table.csv\", row.names = FALSE) makes a table there" },
    { "X\n\0\0\0", 5, "data of R",
      "write.csv(x, \"table.csv\", row.names = FALSE) makes a table there" },
    { "\x80\x02", 2, "a Python pickle", FRAME("read_pickle") },
    { "\x80\x03", 2, "a Python pickle", FRAME("read_pickle") },
    { "\x80\x04", 2, "a Python pickle", FRAME("read_pickle") },
    { "\x80\x05", 2, "a Python pickle", FRAME("read_pickle") },
    { "%PDF-", 5, "a PDF document", "look for the data that it was made of" },
    { "{\"", 2, "JSON", FRAME("read_json") " (lines=True for an object on each line)" },
    { "[{\"", 3, "JSON", FRAME("read_json") },
    { "<!DOCTYPE html", 14, "a web page",
      "a server may send one in place of a file: look at it, and download the file again" },
    { "<html", 5, "a web page",
      "a server may send one in place of a file: look at it, and download the file again" },
};

/* Whether the text is UTF-16: it has a byte order mark, or NUL in every other byte. */
static int is_utf16(const char *text, size_t bytes)
{
    const size_t n = bytes < 64 ? bytes / 2 : 32;
    size_t even = 0, odd = 0;
    if (bytes >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return 1;
    for (size_t i = 0; i < n; i++) {
        even += text[2 * i] == '\0';
        odd += text[2 * i + 1] == '\0';
    }
    return n >= 4 && ((even == n && odd == 0) || (odd == n && even == 0));
}

static int fails(const char *name, const char *what, const char *advice, struct ts_err *err)
{
    return ts_fail(err, TS_EFORMAT, "%s: this is %s, not text that lists nonzeros; %s", name, what,
                   advice);
}

int ts_foreign_text_check(const char *name, const char *text, size_t bytes, struct ts_err *err)
{
    const struct ts_decompressor *d = ts_decompress_find((const unsigned char *)text, bytes);
    if (d != NULL)
        return ts_fail(err, TS_EFORMAT,
                       "%s: it was packed twice: inside are %s data; unpack the outer ones first",
                       name, d->name);
    if (is_utf16(text, bytes))
        return ts_fail(err, TS_EFORMAT,
                       "%s: its text is UTF-16; make it UTF-8: iconv -f UTF-16 -t UTF-8 FILE > "
                       "NEW-FILE",
                       name);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        const struct foreign *f = &foreign[i];
        if (bytes >= f->bytes && (f->magic[0] == '<' ? strncasecmp(text, f->magic, f->bytes)
                                                     : memcmp(text, f->magic, f->bytes)) == 0)
            return fails(name, f->what, f->how, err);
    }
    return 0;
}

int ts_foreign_zip_fails(const char *name, const unsigned char *head, size_t bytes,
                         struct ts_err *err)
{
    const size_t n = bytes >= 30 ? (size_t)head[26] | (size_t)head[27] << 8 : 0;
    const char *member = (const char *)head + 30;
    if (n > 4 && 30 + n <= bytes && memcmp(member + n - 4, ".npy", 4) == 0)
        return fails(name, "an archive of NumPy arrays (.npz)",
                     "save one array as .npy for tstream cp, or build from indices and values with "
                     "tstream.from_coo in Python",
                     err);
    if ((n > 3 && 30 + n <= bytes && memcmp(member, "xl/", 3) == 0) ||
        (n >= 19 && 30 + n <= bytes && memcmp(member, "[Content_Types].xml", 19) == 0))
        return fails(name, "a workbook of Excel", FRAME("read_excel") ", or save it as CSV there",
                     err);
    return 0;
}
