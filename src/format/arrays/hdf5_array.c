/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens HDF5 datasets, named file.h5:/path. libhdf5 finds where the cells are in the file; they
 * are then read without it. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/files/fd.h"
#include "format/arrays/array_name.h"
#include "format/arrays/dense.h"

#ifndef HAVE_HDF5

int ts_dense_hdf5(const char *path, struct ts_tensor **ret, struct ts_err *err)
{
    (void)ret;
    return ts_fail(
        err, TS_EARG,
        "%s: this build reads no HDF5: it was made without libhdf5 (write the array as .npy)",
        path);
}

#else

#include <dlfcn.h>
#include <hdf5.h>
#include <unistd.h>

/* The functions of libhdf5, which is loaded when a file needs it. Users without HDF5 files need
 * not have the library, nor wait for it. */
#define FUNCTIONS(F)                                                                            \
    F(H5Fopen)                                                                                  \
    F(H5Fclose)                                                                                 \
    F(H5Dopen2)                                                                                 \
    F(H5Dclose)                                                                                 \
    F(H5Dget_space)                                                                             \
    F(H5Dget_type)                                                                              \
    F(H5Dget_create_plist)                                                                      \
    F(H5Dget_offset) F(H5Dget_storage_size) F(H5Sclose) F(H5Sget_simple_extent_ndims)           \
        F(H5Sget_simple_extent_dims) F(H5Tclose) F(H5Tget_class) F(H5Tget_size) F(H5Tget_order) \
            F(H5Tget_sign) F(H5Tget_precision) F(H5Pclose) F(H5Pget_layout)                     \
                F(H5Pget_external_count) F(H5Eset_auto2)

struct hdf5 {
#define FIELD(name) __typeof__(&name) name;
    FUNCTIONS(FIELD)
#undef FIELD
};

/* The HDF5 objects that are open. A negative identifier stands for an object that is not open. */
struct opened {
    struct hdf5 h;
    hid_t file, set, space, type, plist;
};

static int load(const char *path, struct hdf5 *ret, struct ts_err *err)
{
    void *library = dlopen(HDF5_SONAME, RTLD_NOW | RTLD_LOCAL), *at; /* the library stays loaded */
    int there = library != NULL;
#define LOAD(name)                             \
    at = there ? dlsym(library, #name) : NULL; \
    there = at != NULL;                        \
    memcpy(&ret->name, &at, sizeof ret->name);
    FUNCTIONS(LOAD)
#undef LOAD
    return there ? 0
                 : ts_fail(err, TS_EARG,
                           "%s: " HDF5_SONAME " is not there, which reads HDF5 (install it, or "
                           "write the array as .npy)",
                           path);
}

static void close_all(const struct opened *o)
{
    if (o->plist >= 0)
        o->h.H5Pclose(o->plist);
    if (o->type >= 0)
        o->h.H5Tclose(o->type);
    if (o->space >= 0)
        o->h.H5Sclose(o->space);
    if (o->set >= 0)
        o->h.H5Dclose(o->set);
    if (o->file >= 0)
        o->h.H5Fclose(o->file);
}

static int open_all(const char *path, const char *file, const char *set, struct opened *o,
                    struct ts_err *err)
{
    o->file = o->h.H5Fopen(file, 0 /* to read */, H5P_DEFAULT);
    if (o->file < 0)
        return ts_fail(err, TS_EFORMAT, "%s: %s is not a file that libhdf5 can open", path, file);
    o->set = o->h.H5Dopen2(o->file, set, H5P_DEFAULT);
    if (o->set < 0)
        return ts_fail(err, TS_EARG, "%s: the file has no dataset %s (h5ls -r lists them)", path,
                       set);
    o->space = o->h.H5Dget_space(o->set);
    o->type = o->h.H5Dget_type(o->set);
    o->plist = o->h.H5Dget_create_plist(o->set);
    return o->space >= 0 && o->type >= 0 && o->plist >= 0
               ? 0
               : ts_fail(err, TS_EFORMAT, "%s: libhdf5 does not tell what the dataset is", path);
}

static int take_type(const char *path, const struct opened *o, struct ts_dense_array *ret,
                     struct ts_err *err)
{
    const uint16_t one = 1;
    const H5T_class_t class = o->h.H5Tget_class(o->type);
    const size_t bytes = o->h.H5Tget_size(o->type);
    const H5T_order_t order = o->h.H5Tget_order(o->type),
                      own = *(const uint8_t *)&one == 1 ? H5T_ORDER_LE : H5T_ORDER_BE;
    const char letter = class == H5T_FLOAT                          ? 'f'
                        : class != H5T_INTEGER                      ? '?'
                        : o->h.H5Tget_sign(o->type) == H5T_SGN_NONE ? 'u'
                                                                    : 'i';
    const char code[3] = { letter, bytes < 10 ? (char)('0' + bytes) : '?', '\0' };
    if (!ts_cell_coded(code, &ret->type) || o->h.H5Tget_precision(o->type) != 8 * bytes)
        return ts_fail(err, TS_EFORMAT,
                       "%s: its cells are no numbers of float32, float64 or whole ones of 8 to 64 "
                       "bits; write them as such",
                       path);
    ret->swapped = bytes > 1 && order != own;
    return 0;
}

/* Checks that the file contains the cells contiguously, and sets offset and sizes of *ret. */
static int take_place(const char *path, const struct opened *o, struct ts_dense_array *ret,
                      struct ts_err *err)
{
    hsize_t dim[H5S_MAX_RANK];
    const int n = o->h.H5Sget_simple_extent_ndims(o->space);
    haddr_t offset;
    hsize_t bytes = o->h.H5Tget_size(o->type);
    if (o->h.H5Pget_layout(o->plist) != H5D_CONTIGUOUS || o->h.H5Pget_external_count(o->plist) != 0)
        return ts_fail(err, TS_EFORMAT,
                       "%s: the dataset is not contiguous, and only such a one is read in place "
                       "(h5repack -l CONTI -f NONE writes one)",
                       path);
    if (n < 0 || n > H5S_MAX_RANK || o->h.H5Sget_simple_extent_dims(o->space, dim, NULL) < 0)
        return ts_fail(err, TS_EFORMAT, "%s: the dataset has no shape", path);
    ret->order = (uint32_t)n;
    for (uint32_t m = 0; m < ret->order && m < TS_DENSE_MAX_ORDER; m++)
        ret->dim[m] = dim[m];
    for (int m = 0; m < n; m++)
        bytes *= dim[m];
    /* A dataset to which nothing was written has no bytes in the file. Its offset is then
     * HADDR_UNDEF, or that plus the size of a user block. */
    offset = o->h.H5Dget_offset(o->set);
    if (offset == HADDR_UNDEF || o->h.H5Dget_storage_size(o->set) == 0)
        return ts_fail(err, TS_EFORMAT,
                       "%s: nothing was written to the dataset, so the file has no cells of it",
                       path);
    if (o->h.H5Dget_storage_size(o->set) < bytes)
        return ts_fail(err, TS_EFORMAT, "%s: the file has fewer cells than the dataset", path);
    ret->offset = offset;
    return 0;
}

static int describe(const char *path, const char *file, const char *set, struct ts_dense_array *ret,
                    struct ts_err *err)
{
    struct opened o = { .file = -1, .set = -1, .space = -1, .type = -1, .plist = -1 };
    int rc = load(path, &o.h, err);
    if (rc < 0)
        return rc;
    o.h.H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* libhdf5 prints errors otherwise */
    rc = open_all(path, file, set, &o, err);
    if (rc == 0)
        rc = take_type(path, &o, ret, err);
    if (rc == 0)
        rc = take_place(path, &o, ret, err);
    close_all(&o);
    return rc;
}

static int is_other(int fd, const char *file)
{
    struct ts_file_id own, now;
    return ts_file_id_open(fd, &own) &&
           (!ts_file_id_of(file, &now) || !ts_file_id_same(&own, &now));
}

int ts_dense_hdf5(const char *path, struct ts_tensor **ret, struct ts_err *err)
{
    const size_t n = ts_array_name_dataset(path);
    struct ts_dense_array a = { .path = path };
    char *file;
    int fd, rc;
    if (n == 0)
        return ts_fail(err, TS_EARG, "%s: a file of HDF5: name its dataset as well, like %s:/data",
                       path, path);
    file = strndup(path, n);
    if (file == NULL)
        return ts_no_memory(err, path);
    a.file = file;
    rc = fd = ts_dense_open_file(file, err);
    if (rc >= 0)
        rc = describe(path, file, path + n + 1, &a, err);
    if (rc >= 0 && is_other(fd, file)) /* libhdf5 opened the file by its name */
        rc = ts_open_dir_fail(file, err);
    if (rc >= 0)
        rc = ts_dense_file(&a, fd, ret, err);
    else
        ts_fd_close(fd);
    free(file);
    return rc;
}

#endif
