/* label_write.h - takes a file of names (one a line, text or gzip) along as modeK.labels.
 *
 *   threads  one
 *   errors   0 or a negative ts_code
 */
#ifndef TS_FORMAT_LABEL_WRITE_H
#define TS_FORMAT_LABEL_WRITE_H

#include <stdint.h>

#include "base/err.h"

/* Line i (from 0) of `from` names index i of `mode`. Carriage returns are dropped. */
int ts_label_write(const char *from, const char *to, uint32_t mode, uint64_t *n_labels,
                   uint64_t *bytes, uint64_t *hash, struct ts_err *err);

#endif
