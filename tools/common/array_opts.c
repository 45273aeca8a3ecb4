/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the name of a dense tensor from the options that describe its file. */
#include "tools/common/array_opts.h"

#include <stdlib.h>
#include <string.h>

int array_opts_name(const struct array_opts *o, const char *operand, char **ret, struct ts_err *err)
{
    char *name;
    if ((o->dims == NULL) != (o->dtype == NULL) || (o->dims == NULL && o->fortran))
        return ts_fail(err, TS_EARG,
                       "--dims and --dtype are given together, and --order with them");
    if (o->dims == NULL) {
        name = strdup(operand);
    } else {
        name = ts_array_name_make(operand, o->dtype, o->fortran, o->dims);
        if (name != NULL && ts_array_name_cells(name) != strlen(operand)) {
            free(name);
            return ts_fail(err, TS_EARG,
                           "--dims takes sizes like 401x201x12 and --dtype a type like f8, not %s "
                           "and %s",
                           o->dims, o->dtype);
        }
    }
    if (name == NULL)
        return ts_fail(err, TS_ENOMEM, "%s: out of memory", operand);
    *ret = name;
    return 0;
}
