// The header as C++17 sees it: value-initialised options, a workflow that returns errors, and the
// wrapper that a C++ program would write first. tools/header-test compiles, links and runs it.
#include <pawl.h>
#include <pawl_test.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

namespace
{

template <typename Options> Options filled_in()
{
    Options o = {};
    o.size = sizeof o;
    return o;
}

struct Close {
    void operator()(pawl *p) const { pawl_close(p); }
    void operator()(pawl_outcome *o) const { pawl_outcome_free(o); }
    void operator()(pawl_info *i) const { pawl_info_free(i); }
    void operator()(char *text) const { pawl_free(text); }
};

using Engine = std::unique_ptr<pawl, Close>;
using Outcome = std::unique_ptr<pawl_outcome, Close>;

Engine open(const char *url, const pawl_options &options, pawl_code &code)
{
    pawl *p = nullptr;
    code = pawl_open(&p, url, &options);
    return Engine(p);
}

// With returns_errors every call comes back, so that destructors run.
const char *greet(pawl_run *run, const char *input)
{
    std::string name = "greeting";
    pawl_call_options o = filled_in<pawl_call_options>();
    o.attempts = 5;
    o.backoff_kind = PAWL_LINEAR;
    const char *greeting = pawl_call(run, name.c_str(), input, &o);
    if (!greeting || pawl_sleep(run, PAWL_HOURS(24)) != PAWL_OK)
        return nullptr;
    return greeting;
}

// What a build without that part answers is as good: this is about the language.
bool fine(pawl_code code)
{
    return code == PAWL_OK || code == PAWL_UNSUPPORTED;
}

bool registers(pawl *p)
{
    pawl_workflow_options o = filled_in<pawl_workflow_options>();
    o.returns_errors = 1;
    return fine(pawl_register_workflow(p, "greet", greet, &o));
}

bool starts(pawl *p)
{
    std::int64_t created = 0;
    pawl_start_options o = filled_in<pawl_start_options>();
    o.created = &created;
    pawl_outcome *end = nullptr;
    bool good = fine(pawl_start(p, "greet", "greet-1", "\"world\"", &o));
    pawl_code code = pawl_wait(p, "greet-1", 0, &end);
    Outcome owned(end);
    return good && (fine(code) || code == PAWL_TIMEOUT);
}

int count_one(const pawl_info *info, void *arg)
{
    *static_cast<int *>(arg) += std::strcmp(pawl_info_id(info), "greet-1") == 0;
    return 0;
}

bool lists(pawl *p)
{
    int count = 0;
    return pawl_list(p, nullptr, count_one, &count) == PAWL_OK && count == 1;
}

} // namespace

int main()
{
    pawl_code code = PAWL_OK;
    pawl_options o = filled_in<pawl_options>();
    o.busy_ms = 1000;
    o.name = "cpp";
    Engine engine = open("memory:", o, code);
    if (code != PAWL_OK || std::strcmp(pawl_version(), PAWL_VERSION) != 0)
        return 1;
    if (!registers(engine.get()) || !starts(engine.get()) || !lists(engine.get()))
        return 2;
    o.busy_ms = -1;
    if (pawl_close(engine.release()) != PAWL_OK || pawl_close(nullptr) != PAWL_OK)
        return 3;
    Engine refused = open("memory:", o, code);
    return code == PAWL_INVALID && std::strlen(pawl_errmsg(refused.get())) > 0 ? 0 : 4;
}
