/* Many things at once: a run counts the primes below a million in parts, and adds them up.
 *
 *     fan_out 10         ten parts
 *     fan_out serve      in another terminal: goes on with the run if the first is killed
 *
 * The parts are counted beside each other by the process that drives the run. Kill it: a part that
 * was recorded is never counted again, and one that was under way is counted by the process that
 * goes on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pawl.h>

enum { BELOW = 1000000 };

static const char *count(pawl_work *work, const char *part)
{
    int64_t from = pawl_get_int(part, "/from", 0);
    int64_t to = pawl_get_int(part, "/to", 0);
    int primes = 0;
    for (int64_t n = from < 2 ? 2 : from; n < to; n++) {
        int64_t divisor = 2;
        while (divisor * divisor <= n && n % divisor != 0)
            divisor++;
        primes += divisor * divisor > n;
    }
    return pawl_work_json(work, "%d", primes);
}

static const char *primes(pawl_run *run, const char *input)
{
    long long parts = pawl_get_int(input, "/parts", 0);
    if (parts < 1 || parts > PAWL_MAX_FUTURES)
        return pawl_fail(run, "parts", "%lld is not a number of parts", parts);
    pawl_future **counts = pawl_alloc(run, (size_t)parts * sizeof *counts);
    if (!counts)
        return pawl_fail(run, "memory", "no room for %lld parts", parts);

    for (long long i = 0; i < parts; i++) {
        long long from = BELOW * i / parts;
        long long to = BELOW * (i + 1) / parts;
        const char *part = pawl_json(run, "{'from':%lld,'to':%lld}", from, to);
        counts[i] = pawl_call_later(run, "count", part, NULL);
    }
    pawl_all(run, counts, (size_t)parts);

    long long sum = 0;
    for (long long i = 0; i < parts; i++)
        sum += pawl_get_int(pawl_value(counts[i]), "", 0);
    return pawl_json(run, "{'below':%d,'primes':%lld}", BELOW, sum);
}

static pawl_code count_all(pawl *p, long parts)
{
    char id[32];
    snprintf(id, sizeof id, "primes-%ld", parts);
    char *input = pawl_json_new("{'parts':%ld}", parts);
    pawl_outcome *end = NULL;
    pawl_code rc = input ? pawl_start(p, "primes", id, input, NULL) : PAWL_NOMEM;
    if (rc == PAWL_OK)
        rc = pawl_finish(p, id, PAWL_FOREVER, &end);
    if (rc == PAWL_OK)
        puts(pawl_outcome_value(end));
    pawl_outcome_free(end);
    pawl_free(input);
    return rc;
}

int main(int argc, char **argv)
{
    int serve = argc > 1 && strcmp(argv[1], "serve") == 0;
    pawl *p;
    pawl_code rc = pawl_open(&p, "primes.db", NULL);
    if (rc == PAWL_OK)
        rc = pawl_register_work(p, "count", count, NULL);
    if (rc == PAWL_OK)
        rc = pawl_register_workflow(p, "primes", primes, NULL);
    if (rc == PAWL_OK)
        rc = serve ? pawl_serve(p) : count_all(p, argc > 1 ? strtol(argv[1], NULL, 10) : 10);
    if (rc != PAWL_OK)
        fprintf(stderr, "fan_out: %s\n", pawl_errtext(p));
    pawl_close(p);
    return rc != PAWL_OK;
}
