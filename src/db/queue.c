/* A linked list (FIFO) with counts of units and bytes per class. The link is a field of the unit,
 * so that queueing allocates nothing and cannot fail. */
#include "db/queue.h"

#include <assert.h>

int queue_has_room(const queue *q, const unit *u, int64_t units_max, int64_t bytes_max)
{
    const queue_share *s = &q->shares[u->class]; /* RULE C5-runs-have-a-share-of-their-own */
    if (s->units == 0)
        return 1;
    return s->units < units_max && s->bytes + (int64_t)u->bytes <= bytes_max;
}

static void expect_late(queue *q, const unit *u);

void queue_append(queue *q, unit *u)
{
    expect_late(q, u);
    u->next = NULL;
    if (q->tail)
        q->tail->next = u;
    else
        q->head = u;
    q->tail = u;
}

void queue_add(queue *q, unit *u)
{
    assert(!u->commit.counted); /* a unit is not added again before its final answer */
    u->commit.counted = 1;
    /* RULE C5-runs-have-a-share-of-their-own */
    q->shares[u->class].units++;
    /* RULE C5-runs-have-a-share-of-their-own */
    q->shares[u->class].bytes += (int64_t)u->bytes;
    queue_append(q, u);
}

void queue_settle(queue *q, unit *u)
{
    assert(u->commit.counted);
    u->commit.counted = 0;
    /* RULE C5-runs-have-a-share-of-their-own */
    q->shares[u->class].units--;
    /* RULE C5-runs-have-a-share-of-their-own */
    q->shares[u->class].bytes -= (int64_t)u->bytes;
    /* RULE C5-runs-have-a-share-of-their-own */
    assert(q->shares[u->class].units >= 0);
}

static unit *take_first(queue *q)
{
    unit *u = q->head;
    q->head = u->next;
    if (!q->head)
        q->tail = NULL;
    u->next = NULL;
    return u;
}

size_t queue_take(queue *q, unit **out, int64_t units_max, int64_t bytes_max)
{
    size_t count = 0;
    int64_t bytes = 0;
    while (q->head && count < (size_t)units_max) {
        bytes += (int64_t)q->head->bytes;
        if (count > 0 && bytes > bytes_max) /* RULE queue-a-batch-has-bounded-bytes */
            break;
        out[count++] = take_first(q);
    }
    return count;
}

static void expect_late(queue *q, const unit *u)
{
    if (u->deadline_ns != INT64_MAX && (q->look_ns == 0 || u->deadline_ns < q->look_ns))
        q->look_ns = u->deadline_ns;
}

unit *queue_take_late(queue *q, int64_t now_ns)
{
    if (q->look_ns == 0 || now_ns < q->look_ns)
        return NULL;
    unit *late = NULL, **late_end = &late;
    unit *rest = queue_take_all(q);
    q->look_ns = 0;
    for (unit *u = rest, *next; u; u = next) {
        next = u->next;
        u->next = NULL;
        if (u->deadline_ns <= now_ns) {
            *late_end = u;
            late_end = &u->next;
        } else {
            queue_append(q, u);
        }
    }
    return late;
}

void queue_put_back(queue *q, unit **units, size_t count)
{
    while (count-- > 0) {
        expect_late(q, units[count]);
        units[count]->next = q->head;
        q->head = units[count];
        if (!q->tail)
            q->tail = units[count];
    }
}

int queue_withdraw(queue *q, const unit *which)
{
    unit *before = NULL;
    for (unit *u = q->head; u; before = u, u = u->next) {
        if (u != which)
            continue;
        if (before)
            before->next = u->next;
        else
            q->head = u->next;
        if (q->tail == u) /* RULE queue-the-last-may-be-withdrawn */
            q->tail = before;
        return 1;
    }
    return 0;
}

unit *queue_pick(unit **list, unit_class class)
{
    unit *picked = NULL, **end = &picked;
    while (*list) {
        unit *u = *list;
        if (u->class != class) {
            list = &u->next;
            continue;
        }
        *list = u->next;
        u->next = NULL;
        *end = u;
        end = &u->next;
    }
    return picked;
}

unit *queue_take_class(queue *q, unit_class class)
{
    unit *picked = queue_pick(&q->head, class);
    q->tail = q->head;
    while (q->tail && q->tail->next)
        q->tail = q->tail->next;
    return picked;
}

unit *queue_take_all(queue *q)
{
    unit *list = q->head;
    q->head = q->tail = NULL;
    return list;
}

unit *queue_link(unit **units, size_t count)
{
    for (size_t i = 0; i < count; i++)
        units[i]->next = i + 1 < count ? units[i + 1] : NULL;
    return count ? units[0] : NULL;
}
