/* SPDX-License-Identifier: BSD-3-Clause */
/* unfinished.h - undoes incomplete results if a library ends the program.
 *
 * libgomp calls exit() if it cannot start a thread or has no memory for one, even in the middle of
 * work. Commands check first that threads can be started (base/machine/threads.h), but other
 * processes may take them later. So code that begins a result which must not stay incomplete
 * adds an entry here, and removes it when the work is done or undone. The program calls
 * ts_unfinished_undo at exit.
 *
 *   owner    the incomplete object owns its entry: nothing is allocated
 *   threads  any thread; undo is called once, from the thread that ends the program. Others may
 *            still run then, so an undo function must not wait for them
 */
#ifndef TS_BASE_UNFINISHED_H
#define TS_BASE_UNFINISHED_H

/* An entry in the list of incomplete results, and the function that undoes one. */
struct ts_unfinished {
    void (*undo)(void *object);
    void *object;
    /* here: the pointer of the list that points to this entry; NULL: it is not in the list */
    struct ts_unfinished *next, **here;
};

void ts_unfinished_add(struct ts_unfinished *u, void (*undo)(void *object), void *object);
void ts_unfinished_drop(struct ts_unfinished *u); /* u may be an entry that is not in the list */

/* Calls every undo function, the newest first. Returns their number. */
int ts_unfinished_undo(void);

#endif
