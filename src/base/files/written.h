/* SPDX-License-Identifier: BSD-3-Clause */
/* written.h - tests whether this program wrote a file.
 *
 * The bytes of a table of numbers do not show which program wrote it. Files that appear whole
 * (base/files/atomic_out.h) carry a mark: the extended attribute "user.tstream". It says whether
 * the file is complete, its size and when it was last written, so that a file that another program
 * edited no longer counts. The mark stays when a file is renamed or changes its owner; a copy made
 * by `cp` is not marked.
 *
 * Some file systems keep no attributes (older tmpfs and NFS, FAT). There the caller decides by the
 * first bytes.
 *
 *   threads  any thread
 *   errors   if a mark cannot be written, the file later counts as another program's
 */
#ifndef TS_BASE_WRITTEN_H
#define TS_BASE_WRITTEN_H

enum ts_written {
    TS_WRITTEN_OTHER = 0, /* no mark: not written by this program, or by an earlier version */
    TS_WRITTEN_CHANGED,   /* written by this program, then changed by another one */
    TS_WRITTEN_READY, /* a complete file, perhaps still under the name under which it was written */
    TS_WRITTEN_WHOLE, /* a complete file with its final name */
    TS_WRITTEN_PART,  /* a file that was not completed */
    TS_WRITTEN_EMPTY, /* an empty regular file: nothing can be lost */
    TS_WRITTEN_UNKNOWN, /* no mark, and the file system does not support marks */
};

void ts_written_begin(int fd); /* marks a new file as not complete */
void ts_written_ready(int fd); /* marks it as complete; its bytes are the final ones */
void ts_written_end(int fd);   /* marks it as complete, with its final name */

/* Marks a complete directory. The mark has no size. */
void ts_written_end_dir(int fd);
enum ts_written ts_written_is_dir(int fd); /* WHOLE, UNKNOWN or OTHER */

/* Returns the meaning of the mark of an open regular file. */
enum ts_written ts_written_is(int fd);

#endif
