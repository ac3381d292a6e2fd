/* A saga: reserve, charge, ship; and what was done is undone when a later part fails.
 *
 *     order_saga order-17 "12 Canal Street"    all three, and a parcel
 *     order_saga order-18                      no address: ship fails, then refund, then release
 *
 * Undos are taken from the record, last first, each with retries of its own: also after a crash in
 * the middle of them, and also by a build that no longer has this workflow. */
#include <stdio.h>
#include <pawl.h>

static const char *reserve(pawl_work *work, const char *order)
{
    printf("reserve %s\n", pawl_work_text(work, order, "/item", "nothing"));
    return pawl_work_json(work, "%s", pawl_work_key(work)); /* the same in every attempt */
}

static const char *charge(pawl_work *work, const char *order)
{
    printf("charge %lld cents\n", (long long)pawl_get_int(order, "/cents", 0));
    return pawl_work_json(work, "%s", pawl_work_key(work));
}

static const char *ship(pawl_work *work, const char *order)
{
    if (pawl_get_kind(order, "/address") != PAWL_STRING)
        return pawl_work_fail(work, PAWL_PERMANENT, "no-address", "where should it go?");
    printf("ship to %s\n", pawl_work_text(work, order, "/address", ""));
    return pawl_work_json(work, "%s", pawl_work_key(work));
}

/* Both undos: "release" and "refund". */
static const char *take_back(pawl_work *work, const char *key)
{
    printf("%s %s\n", pawl_work_name(work), key);
    return "null";
}

static const char *checkout(pawl_run *run, const char *order)
{
    const char *stock = pawl_call(run, "reserve", order, NULL);
    pawl_undo(run, "release", stock);

    const char *paid = pawl_call(run, "charge", order, PAWL_CALL(.attempts = 5));
    pawl_undo(run, "refund", paid);

    const char *sent = pawl_call(run, "ship", order, PAWL_CALL(.attempt_ms = PAWL_MINUTES(2)));
    return pawl_json(run, "{'paid':%j,'sent':%j}", paid, sent);
}

static pawl_code set_up(pawl *p)
{
    static const struct {
        const char *name;
        pawl_work_fn *fn;
    } WORK[] = {{"reserve", reserve},
                {"release", take_back},
                {"charge", charge},
                {"refund", take_back},
                {"ship", ship}};
    pawl_code rc = pawl_register_workflow(p, "checkout", checkout, NULL);
    for (size_t i = 0; rc == PAWL_OK && i < sizeof WORK / sizeof *WORK; i++)
        rc = pawl_register_work(p, WORK[i].name, WORK[i].fn, NULL);
    return rc;
}

int main(int argc, char **argv)
{
    const char *id = argc > 1 ? argv[1] : "order-1";
    const char *address = argc > 2 ? argv[2] : NULL; /* becomes null in the order */
    char *order = pawl_json_new("{'item':'kettle','cents':4900,'address':%s}", address);
    pawl *p = NULL;
    pawl_outcome *end = NULL;
    pawl_code rc = order ? pawl_open(&p, "shop.db", NULL) : PAWL_NOMEM;
    if (rc == PAWL_OK)
        rc = set_up(p);
    if (rc == PAWL_OK)
        rc = pawl_start(p, "checkout", id, order, NULL);
    if (rc == PAWL_OK)
        rc = pawl_finish(p, id, PAWL_FOREVER, &end);

    if (rc == PAWL_OK)
        printf("%s: %s\n", id, pawl_outcome_value(end));
    else if (end)
        printf("%s: %s: %s\n", id, pawl_outcome_name(end), pawl_outcome_message(end));
    else
        fprintf(stderr, "order_saga: %s\n", pawl_errtext(p));
    pawl_outcome_free(end);
    pawl_close(p);
    pawl_free(order);
    return rc != PAWL_OK;
}
