/* Classes of journal rows: which kinds call work functions, which arrival can answer which op. The
 * table of kinds is in the header. The switch in op_fits() has no default, so that the compiler
 * complains about every new kind. */
#include "journal/op.h"

#include <stddef.h>

static const op_info KINDS[] = {
#define OP_INFO(name, number, shape, word) [number] = {OP_##name, OP_SHAPE_##shape, word},
    OP_KINDS(OP_INFO)
#undef OP_INFO
};

const op_info *op_find(int64_t number)
{
    if (number < 0 || number >= (int64_t)(sizeof KINDS / sizeof *KINDS))
        return NULL;
    return KINDS[number].kind == OP_NONE ? NULL : &KINDS[number];
}

op_kind op_asked_as(op_kind kind)
{
    if (kind == OP_TRANSACT_FAILED || kind == OP_TRANSACT_AGAIN)
        return OP_TRANSACT;
    return kind == OP_STEP_FAILED || kind == OP_STEP_AGAIN ? OP_STEP : kind;
}

int op_is_work(op_kind kind)
{
    return kind == OP_STEP_AGAIN || kind == OP_STEP_LATER || kind == OP_CALL || kind == OP_UNTIL ||
           kind == OP_CLEAN_UP;
}

int op_is_deed(op_kind kind)
{
    /* RULE A7-how-to-undo-a-step-is-kept-with-it */
    return kind == OP_STEP || kind == OP_STEP_FAILED || kind == OP_STEP_AGAIN || kind == OP_DONE ||
           kind == OP_FAILED || kind == OP_ATTEMPT || kind == OP_MESSAGE ||
           kind == OP_TRANSACT_FAILED || kind == OP_TRANSACT_AGAIN || kind == OP_UNDO ||
           kind == OP_FINALLY;
}

int op_fits(op_kind arrival, op_kind op)
{
    switch (arrival) {
    case OP_DONE:
        return op_is_work(op) || op == OP_CHILD || op == OP_TELL;
    case OP_FAILED:
        return op_is_work(op) || op == OP_CHILD;
    case OP_ATTEMPT:
        return op_is_work(op);
    case OP_FIRED:
        return op == OP_SLEEP || op == OP_RECEIVE;
    case OP_MESSAGE:
        return op == OP_RECEIVE;
    case OP_CANCEL:
        return op == OP_NONE;
    case OP_NONE:
    case OP_STARTED:
    case OP_STEP:
    case OP_STEP_FAILED:
    case OP_STEP_AGAIN:
    case OP_CALL:
    case OP_SLEEP:
    case OP_UNTIL:
    case OP_NOW:
    case OP_UUID:
    case OP_RANDOM:
    case OP_STATUS:
    case OP_ATTRIBUTE:
    case OP_PATCH:
    case OP_STATE_SET:
    case OP_STATE_GET:
    case OP_STATE_OF:
    case OP_UNDO:
    case OP_FINALLY:
    case OP_STEP_LATER:
    case OP_TRANSACT:
    case OP_TRANSACT_FAILED:
    case OP_TRANSACT_AGAIN:
    case OP_CHILD:
    case OP_RECEIVE:
    case OP_TELL:
    case OP_FUTURE_CANCEL:
    case OP_UNDO_OF:
    case OP_ENDING:
    case OP_CLEAN_UP:
    case OP_CONTINUED:
    case OP_SHOULD_CONTINUE:
    case OP_ENDED:
    case OP_ENDED_FAILED:
        break;
    }
    return 0;
}
