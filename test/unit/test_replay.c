/* Replay on journals that are in order: what the code is told, and when. Every case is a journal
 * and a program, written as in support/journal.h, and is played with pages of several sizes.
 *
 * The tables go by the parts of a run's life: new, replayed, half done, live, cancelled, ended.
 * Code that has changed and journals that are damaged are in test_replay_broken.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "support/journal.h"

#define PLAY(cases) journal_play(cases, sizeof(cases) / sizeof *(cases))

/* ---- fresh execution ---- */

static void fresh_execution(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"immediate return", "started", "new? return+ seq=2", NULL},
        {"immediate failure", "started", "fail+ seq=2", NULL},
        {"an empty journal is begun", "", "seq=1 new? return+ seq=2", NULL},
        {"schedule activity, pending", "started", "call:a+ open=1 wait@2+ seq=2", NULL},
        {"schedule timer, pending", "started", "sleep+ wait@2+ open=1", NULL},
        {"schedule until, pending", "started", "until:ready+ wait@2+ open=1", NULL},
        {"step at once", "started", "step:a+ seq=2 open=0 new? return+", NULL},
        {"step that failed for good", "started", "step:a+step-failed open=0 fail+ seq=3", NULL},
        {"step that is tried again", "started", "step:a+step-again open=1 wait@2+", NULL},
        {"multiple schedules, no await", "started", "call:a+ call:b+ sleep+ open=3 return+ seq=5",
         NULL},
        {"all that is recorded at once", "started",
         "now+ uuid+ random+ status+ attribute:color+ patch:new+ undo:refund+ finally:tidy+ seq=9 "
         "open=0 return+",
         NULL},
        {"two generations begin alike", "", "step:a+ step:a+ seq=3", NULL},
    };
    PLAY(CASES);
}

/* Every kind that code can ask for becomes a row of its own kind and is found again as that. */
static void what_was_asked_becomes_a_row(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"step", "started step:a", "step:a=2 new?", NULL},
        {"step-failed", "started step-failed:a", "step:a=2 open=0", NULL},
        {"step-again", "started step-again:a", "step:a=2 open=1", NULL},
        {"call", "started call:a", "call:a=2 open=1", NULL},
        {"sleep", "started sleep", "sleep=2 open=1", NULL},
        {"until", "started until:a", "until:a=2 open=1", NULL},
        {"now", "started now", "now=2", NULL},
        {"uuid", "started uuid", "uuid=2", NULL},
        {"random", "started random", "random=2", NULL},
        {"status", "started status", "status=2", NULL},
        {"attribute", "started attribute:a", "attribute:a=2", NULL},
        {"patch", "started patch:a", "patch:a=2", NULL},
        {"undo", "started undo:a", "undo:a=2", NULL},
        {"finally", "started finally:a", "finally:a=2", NULL},
        {"multiple action types", "started call:a sleep step:b now undo:c",
         "call:a=2 sleep=3 step:b=4 now=5 undo:c=6 new? open=2", NULL},
        {"detached things, then a call", "started status call:a done@3 step:b",
         "status=2 call:a=3 wait@3= step:b=5 new?", NULL},
    };
    PLAY(CASES);
}

/* ---- what has been recorded ---- */

static void completions_in_history(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"activity completed", "started call:a done@2=7", "call:a=2 wait@2=3 saw:3 return+", NULL},
        {"activity failed", "started call:a failed@2", "call:a=2 wait@2=3 saw:3 fail+", NULL},
        {"timer fired", "started sleep fired@2", "sleep=2 wait@2= saw:3 open=0", NULL},
        {"until done", "started until:r done@2", "until:r=2 wait@2= saw:3 open=0", NULL},
        {"until failed", "started until:r failed@2", "until:r=2 wait@2= saw:3", NULL},
        {"step again, done", "started step-again:a done@2", "step:a=2 wait@2= saw:3", NULL},
        {"step again, failed", "started step-again:a failed@2", "step:a=2 wait@2= saw:3", NULL},
        {"ended", "started step:a ended", "step:a=2 return=3", NULL},
        {"ended failed", "started step-failed:a ended-failed", "step:a=2 fail=3", NULL},
        {"an answer is there as often as asked", "started call:a done@2 step:b",
         "call:a=2 wait@2= wait@2= saw:3 step:b=4 wait@2= new? wait@2=", NULL},
    };
    PLAY(CASES);
}

static void partial_completion(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"activity scheduled, no completion", "started call:a", "call:a=2 wait@2+ wait@2+", NULL},
        {"timer created, no fire", "started sleep", "sleep=2 new? wait@2+", NULL},
        {"until asked, no answer", "started until:r", "until:r=2 wait@2+", NULL},
        {"step failed once, no answer", "started step-again:a", "step:a=2 wait@2+", NULL},
        {"one of two", "started call:a call:b done@3",
         "call:a=2 call:b=3 wait@3= wait@2+ saw:4 open=1", NULL},
    };
    PLAY(CASES);
}

static void sequential_progress(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"two activities, first done", "started call:a done@2",
         "call:a=2 wait@2= call:b+ wait@4+ seq=4", NULL},
        {"two activities, both done", "started call:a done@2 call:b done@4",
         "call:a=2 wait@2= call:b=4 wait@4= new? return+ seq=6", NULL},
        {"identical activities, both done", "started call:a done@2=1 call:a done@4=2",
         "call:a=2 wait@2= saw:3 call:a=4 wait@4= saw:5", NULL},
        {"identical activities at once, answered in turn", "started call:a call:a done@3 done@2",
         "call:a=2 call:a=3 wait@2= saw:4,5 wait@3=", NULL},
        {"identical activities, across a restart", "started call:a call:a done@3",
         "call:a=2 call:a=3 wait@2+ <done@2 wait@2= wait@3= saw:4,5 open=0", NULL},
        {"activity then timer", "started call:a done@2", "call:a=2 wait@2= sleep+ wait@4+", NULL},
        {"timer then activity", "started sleep fired@2 call:a", "sleep=2 wait@2= call:a=4 wait@4+",
         NULL},
        {"many sequential activities",
         "started call:a done@2 call:b done@4 call:c done@6 call:d done@8 call:e done@10",
         "call:a=2 wait@2= call:b=4 wait@4= call:c=6 wait@6= old? call:d=8 wait@8= call:e=10 "
         "wait@10= open=0 new? return+ seq=12",
         NULL},
        {"many sequential steps", "started step:a step:a step:a step:a step:a step:a",
         "step:a=2 step:a=3 step:a=4 step:a=5 step:a=6 old? step:a=7 new? step:a+ seq=8", NULL},
    };
    PLAY(CASES);
}

/* Several at once. Which was first is decided by the order of the rows, never by that of asking. */
static void composition(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"both ready, the row that came first is seen first",
         "started call:a sleep fired@3 done@2 now", "call:a=2 sleep=3 wait@3= saw:4 now=6 saw:5",
         NULL},
        {"both pending", "started call:a sleep", "call:a=2 sleep=3 wait@2+ wait@3+ open=2", NULL},
        {"join, all complete", "started call:a call:b done@3 done@2",
         "call:a=2 call:b=3 wait@2= wait@3= saw:4,5 return+", NULL},
        {"join, partially complete", "started call:a call:b call:c done@4 done@2",
         "call:a=2 call:b=3 call:c=4 wait@2= wait@3+ saw:5,6 open=1", NULL},
        {"join, fresh", "started", "call:a+ call:b+ wait@2+ <done@3,done@2 wait@2= wait@3= saw:4,5",
         NULL},
        {"join, one fails", "started call:a call:b failed@2 done@3",
         "call:a=2 call:b=3 wait@2= saw:4 fail+ saw:5 seq=6", NULL},
        {"waited for in another order than started", "started call:a call:b done@2 done@3 step:c",
         "call:a=2 call:b=3 wait@3= saw:4,5 wait@2= step:c=6", NULL},
    };
    PLAY(CASES);
}

/* Ready means: its row precedes this op. */
static void arrivals_are_seen_at_their_place(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"a wait ends at its answer", "started call:a call:b done@2 done@3 step:c",
         "call:a=2 call:b=3 wait@2= saw:4 open=1 step:c=6 saw:5 open=0 wait@3=", NULL},
        {"an op sees all that stands before it", "started call:a call:b done@2 done@3 step:c",
         "call:a=2 call:b=3 step:c=6 saw:4,5 wait@2= wait@3=", NULL},
        {"what stands behind an op is not seen before it", "started call:a step:b done@2 step:c",
         "call:a=2 step:b=3 saw: step:c=5 saw:4 wait@2=", NULL},
        {"a new op sees all that is left", "started call:a call:b done@3 done@2",
         "call:a=2 call:b=3 saw: step:c+ saw:4,5", NULL},
        {"a patch sees what an op would", "started call:a done@2 step:b",
         "call:a=2 patch:p~ saw:3 wait@2= step:b=4", NULL},
        {"returning sees the rest", "started call:a done@2 ended", "call:a=2 return=4 saw:3", NULL},
        {"live: what arrives together is seen one by one", "started call:a call:b",
         "call:a=2 call:b=3 wait@2+ <done@2,done@3 wait@2= saw:4 open=1 step:c+ saw:5 wait@3=",
         NULL},
        {"live: what arrives is not seen before a wait asks", "started call:a call:b",
         "call:a=2 call:b=3 wait@2+ <done@3 saw: wait@2+ saw:4 <done@2 saw: wait@2= saw:5", NULL},
    };
    PLAY(CASES);
}

/* ---- a run that goes on ---- */

static void completion_messages(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"activity completed", "started call:a", "call:a=2 wait@2+ <done@2 wait@2= saw:3 return+",
         NULL},
        {"timer fired", "started sleep", "sleep=2 wait@2+ <fired@2 wait@2= saw:3 return+", NULL},
        {"until done", "started until:r", "until:r=2 wait@2+ <done@2 wait@2=", NULL},
        {"duplicate of a recorded one is dropped", "started call:a done@2",
         "call:a=2 wait@2= sleep+ wait@4+ <done@2? wait@4+ saw:3 seq=4", NULL},
        {"duplicate in the same batch is dropped", "started call:a",
         "call:a=2 wait@2+ <done@2,done@2?,failed@2? wait@2= saw:3 seq=3", NULL},
        {"another op's answer keeps its place", "started call:a call:b",
         "call:a=2 call:b=3 wait@2+ <done@2,done@2?,done@3 wait@2= wait@3= saw:4,5 seq=5", NULL},
        {"of an op that is not there", "started call:a",
         "call:a=2 wait@2+ <done@9?,done@1?,done@3?,done@-1?,done@0?,done? wait@2+ saw: seq=2",
         NULL},
        {"of an op that is no open one", "started step:x now call:a",
         "step:x=2 now=3 call:a=4 wait@4+ <done@2?,done@3?,fired@2?,attempt@2? wait@4+ seq=4",
         NULL},
        {"of the wrong kind", "started call:a sleep",
         "call:a=2 sleep=3 wait@2+ <fired@2?,done@3?,failed@3?,attempt@3?,done@2 wait@2= seq=4",
         NULL},
        {"rows that are no arrivals", "started call:a",
         "call:a=2 wait@2+ <step:x?,ended?,started?,kind77@2?,kind0?,call:b? wait@2+ seq=2", NULL},
        {"several in a batch", "started call:a call:b sleep",
         "call:a=2 call:b=3 sleep=4 wait@4+ <done@3,failed@2,fired@4 wait@4= saw:5,6,7 open=0",
         NULL},
        {"nothing at all has arrived", "started call:a", "call:a=2 wait@2+ <done@7? wait@2+ seq=2",
         NULL},
        {"in one park after the other", "started sleep",
         "sleep=2 wait@2+ <fired@2 wait@2= sleep+ wait@4+ <fired@4 wait@4= return+ seq=6", NULL},
    };
    PLAY(CASES);
}

static void failure_handling(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"an error reaches the code", "started call:a failed@2 call:undo-a",
         "call:a=2 wait@2= call:undo-a=4 wait@4+", NULL},
        {"an error that ends the run", "started call:a failed@2 ended-failed",
         "call:a=2 wait@2= fail=4", NULL},
        {"a child's error, later", "started call:a call:b failed@3 done@2",
         "call:a=2 call:b=3 wait@2= wait@3= saw:4,5", NULL},
        {"attempts are counted as they are seen", "started step-again:a attempt@2 attempt@2",
         "step:a=2 attempts@2=0 wait@2+ attempts@2=2 saw:3,4 open=1", NULL},
        {"attempts, then success", "started step-again:a attempt@2 attempt@2 done@2 step:b",
         "step:a=2 wait@2= saw:3,4,5 attempts@2=0 step:b=6", NULL},
        {"attempts, then failure", "started call:a attempt@2 failed@2", "call:a=2 wait@2= saw:3,4",
         NULL},
        {"attempts of two ops", "started call:a call:b attempt@3 attempt@2 attempt@3 done@3",
         "call:a=2 call:b=3 wait@3= attempts@2=1 saw:4,5,6,7 wait@2+ attempts@3=0", NULL},
        {"attempts go on live", "started step-again:a attempt@2",
         "step:a=2 wait@2+ attempts@2=1 <attempt@2 wait@2+ attempts@2=2 <done@2 wait@2= seq=5",
         NULL},
        {"an attempt behind the answer is dropped", "started call:a",
         "call:a=2 wait@2+ <done@2,attempt@2? wait@2= seq=3", NULL},
        {"attempts of an op that is not there", "started",
         "attempts@2=0 attempts@1=0 attempts@-5=0", NULL},
    };
    PLAY(CASES);
}

/* Waiting for one of several, which the code knows itself: one arrival at a time, and none behind
 * the row that must be asked for next. */
static void the_first_of_several(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"one at a time, in the order of the rows", "started call:a sleep fired@3 done@2 now",
         "call:a=2 sleep=3 first=4 saw:4 open=1 first=5 saw:5 open=0 now=6", NULL},
        {"what is behind the first comes at the next ask",
         "started call:a sleep fired@3 done@2 now", "call:a=2 sleep=3 first=4 now=6 saw:4,5", NULL},
        {"nothing is there", "started call:a sleep",
         "call:a=2 sleep=3 first+ <fired@3 first=4 saw:4 first+ open=1", NULL},
        {"an attempt is one too", "started call:a attempt@2 done@2",
         "call:a=2 first=3 attempts@2=1 first=4 first+", NULL},
        {"a cancel is one too", "started call:a cancel", "call:a=2 live? first=3 cancelled? first+",
         NULL},
        {"several arrive at once", "started call:a call:b",
         "call:a=2 call:b=3 first+ <done@3,done@2 first=4 first=5 open=0", NULL},
        {"the code asked for something else", "started call:a now", "call:a=2 first!",
         "the code does not follow the journal of the run: position 3: the journal has now, the "
         "code waits for the first of several"},
        {"the run has ended", "started call:a ended", "call:a=2 first!",
         "the code does not follow the journal of the run: position 3: the journal has the end of "
         "the run, the code waits for the first of several"},
    };
    PLAY(CASES);
}

static void settling_and_closing(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"all before the next row", "started call:a sleep fired@3 done@2 future-cancel",
         "call:a=2 sleep=3 first=4 settle=6 saw:4,5 settle=6 saw: future-cancel=6 settle+", NULL},
        {"all that there is", "started call:a sleep",
         "call:a=2 sleep=3 settle+ first+ <done@2,fired@3 settle+ saw:4,5 open=0", NULL},
        {"what is closed takes nothing any more", "started call:a sleep",
         "call:a=2 sleep=3 first+ close@2 open=1 <done@2?,attempt@2?,fired@3 first=4 open=0", NULL},
        {"closed twice, answered, or never there", "started call:a done@2",
         "call:a=2 wait@2= close@2 close@2 close@99 open=0 seq=3", NULL},
        {"closed at a replay", "started call:a sleep fired@3 future-cancel now",
         "call:a=2 sleep=3 first=4 settle=5 future-cancel=5 close@2 open=0 now=6 new?", NULL},
        {"its number is not used again", "started call:a",
         "call:a=2 first+ close@2 call:b+ <done@2?,done@3 wait@3= open=0", NULL},
    };
    PLAY(CASES);
}

/* Reading a journal without the code that has written it. */
static void row_by_row(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"whatever it is", "started call:a sleep fired@3 undo:x step:b future-cancel ended",
         "next=2 next=3 next=4 saw:4 next=5 next=6 next=7 next=8 open=1", NULL},
        {"and then it goes on", "started undo:x cancel ending:cancelled",
         "next=2 next=3 cancelled? next=4 next+ clean-up:x+ wait@5+ <done@5 wait@5= open=0", NULL},
        {"nothing but the start", "started", "next+ ending:cancelled+", NULL},
    };
    PLAY(CASES);
}

static void cancellation(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"cancel arrives", "started sleep",
         "sleep=2 wait@2+ live? <cancel live? wait@2+ cancelled? saw:3 fail+ seq=4", NULL},
        {"cancel in history", "started sleep cancel",
         "sleep=2 live? wait@2+ cancelled? saw:3 fail+ seq=4", NULL},
        {"cancelled and ended", "started sleep cancel ended-failed",
         "sleep=2 live? fail=4 cancelled?", NULL},
        {"cancel before the answer", "started call:a cancel done@2",
         "call:a=2 live? wait@2= cancelled? saw:3,4", NULL},
        {"cancel behind the answer is seen at the next ask", "started call:a done@2 cancel step:b",
         "call:a=2 wait@2= live? step:b=5 cancelled? saw:3,4", NULL},
        {"cancel with an activity pending", "started call:a",
         "call:a=2 wait@2+ <cancel wait@2+ cancelled? open=1 fail+", NULL},
        {"a second cancel changes nothing", "started sleep cancel cancel",
         "sleep=2 wait@2+ cancelled? saw:3,4 fail+", NULL},
        {"cancel is about the run, not an op", "started call:a",
         "call:a=2 wait@2+ <cancel@2?,cancel wait@2+ cancelled? seq=3", NULL},
    };
    PLAY(CASES);
}

/* Answers that no op waits for: rows without an effect on what the code sees. */
static void unobserved_answers(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"the timer wins, the activity is not asked for", "started call:a sleep fired@3 step:b",
         "call:a=2 sleep=3 wait@3= step:b=5 open=1 return+", NULL},
        {"the activity wins, the timer fires later",
         "started call:a sleep done@2 step:b fired@3 step:c",
         "call:a=2 sleep=3 wait@2= step:b=5 step:c=7 saw:4,6 open=0", NULL},
        {"two of three are not asked for", "started call:a call:b sleep fired@4 done@2 done@3 now",
         "call:a=2 call:b=3 sleep=4 wait@4= now=8 saw:5,6,7 open=0", NULL},
        {"started and forgotten", "started call:a step:b done@2 step:c ended",
         "call:a=2 step:b=3 step:c=5 return=6 saw:4", NULL},
        {"forgotten, and still open at the end", "started call:a sleep ended",
         "call:a=2 sleep=3 return=4 open=2", NULL},
        {"forgotten, and answered at the very end", "started call:a step:b done@2",
         "call:a=2 step:b=3 return+ saw:4 seq=5", NULL},
        {"a failure that is not looked at", "started call:a failed@2 step:b",
         "call:a=2 step:b=4 return+ saw:3", NULL},
        {"waited for long after it came", "started call:a done@2 step:b step:c step:d",
         "call:a=2 step:b=4 saw:3 step:c=5 step:d=6 wait@2= new?", NULL},
        {"waited for at the end, after many others",
         "started call:a call:b call:c done@4 done@3 done@2",
         "call:a=2 call:b=3 call:c=4 wait@2= wait@3= wait@4= saw:5,6,7", NULL},
        {"attempts of an op without a waiter", "started call:a sleep attempt@2 attempt@2 fired@3",
         "call:a=2 sleep=3 wait@3= saw:4,5,6 attempts@2=2", NULL},
    };
    PLAY(CASES);
}

/* ---- positions, and whether the code was here before ---- */

static void event_id_allocation(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"sequential", "", "step:a+ seq=2 call:b+ seq=3 sleep+ seq=4 return+ seq=5", NULL},
        {"after replay", "started step:a step:b", "step:a=2 step:b=3 step:c+ seq=4", NULL},
        {"arrivals take their own", "started call:a",
         "call:a=2 wait@2+ <attempt@2,done@2 seq=4 wait@2=4 call:b+ seq=5 wait@5+ <done@5 wait@5=",
         NULL},
        {"an op is known by its position", "started call:a done@2 call:a",
         "call:a=2 wait@2= call:a=4 wait@4+ <done@2?,done@4 wait@4= seq=5", NULL},
        {"patches that were passed take none", "started step:a step:b",
         "patch:p~ step:a=2 patch:p~ step:b=3 patch:p+ seq=4 step:c+ seq=5", NULL},
    };
    PLAY(CASES);
}

static void is_replaying(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"fresh execution", "", "new? step:a+ new? call:b+ new? wait@3+ new?", NULL},
        {"begun by another run", "started", "new? step:a+ new?", NULL},
        {"replay", "started step:a step:b", "old? step:a=2 old? step:b=3 new?", NULL},
        {"transitions after history", "started step:a", "old? step:a=2 new? step:b+ new?", NULL},
        {"an arrival is no proof that the code was here", "started call:a done@2",
         "old? call:a=2 new? wait@2= new?", NULL},
        {"an op behind the arrival is", "started call:a done@2 step:b",
         "call:a=2 old? wait@2= old? step:b=4 new?", NULL},
        {"an end is", "started ended", "old? return=2 new?", NULL},
        {"live with arrivals that are not seen yet", "started call:a call:b",
         "call:a=2 call:b=3 wait@2+ <done@2,done@3 new? wait@2= new? step:c+ new?", NULL},
    };
    PLAY(CASES);
}

static void patches(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"new at the end of the journal", "started step:a", "step:a=2 patch:p+ step:b+ seq=4",
         NULL},
        {"new in a new run", "", "patch:p+ seq=2", NULL},
        {"recorded", "started patch:p step:new", "patch:p=2 step:new=3 new?", NULL},
        {"passed: there is an op instead", "started step:old", "patch:p~ step:old=2 new?", NULL},
        {"passed: there is another patch", "started patch:q step:a", "patch:p~ patch:q=2 step:a=3",
         NULL},
        {"passed: the run ended here", "started ended", "patch:p~ return=2", NULL},
        {"passed: still so when asked again", "started step:a", "patch:p~ patch:p~ step:a=2", NULL},
        {"passed: the run has ended", "started ended", "return=2 patch:p~", NULL},
        {"passed and later reached", "started step:a", "patch:p~ step:a=2 patch:p+ seq=3", NULL},
        {"in a loop, changed half-way", "started step:a patch:p step:a",
         "patch:p~ step:a=2 patch:p=3 step:a=4 patch:p+ step:a+ seq=6", NULL},
        {"while something is open", "started call:a", "call:a=2 patch:p+ wait@2+ seq=3", NULL},
        {"behind what has arrived", "started call:a done@2", "call:a=2 patch:p+ saw:3 seq=4", NULL},
    };
    PLAY(CASES);
}

static void edge_cases(void **state)
{
    (void)state;
    static const journal_case CASES[] = {
        {"zero-delay timer, fired in the same turn", "started sleep fired@2",
         "sleep=2 wait@2= return+", NULL},
        {"empty name", "started step call done@3", "step=2 call=3 wait@3=", NULL},
        {"empty data", "started= call:a= done@2=", "call:a=2 wait@2=", NULL},
        {"unicode in names", "started step:größe-日本-🎉", "step:größe-日本-🎉=2", NULL},
        {"the same name for different things", "started step:a call:a until:a done@3 done@4",
         "step:a=2 call:a=3 until:a=4 wait@4= wait@3= saw:5,6", NULL},
        {"the end is asked for again at every replay", "started step:a ended", "step:a=2 return=3",
         NULL},
        {"ended with all kinds of things open", "started call:a sleep until:b step-again:c ended",
         "call:a=2 sleep=3 until:b=4 step:c=5 return=6 open=4", NULL},
        {"special characters", "started step:a/b\\c\"d'e$f", "step:a/b\\c\"d'e$f=2", NULL},
    };
    PLAY(CASES);
}

/* ---- what the tables cannot say ---- */

static void kinds_and_what_they_are_about(void **state)
{
    (void)state;
    size_t known = 0, pairs = 0;
    for (int64_t kind = -5; kind < 200; kind++) {
        const op_info *info = op_find(kind);
        if (!info)
            continue;
        known++;
        assert_int_equal(info->kind, kind);
        assert_true(info->word[0]);
        for (int64_t op = 0; op < 200; op++) {
            if (op == OP_NONE || op_find(op))
                pairs += (size_t)op_fits(info->kind, (op_kind)op);
        }
    }
    assert_int_equal(known, 39);
    /* of five kinds of work, children and telling: 7 done, 6 failed, 5 attempts; two that time out,
     * one for messages, one of the run */
    assert_int_equal(pairs, 22);
    assert_true(op_fits(OP_FIRED, OP_SLEEP) && op_fits(OP_CANCEL, OP_NONE));
    assert_null(op_find(INT64_MIN));
    assert_null(op_find(INT64_MAX));
}

/* The longest name, the largest data; and what lies one past it. */
static void largest_rows(void **state)
{
    (void)state;
    static char big[2 * PAWL_MAX_PAYLOAD + 1];
    const replay_row *found;
    journal j;
    player p;
    memset(big, 'x', sizeof big);
    journal_parse(&j, "started step");
    j.rows[1].name = (slice){big, PAWL_MAX_NAME};
    j.rows[1].data = (slice){big, 2 * PAWL_MAX_PAYLOAD};
    for (int past = 0; past < 3; past++) {
        j.rows[1].name.size = PAWL_MAX_NAME + (past == 1);
        j.rows[1].data.size = 2 * PAWL_MAX_PAYLOAD + (past == 2);
        player_open(&p, j.rows, j.count, 1);
        assert_int_equal(player_start(&p, &found), REPLAY_RECORDED);
        replay_result result = player_op(&p, OP_STEP, (slice){big, PAWL_MAX_NAME}, &found);
        assert_int_equal(result, past ? REPLAY_CORRUPT : REPLAY_RECORDED);
        player_close(&p);
    }
}

/* What is remembered for an op comes back with each arrival that is about it. */
static void arrivals_find_their_owner(void **state)
{
    (void)state;
    static const replay_row ROWS[] = {
        {.kind = OP_ATTEMPT, .op = 2},
        {.kind = OP_DONE, .op = 3},
        {.kind = OP_CANCEL},
        {.kind = OP_DONE, .op = 2},
    };
    char first, second;
    char *const owners[] = {&first, &second, NULL, &first};
    replay_row rows[4];
    const replay_row *row;
    arena *a = arena_new(0);
    replay *r = replay_new(a, 1);
    memcpy(rows, ROWS, sizeof rows);
    assert_int_equal(replay_fed_all(r, 0), PAWL_OK);
    assert_int_equal(replay_start(r, &row), REPLAY_NEW);
    assert_int_equal(replay_append(r, &(replay_row){.kind = OP_STARTED}), PAWL_OK);
    assert_int_equal(replay_append(r, &(replay_row){.kind = OP_CALL}), PAWL_OK);
    assert_int_equal(replay_append(r, &(replay_row){.kind = OP_CALL}), PAWL_OK);
    assert_null(replay_owner(r));
    replay_own(r, 2, &first);
    replay_own(r, 3, &second);
    replay_own(r, 1, &second); /* not open: nothing to remember it for */
    replay_own(r, 99, &second);
    assert_int_equal(replay_answer(r, 2, &row), REPLAY_NEW);
    assert_int_equal(replay_arrive(r, rows, 4), 4);
    for (size_t i = 0; i < 4; i++) {
        replay_result expected = i < 3 ? REPLAY_ARRIVED : REPLAY_RECORDED;
        assert_int_equal(replay_answer(r, 2, &row), expected);
        assert_ptr_equal(row, &rows[i]);
        assert_ptr_equal(replay_owner(r), owners[i]);
    }
    assert_int_equal(replay_answer(r, 2, &row), REPLAY_RECORDED); /* given out before */
    assert_null(row);
    assert_int_equal(replay_answer(r, 3, &row), REPLAY_RECORDED);
    assert_null(row);
    arena_free(a);
}

/* The row is the one that was fed, with all that is in it. */
static void the_row_is_given_as_it_was(void **state)
{
    (void)state;
    replay_row rows[] = {
        {1, 5, OP_STARTED, 0, 100, SLICE_LIT("flow"), SLICE_LIT("\"in\"")},
        {2, 5, OP_STEP, 0, 200, SLICE_LIT("a"), SLICE_LIT("[1]")},
        {3, 5, OP_ENDED, 0, 300, SLICE_LIT(""), SLICE_LIT("{}")},
    };
    const replay_row *row;
    arena *a = arena_new(0);
    replay *r = replay_new(a, 5);
    assert_int_equal(replay_start(r, &row), REPLAY_MORE);
    assert_int_equal(replay_feed(r, NULL, 0), PAWL_OK);
    assert_int_equal(replay_feed(r, rows, 3), PAWL_OK);
    assert_int_equal(replay_is_new(r), 0);
    assert_int_equal(replay_start(r, &row), REPLAY_RECORDED);
    assert_ptr_equal(row, &rows[0]);
    assert_int_equal(replay_op(r, OP_STEP, SLICE_LIT("a"), &row), REPLAY_RECORDED);
    assert_ptr_equal(row, &rows[1]);
    assert_int_equal(replay_return(r, OP_ENDED, &row), REPLAY_RECORDED);
    assert_ptr_equal(row, &rows[2]);
    assert_int_equal(replay_is_new(r), 0); /* it is not known yet that this was all */
    assert_int_equal(replay_fed_all(r, 3), PAWL_OK);
    assert_int_equal(replay_is_new(r), 1);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_execution),
        cmocka_unit_test(what_was_asked_becomes_a_row),
        cmocka_unit_test(completions_in_history),
        cmocka_unit_test(partial_completion),
        cmocka_unit_test(sequential_progress),
        cmocka_unit_test(composition),
        cmocka_unit_test(arrivals_are_seen_at_their_place),
        cmocka_unit_test(completion_messages),
        cmocka_unit_test(failure_handling),
        cmocka_unit_test(the_first_of_several),
        cmocka_unit_test(settling_and_closing),
        cmocka_unit_test(row_by_row),
        cmocka_unit_test(cancellation),
        cmocka_unit_test(unobserved_answers),
        cmocka_unit_test(event_id_allocation),
        cmocka_unit_test(is_replaying),
        cmocka_unit_test(patches),
        cmocka_unit_test(edge_cases),
        cmocka_unit_test(kinds_and_what_they_are_about),
        cmocka_unit_test(largest_rows),
        cmocka_unit_test(arrivals_find_their_owner),
        cmocka_unit_test(the_row_is_given_as_it_was),
    };
    return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
