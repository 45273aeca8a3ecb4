/* SPDX-License-Identifier: BSD-3-Clause */
/* unfinished.h - undoes half-made results when a library ends the program.
 *
 * libgomp calls exit() when it cannot start a thread or has no memory for one, whatever the program
 * has begun. Commands check first that threads can be started (base/machine/threads.h), but other
 * processes may take them in between. So code that begins something which must not be left half
 * made adds an entry here, and removes it when the work is done or undone. The program calls
 * ts_unfinished_undo at exit.
 *
 *   owner    the object that is half made owns its entry: nothing is allocated
 *   threads  any; undo is called once, from the thread that ends the program, while others may
 *            still run, so that an undo function must not wait for them
 */
#ifndef TS_BASE_UNFINISHED_H
#define TS_BASE_UNFINISHED_H

struct ts_unfinished {
    void (*undo)(void *object);
    void *object;
    /* here: the pointer that points to this entry; NULL: it is not in the list */
    struct ts_unfinished *next, **here;
};

void ts_unfinished_add(struct ts_unfinished *u, void (*undo)(void *object), void *object);
void ts_unfinished_drop(struct ts_unfinished *u); /* an entry that is not in the list is fine */

/* Calls every undo function, the newest first. Returns how many there were. */
int ts_unfinished_undo(void);

#endif
