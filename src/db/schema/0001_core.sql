-- The core tables. docs/format.md describes every column; read it first. Small letters in braces
-- name a table of pawl's, capitals a macro of the driver: {KEY} a primary key that the database
-- generates and never uses twice, {INT} a 64-bit integer, {TEXT} text compared bytewise, {REAL} a
-- double, {BYTES} any bytes, {BUSY} storage settings of a table whose rows change often, {XACT} the
-- number of the transaction, which rises in the order in which transactions begin (0 where one
-- transaction writes at a time).

CREATE TABLE {meta} (
    name              {TEXT} NOT NULL PRIMARY KEY,
    number            {INT},
    value             {TEXT}
);

CREATE TABLE {nodes} (
    node              {INT} NOT NULL,
    slot              {INT} NOT NULL,
    closed            {INT} NOT NULL DEFAULT 0,
    name              {TEXT} NOT NULL DEFAULT '',
    build             {TEXT} NOT NULL DEFAULT '',
    since             {INT} NOT NULL,
    PRIMARY KEY (node, slot)
);

CREATE TABLE {offers} (
    tenant            {TEXT} NOT NULL,
    workflow          {TEXT} NOT NULL,
    version           {TEXT} NOT NULL,
    node              {INT} NOT NULL,
    PRIMARY KEY (tenant, workflow, version, node)
);

CREATE TABLE {beats} (
    node              {INT} NOT NULL PRIMARY KEY,
    at                {INT} NOT NULL
) {BUSY};

CREATE TABLE {runs} (
    run               {INT} NOT NULL PRIMARY KEY,
    tenant            {TEXT} NOT NULL,
    id                {TEXT} NOT NULL,
    workflow          {TEXT} NOT NULL,
    version           {TEXT} NOT NULL,
    status            {INT} NOT NULL DEFAULT 0,
    generation        {INT} NOT NULL DEFAULT 1,
    owner             {INT} NOT NULL DEFAULT 0,
    fence             {INT} NOT NULL DEFAULT 0,
    wake_at           {INT},
    mail              {INT} NOT NULL DEFAULT 0,
    held              {INT} NOT NULL DEFAULT 0,
    held_reason       {TEXT},
    held_at           {INT},
    held_for          {TEXT},
    claims            {INT} NOT NULL DEFAULT 0,
    claimed_seq       {INT} NOT NULL DEFAULT 0,
    parent            {INT},
    parent_generation {INT},
    parent_op         {INT},
    watched           {INT} NOT NULL DEFAULT 0,
    by                {TEXT} NOT NULL DEFAULT '',
    created_at        {INT} NOT NULL,
    updated_at        {INT} NOT NULL,
    finished_at       {INT},
    deadline_at       {INT},
    cancel_at         {INT},
    custom_status     {TEXT},
    custom_seq        {INT} NOT NULL DEFAULT 0,
    enc               {INT} NOT NULL DEFAULT 0,
    input             {BYTES},
    output            {BYTES},
    error             {TEXT}
) {BUSY};

CREATE UNIQUE INDEX pawl_runs_id ON {runs} (tenant, id);
CREATE INDEX pawl_runs_wake ON {runs} (owner, wake_at) WHERE wake_at IS NOT NULL;
-- RULE only-the-own-children-are-read
CREATE INDEX pawl_runs_parent ON {runs} (parent, run) WHERE parent IS NOT NULL;
CREATE INDEX pawl_runs_held ON {runs} (held, owner, workflow, version, run) WHERE held <> 0;
CREATE INDEX pawl_runs_deadline ON {runs} (tenant, deadline_at)
    WHERE (deadline_at IS NOT NULL AND held <> 0);
CREATE INDEX pawl_runs_failing ON {runs} (tenant, run) WHERE (held <> 0 AND status = 4);
CREATE INDEX pawl_runs_trouble ON {runs} (run) WHERE (status >= 2 OR held <> 0);

CREATE TABLE {generations} (
    run               {INT} NOT NULL,
    generation        {INT} NOT NULL,
    version           {TEXT} NOT NULL,
    status            {INT} NOT NULL DEFAULT 0,
    started_at        {INT} NOT NULL,
    finished_at       {INT},
    enc               {INT} NOT NULL DEFAULT 0,
    output            {BYTES},
    PRIMARY KEY (run, generation)
);

CREATE TABLE {journal} (
    pos               {KEY},
    run               {INT} NOT NULL,
    generation        {INT} NOT NULL,
    seq               {INT} NOT NULL,
    kind              {INT} NOT NULL,
    op                {INT} NOT NULL DEFAULT 0,
    name              {TEXT} NOT NULL,
    at                {INT} NOT NULL,
    enc               {INT} NOT NULL DEFAULT 0,
    data              {BYTES}
);

CREATE UNIQUE INDEX pawl_journal_seq ON {journal} (run, generation, seq);

CREATE TABLE {inbox} (
    run               {INT} NOT NULL,
    seq               {INT} NOT NULL,
    generation        {INT} NOT NULL DEFAULT 0,
    op                {INT} NOT NULL DEFAULT 0,
    attempt           {INT} NOT NULL DEFAULT 0,
    kind              {INT} NOT NULL,
    name              {TEXT} NOT NULL,
    key               {TEXT},
    by                {TEXT} NOT NULL DEFAULT '',
    at                {INT} NOT NULL,
    enc               {INT} NOT NULL DEFAULT 0,
    data              {BYTES},
    PRIMARY KEY (run, name, seq)
);

CREATE INDEX pawl_inbox_rest ON {inbox} (run, seq) WHERE kind <> 1;

CREATE TABLE {receipts} (
    run               {INT} NOT NULL,
    key               {TEXT} NOT NULL,
    kind              {INT} NOT NULL,
    seq               {INT} NOT NULL,
    at                {INT} NOT NULL,
    enc               {INT} NOT NULL DEFAULT 0,
    answer            {BYTES},
    PRIMARY KEY (run, key)
);

CREATE TABLE {tasks} (
    task              {KEY},
    tenant            {TEXT} NOT NULL,
    queue             {TEXT} NOT NULL,
    run               {INT} NOT NULL,
    generation        {INT} NOT NULL,
    op                {INT} NOT NULL,
    attempt           {INT} NOT NULL DEFAULT 1,
    name              {TEXT} NOT NULL,
    owner             {INT} NOT NULL DEFAULT 0,
    fence             {INT} NOT NULL DEFAULT 0,
    tag               {TEXT} NOT NULL DEFAULT '',
    affinity          {TEXT} NOT NULL DEFAULT '',
    fair_key          {TEXT} NOT NULL DEFAULT '',
    priority          {INT} NOT NULL DEFAULT 0,
    place             {INT} NOT NULL DEFAULT 0,
    visible_at        {INT} NOT NULL,
    progress          {BYTES},
    at                {INT} NOT NULL,
    enc               {INT} NOT NULL DEFAULT 0,
    input             {BYTES}
) {BUSY};

CREATE UNIQUE INDEX pawl_tasks_op ON {tasks} (run, generation, op);
CREATE INDEX pawl_tasks_due ON {tasks} (owner, queue, tag, priority, place, visible_at, task);

CREATE TABLE {outbox} (
    pos               {KEY},
    tenant            {TEXT} NOT NULL,
    kind              {INT} NOT NULL,
    target            {TEXT} NOT NULL,
    name              {TEXT} NOT NULL,
    key               {TEXT},
    by                {TEXT} NOT NULL DEFAULT '',
    at                {INT} NOT NULL,
    failed            {INT} NOT NULL DEFAULT 0,
    failed_why        {TEXT},
    options           {TEXT},
    enc               {INT} NOT NULL DEFAULT 0,
    data              {BYTES}
);

CREATE INDEX pawl_outbox_target ON {outbox} (tenant, target, pos) WHERE failed = 0;
CREATE INDEX pawl_outbox_key ON {outbox} (tenant, target, key, pos)
    WHERE (failed = 0 AND key IS NOT NULL);
CREATE INDEX pawl_outbox_next ON {outbox} (tenant, pos) WHERE failed = 0;

CREATE TABLE {attributes} (
    run               {INT} NOT NULL,
    name              {TEXT} NOT NULL,
    kind              {INT} NOT NULL,
    number            {REAL},
    value             {TEXT},
    PRIMARY KEY (run, name)
);

CREATE INDEX pawl_attributes_value ON {attributes} (name, value, run) WHERE value IS NOT NULL;
CREATE INDEX pawl_attributes_number ON {attributes} (name, number, run) WHERE number IS NOT NULL;

CREATE TABLE {state} (
    run               {INT} NOT NULL,
    key               {TEXT} NOT NULL,
    generation        {INT} NOT NULL,
    at                {INT} NOT NULL,
    enc               {INT} NOT NULL DEFAULT 0,
    data              {BYTES},
    PRIMARY KEY (run, key)
);

CREATE TABLE {queues} (
    tenant            {TEXT} NOT NULL,
    queue             {TEXT} NOT NULL,
    paused            {INT} NOT NULL DEFAULT 0,
    running_max       {INT} NOT NULL DEFAULT 0,
    per_key_max       {INT} NOT NULL DEFAULT 0,
    rate              {INT} NOT NULL DEFAULT 0,
    rate_ms           {INT} NOT NULL DEFAULT 0,
    updated_at        {INT} NOT NULL,
    PRIMARY KEY (tenant, queue)
);

CREATE TABLE {changes} (
    pos               {KEY},
    xact              {INT} NOT NULL DEFAULT {XACT},
    run               {INT} NOT NULL,
    at                {INT} NOT NULL
);

CREATE INDEX pawl_changes_xact ON {changes} (xact, pos) WHERE xact > 0;

CREATE TABLE {commits} (
    ring              {INT} NOT NULL,
    place             {INT} NOT NULL,
    number            {INT} NOT NULL,
    at                {INT} NOT NULL,
    PRIMARY KEY (ring, place)
) {BUSY};

INSERT INTO {meta} (name, number, value) VALUES
    ('format', 1, 'pawl'),
    ('settled', 0, NULL),
    ('next_run', 1, NULL),
    ('next_node', 2, NULL),
    ('next_ring', 1, NULL),
    ('feed', 0, NULL),
    ('feed_from', 0, NULL);
