/* SPDX-License-Identifier: BSD-3-Clause */
/* api_case.h - what tests of the library begin with: a tensor that is built of random nonzeros.
 *
 *   owner    setup makes all of it in a folder of its own, teardown removes it
 *   threads  one
 *   errors   a check that fails
 */
#ifndef TESTS_API_CASE_H
#define TESTS_API_CASE_H

#include <stdint.h>

#include <tstream.h>

#define N 20000u /* nonzeros */

extern char *tmp, tensor[4200], other[4200], files[4200];
extern uint64_t index_of[N * 3];
extern double value_of[N];
extern ts_error err;

ts_build_conf build_conf(const char *out);
void build(const char *out);
void setup(void);
void teardown(void);
ts_tensor *open_tensor(void);
ts_session *open_session(const ts_tensor *t, uint32_t threads, volatile int *stop);
int equal(const ts_cpd *a, const ts_cpd *b);
int near(double a, double b, double most);
void program(const char *what); /* tstream cp with these words, from the folder of the tensor */

#endif
