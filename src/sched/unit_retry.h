/* Units that the database did not take, kept in memory for another try: what a live process has
 * executed is recorded by it, and is not executed again.
 *
 * A unit whose loss is decided (it failed, and is not undecided) stays as it is, with the fiber of
 * its run. The same statements are handed in again, under a new submitter, as long as the process
 * lives and the run is its own: the guard with which they begin asks for the fence. What the code
 * of the failure means is said in one table, unit_verdict.c:
 *
 *   for good     the record breaks a rule of the database: a constraint, a trigger, a type. The run
 *                is held (HELD_RECORD) by a small unit of its own on its row, and stays owned: what
 *                it has done is in the memory of this process only. If even the hold is refused the
 *                log says so, the storage is probed as below, and both are tried again with a
 *                back-off.
 *   all others   of the storage, or of this record? The code does not tell: a disk is full for a
 *                large record and not for small ones, and a missing column, a damaged page or a
 *                lock may be in the way of one run or of all. So a probe, which is a small unit
 *                that touches no run, is handed in after each such failure. If it is not committed
 *                either, the storage is in trouble: the run waits with all others
 *                (storage_backoff.c), for the first commit that succeeds or the end of a back-off
 *                that all share. If it is, the trouble is the run's own: the run has a back-off of
 *                its own, of 30 seconds at most, {runs}.trouble tells of it, and no other run waits
 *                for it.
 *
 * Whether a trouble of its own comes to an end depends on the code:
 *
 *   it passes    BUSY, FULL, IO, NOMEM and their like: the run is never held for it. Room on a
 *                disk, memory and locks come back without anything being done to the run, and a
 *                hold would then need a release by hand for each run; nor does a try each 30
 *                seconds cost others anything. `pawl why` has the code, the database's words, and
 *                that the result is in the memory of this node only.
 *   unknown      a missing column, a right that was taken away, a damaged page, an error that pawl
 *                does not know: after five tries, which take some three seconds, it is refused for
 *                good. A code that is not retryable (DENIED, CORRUPT) gets its five tries too: what
 *                is missing for a moment, as in a migration, needs no release by hand.
 *
 * What meets a run whose unit is kept:
 *   release      the owner tries the commit again: at once in its own process, otherwise in the
 *                next round of its node loop. If the record is refused again, the run is held
 *                again.
 *   cancel, and a deadline that passes   are a release: what was done has to be recorded before it
 *                can be undone. The run hears of the cancel as soon as the record is committed.
 *   hold by hand a run that is held for its record stays held for that; the release is the same.
 *   redrive      is refused while a node has the result: release or cancel the run instead.
 *   delete       by force: the guard of the next try finds no run, and all of it is forgotten.
 *   finish ends  the node stays as it is (leave.c), and the next call that drives tries again: so
 *                the tries of several calls are counted together, and a hold stays one.
 *   stop, close  it is tried for as long as a drain takes, what was refused once more; what is not
 *                recorded then is told in the log and executed again by the next owner.
 *   death        a node that claims the run ends the hold; the step is executed again, and
 *                {runs}.trouble says why until the run has got further.
 *
 * Not kept: a unit that was refused by the fence or the node (another node has the run), one that
 * stays undecided for good (the run is read anew from its journal: a second insert would meet the
 * first), and the mark of a quarantined run (it records nothing).
 *
 * A transactional step is kept in a way of its own, since its function is part of the transaction
 * that was rolled back: what fails is judged, told, counted, probed and held as above, but instead
 * of the same statements the function is executed again, after a back-off or a release. Nothing of
 * it is in memory, so a node that leaves tries nothing.
 *
 * While units are kept because the storage fails, or are undecided, no work function is begun,
 * nothing is claimed, and no dormant run that is due is brought back: so what is kept is bounded by
 * what was being executed. Units that are kept for a trouble of their own are no reason to stop:
 * there are as many of them as runs that meet one. */
#ifndef SCHED_UNIT_RETRY_H
#define SCHED_UNIT_RETRY_H

#include "run/run.h"

struct sched;

/* ---- For the runner; without the lock ---- */

/* May the unit of this run, which was not committed, be handed in again? */
int unit_retry_may(const pawl_run *run);

/* Keeps the unit. The run is not in hand any more when this returns. */
void unit_retry_unit(pawl_run *run);

/* The run is in hand, and its unit is kept (slot.keeps): go on with that. Gives the unit that was
 * refused because another node has the run; NULL: the run is not in hand any more. */
const unit *unit_retry_go_on(pawl_run *run);

/* Counts the run (`counted` 1), or no more (0), among the runs whose units wait for the storage.
 * While there is one, the node begins no work function and claims nothing. Called by the thread
 * that has the run in hand, or that applies its unit. */
void unit_retry_count(pawl_run *run, int counted);

/* Logs, once until the run has got further (runner_was_undone()), that a unit was rolled back and
 * left nothing behind: the mark of a quarantined run, or a transactional step with what its
 * function wrote. The run is tried again. */
void unit_retry_tell_undone(pawl_run *run, pawl_code code, const char *words);

/* The unit is committed at last, or goes with its run. */
void unit_retry_committed(pawl_run *run);
void unit_retry_forget(pawl_run *run);

/* ---- For all others ---- */

/* 1 while commits fail because of the storage, or are undecided: then nothing is begun. With or
 * without the lock. */
int unit_retry_waits(const struct sched *s);

/* The run is released, cancelled or deleted: if its unit is kept because its record was refused, it
 * is tried again. With the lock held. */
void unit_retry_release(struct sched *s, pawl_run *run);

/* The node stays after a drain (leave.c). 1: the unit of this run is to be handed in again as soon
 * as the run is taken in hand, since it is kept, or its last commit has failed, or the drain has
 * ended without an answer. With the lock held. */
int unit_retry_at_once(pawl_run *run);

/* Tries again what another process has released. Called by the node loop, without the lock. */
void unit_retry_look(struct sched *s);

/* For a node that leaves. unit_retry_release_all(): units that were refused are tried once more.
 * unit_retry_wants_try(): 1 if the drain (drain.c) has to take this run in hand as soon as it is
 * ready, because its kept unit is to be tried, or what is tried beside has its answer. */
void unit_retry_release_all(struct sched *s);  /* without the lock */
int unit_retry_wants_try(const pawl_run *run); /* with the lock held */

/* Names what the unit records: "step charge (op 7)". */
enum { UNIT_RETRY_NAME_SIZE = PAWL_MAX_NAME + 64 };
void unit_retry_name(char what[UNIT_RETRY_NAME_SIZE], const unit *u);

/* What is not recorded of a run, in words, if this process has some of it. 0: it has nothing.
 * Without the lock. */
int unit_retry_words(struct sched *s, int64_t run, char *out, size_t size);

#endif
