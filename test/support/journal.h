/* Journals and programs written as a line of text, and replays that are driven by them.
 *
 * A journal is a list of rows: "started call:charge done@2=7 sleep". A row is a kind (in small
 * letters, with - for _; or "kind77"), :its name, @the op that it is about, =its data, and, where
 * that is what is to be tested, #a seq or %a generation other than the right one.
 *
 * A program is a list of asks, each with the answer that is expected:
 *
 *   call:charge=2     is recorded, at position 2         wait@2=     has been given out
 *   step:pay+         is new, and appended as it is      wait@2+     is not there: the run parks
 *   step:pay+step-again  is new, and appended as this    return=7    has ended, at position 7
 *   patch:fast~       was passed                         return+     ends, and is appended
 *   step:pay!         fails with the error of the case   fail=7, +   the same for a failed end
 *   first=3           of several, this arrives next      settle=7    all before row 7 is given out
 *   first+            nothing is there: the run parks    settle+     all that there is
 *   next=3            the next row, whatever it is       close@2     no op waits for it any more
 *   next+             there is none
 *
 * and of what the test does and looks at in between:
 *
 *   <done@2,cancel    these arrive now; one that ends in ? is expected to be dropped
 *   saw:3,4           exactly these arrivals were given out since the last time; saw: none
 *   new? old?         is the code past everything recorded?
 *   cancelled? live?  does the code know that it is cancelled?
 *   attempts@2=3      failed attempts that were given out
 *   seq=9             the last position;   open=2  ops that wait for their answer
 *
 * Rows are given to the replay in memory that is freed as soon as the replay may not use it any
 * more, so that the address sanitizer reports such a use. */
#ifndef SUPPORT_JOURNAL_H
#define SUPPORT_JOURNAL_H

#include "journal/replay.h"

enum { JOURNAL_ROWS = 160, JOURNAL_GENERATION = 3 };

typedef struct journal {
    replay_row rows[JOURNAL_ROWS];
    size_t count;
} journal;

/* Reads a journal from its line of text. The texts of its rows are slices of `text`. Fails the test
 * if the line makes no sense. */
void journal_parse(journal *j, const char *text);

/* Returns the number of the kind of this name; -1 if there is none. */
int64_t journal_kind(slice word);

/* A replay, the rows that it has not been fed yet, and what it has given out. */
typedef struct player {
    const replay_row *rows;
    size_t count;
    size_t fed;
    size_t page_size;
    int64_t least;
    pawl_code early; /* the code of the last replay_feed() or replay_fed_all() */
    arena *arena;
    replay *replay;
    replay_row *page; /* the copy of rows that the replay has now */
    size_t page_count;
    int64_t seen[JOURNAL_ROWS]; /* positions of the arrivals that were given out */
    size_t seen_count;
} player;

/* Begins a replay of `rows`, which must live as long, fed in pages of `page_size` rows. */
void player_open(player *p, const replay_row *rows, size_t count, size_t page_size);
void player_close(player *p);

/* These ask the replay as the functions of replay.h of the same name do. They feed the next page
 * where the replay wants more, note each arrival that is given out, and ask again. */
replay_result player_start(player *p, const replay_row **row);
replay_result player_op(player *p, op_kind kind, slice name, const replay_row **row);
replay_result player_answer(player *p, int64_t op, const replay_row **row);
replay_result player_return(player *p, op_kind kind, const replay_row **row);
replay_result player_settle(player *p, const replay_row **row);

/* As above, but the first arrival is the answer that is asked for: REPLAY_RECORDED. */
replay_result player_first(player *p, const replay_row **row);
replay_result player_next(player *p, const replay_row **row);

/* Lets rows arrive (replay_arrive()), and returns how many of them were queued. */
size_t player_arrive(player *p, const replay_row *rows, size_t count);

typedef struct journal_case {
    const char *name;
    const char *journal;
    const char *program;
    const char *error; /* the error that replay_error() must have at the "!" of the program */
} journal_case;

/* Plays each case four times: with pages of one, of two and of three rows, and with all rows in one
 * page. */
void journal_play(const journal_case *cases, size_t count);

#endif
