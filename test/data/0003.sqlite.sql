PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE pawl_meta (
    name              TEXT NOT NULL PRIMARY KEY,
    number            INTEGER,
    value             TEXT
);
INSERT INTO pawl_meta VALUES('format',1,'pawl');
INSERT INTO pawl_meta VALUES('settled',0,NULL);
INSERT INTO pawl_meta VALUES('next_run',1001,NULL);
INSERT INTO pawl_meta VALUES('next_node',3,NULL);
INSERT INTO pawl_meta VALUES('feed',0,NULL);
INSERT INTO pawl_meta VALUES('feed_from',0,NULL);
INSERT INTO pawl_meta VALUES('schema',3,'0003_trouble');
INSERT INTO pawl_meta VALUES('database',1735699995548,'01a1e690-8d9c-72ac-bb56-ed94e2503a73');
INSERT INTO pawl_meta VALUES('history',609009265604868722,NULL);
CREATE TABLE pawl_nodes (
    node              INTEGER NOT NULL,
    slot              INTEGER NOT NULL,
    closed            INTEGER NOT NULL DEFAULT 0,
    name              TEXT NOT NULL DEFAULT '',
    build             TEXT NOT NULL DEFAULT '',
    since             INTEGER NOT NULL, token INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (node, slot)
);
INSERT INTO pawl_nodes VALUES(2,1,0,'old:8112','360ffc5912785f04101f2dea391bdfd876e3b22d',1735699995597,7138390783918529529);
INSERT INTO pawl_nodes VALUES(2,2,0,'old:8112','360ffc5912785f04101f2dea391bdfd876e3b22d',1735699995597,7138390783918529529);
INSERT INTO pawl_nodes VALUES(2,3,0,'old:8112','360ffc5912785f04101f2dea391bdfd876e3b22d',1735699995597,7138390783918529529);
INSERT INTO pawl_nodes VALUES(2,4,0,'old:8112','360ffc5912785f04101f2dea391bdfd876e3b22d',1735699995597,7138390783918529529);
INSERT INTO pawl_nodes VALUES(2,5,0,'old:8112','360ffc5912785f04101f2dea391bdfd876e3b22d',1735699995597,7138390783918529529);
CREATE TABLE pawl_offers (
    tenant            TEXT NOT NULL,
    workflow          TEXT NOT NULL,
    version           TEXT NOT NULL,
    node              INTEGER NOT NULL,
    PRIMARY KEY (tenant, workflow, version, node)
);
INSERT INTO pawl_offers VALUES('','fails','1',2);
INSERT INTO pawl_offers VALUES('','quick','1',2);
INSERT INTO pawl_offers VALUES('','loop','1',2);
INSERT INTO pawl_offers VALUES('','parent','1',2);
INSERT INTO pawl_offers VALUES('','failing','1',2);
INSERT INTO pawl_offers VALUES('','waiter','1',2);
INSERT INTO pawl_offers VALUES('','busy','1',2);
INSERT INTO pawl_offers VALUES('','sleeper','1',2);
CREATE TABLE pawl_beats (
    node              INTEGER NOT NULL PRIMARY KEY,
    at                INTEGER NOT NULL
);
CREATE TABLE pawl_runs (
    run               INTEGER NOT NULL PRIMARY KEY,
    tenant            TEXT NOT NULL,
    id                TEXT NOT NULL,
    workflow          TEXT NOT NULL,
    version           TEXT NOT NULL,
    status            INTEGER NOT NULL DEFAULT 0,
    generation        INTEGER NOT NULL DEFAULT 1,
    owner             INTEGER NOT NULL DEFAULT 0,
    fence             INTEGER NOT NULL DEFAULT 0,
    wake_at           INTEGER,
    mail              INTEGER NOT NULL DEFAULT 0,
    held              INTEGER NOT NULL DEFAULT 0,
    held_reason       TEXT,
    held_at           INTEGER,
    held_for          TEXT,
    claims            INTEGER NOT NULL DEFAULT 0,
    claimed_seq       INTEGER NOT NULL DEFAULT 0,
    parent            INTEGER,
    parent_generation INTEGER,
    parent_op         INTEGER,
    watched           INTEGER NOT NULL DEFAULT 0,
    by                TEXT NOT NULL DEFAULT '',
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    finished_at       INTEGER,
    deadline_at       INTEGER,
    cancel_at         INTEGER,
    custom_status     TEXT,
    custom_seq        INTEGER NOT NULL DEFAULT 0,
    enc               INTEGER NOT NULL DEFAULT 0,
    input             BLOB,
    output            BLOB,
    error             TEXT
, trouble TEXT, trouble_at INTEGER);
INSERT INTO pawl_runs VALUES(1,'','done','quick','1',1,1,0,2,NULL,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old:8112',1735699995569,1735699995642,1735699995642,NULL,NULL,NULL,0,0,X'31',X'31',NULL,NULL,NULL);
INSERT INTO pawl_runs VALUES(2,'','failed','fails','1',2,1,0,2,NULL,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old:8112',1735699995598,1735699995642,1735699995642,NULL,NULL,NULL,0,0,X'32',NULL,'{"name":"rejected","message":"no stock","where":""}',NULL,NULL);
INSERT INTO pawl_runs VALUES(3,'','cancelled','waiter','1',3,1,0,2,NULL,1,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old:8112',1735699995607,1735699996670,1735699996670,NULL,1735699996659,NULL,0,0,X'33',NULL,'{"name":"cancelled","message":"not wanted","where":""}',NULL,NULL);
INSERT INTO pawl_runs VALUES(4,'','sleeps','sleeper','1',0,1,2,1,1735703595638,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old:8112',1735699995634,1735699995638,NULL,NULL,NULL,'"asleep"',2,0,X'34',NULL,NULL,NULL,NULL);
INSERT INTO pawl_runs VALUES(5,'','held','sleeper','1',0,1,0,1,NULL,0,4,'the auditors come',1735699996683,NULL,1,0,NULL,NULL,NULL,0,'old:8112',1735699995635,1735699996686,NULL,NULL,NULL,'"asleep"',2,0,X'35',NULL,NULL,NULL,NULL);
INSERT INTO pawl_runs VALUES(6,'','waits','waiter','1',0,1,2,1,NULL,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old:8112',1735699995640,1735699995643,NULL,NULL,NULL,NULL,0,0,X'36',NULL,NULL,NULL,NULL);
INSERT INTO pawl_runs VALUES(7,'','failing','failing','1',4,1,2,1,1735703595651,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old:8112',1735699995643,1735699995651,NULL,NULL,NULL,NULL,0,0,X'37',NULL,NULL,NULL,NULL);
INSERT INTO pawl_runs VALUES(8,'','parent','parent','1',0,1,2,1,1735700055650,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old:8112',1735699995644,1735699995650,NULL,NULL,NULL,NULL,0,0,X'38',NULL,NULL,NULL,NULL);
INSERT INTO pawl_runs VALUES(9,'','continued','loop','1',0,2,2,1,NULL,1,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old:8112',1735699995650,1735700000906,NULL,NULL,NULL,NULL,0,0,X'227365636f6e6422',NULL,NULL,NULL,NULL);
INSERT INTO pawl_runs VALUES(10,'','parent/1.2','waiter','1',0,1,2,1,NULL,0,0,NULL,NULL,NULL,1,0,8,1,2,0,'parent',1735699995650,1735699995651,NULL,NULL,NULL,NULL,0,0,X'38',NULL,NULL,NULL,NULL);
INSERT INTO pawl_runs VALUES(11,'','under-way','busy','1',0,1,2,1,1735699995651,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old:8112',1735699995651,1735699995651,NULL,NULL,NULL,NULL,0,0,X'3130',NULL,NULL,NULL,NULL);
INSERT INTO pawl_runs VALUES(12,'','not-registered','later','',0,1,0,1,NULL,0,1,'no node has later',1735699998198,'',0,0,NULL,NULL,NULL,0,'old:8112',1735699995653,1735699998198,NULL,NULL,NULL,NULL,0,0,X'3131',NULL,NULL,NULL,NULL);
INSERT INTO pawl_runs VALUES(13,'','new','quick','1',0,1,0,1,1735703600897,0,0,NULL,NULL,NULL,0,0,NULL,NULL,NULL,0,'old:8112',1735700000897,1735700000897,NULL,NULL,NULL,NULL,0,0,X'3132',NULL,NULL,NULL,NULL);
CREATE TABLE pawl_generations (
    run               INTEGER NOT NULL,
    generation        INTEGER NOT NULL,
    version           TEXT NOT NULL,
    status            INTEGER NOT NULL DEFAULT 0,
    started_at        INTEGER NOT NULL,
    finished_at       INTEGER,
    enc               INTEGER NOT NULL DEFAULT 0,
    output            BLOB,
    PRIMARY KEY (run, generation)
);
INSERT INTO pawl_generations VALUES(9,1,'1',5,1735699995650,1735699995651,0,NULL);
CREATE TABLE pawl_journal (
    pos               INTEGER PRIMARY KEY AUTOINCREMENT,
    run               INTEGER NOT NULL,
    generation        INTEGER NOT NULL,
    seq               INTEGER NOT NULL,
    kind              INTEGER NOT NULL,
    op                INTEGER NOT NULL DEFAULT 0,
    name              TEXT NOT NULL,
    at                INTEGER NOT NULL,
    enc               INTEGER NOT NULL DEFAULT 0,
    data              BLOB
);
INSERT INTO pawl_journal VALUES(1,4,1,2,11,0,'',1735699995635,0,X'22666972737422');
INSERT INTO pawl_journal VALUES(2,4,1,3,2,0,'pay',1735699995638,0,X'34');
INSERT INTO pawl_journal VALUES(3,4,1,4,11,0,'',1735699995638,0,X'2261736c65657022');
INSERT INTO pawl_journal VALUES(4,4,1,5,6,0,'',1735699995638,0,X'31373335373033353935363338');
INSERT INTO pawl_journal VALUES(5,5,1,2,11,0,'',1735699995640,0,X'22666972737422');
INSERT INTO pawl_journal VALUES(6,1,1,2,2,0,'echo',1735699995642,0,X'31');
INSERT INTO pawl_journal VALUES(7,3,1,2,20,0,'seen',1735699995643,0,X'31');
INSERT INTO pawl_journal VALUES(8,3,1,3,12,0,'colour',1735699995643,0,X'22626c756522');
INSERT INTO pawl_journal VALUES(9,3,1,4,23,0,'go',1735699995643,0,X'39323233333732303336383534373735383037');
INSERT INTO pawl_journal VALUES(10,6,1,2,20,0,'seen',1735699995643,0,X'31');
INSERT INTO pawl_journal VALUES(11,6,1,3,12,0,'colour',1735699995643,0,X'22626c756522');
INSERT INTO pawl_journal VALUES(12,6,1,4,23,0,'go',1735699995643,0,X'39323233333732303336383534373735383037');
INSERT INTO pawl_journal VALUES(13,5,1,3,2,0,'pay',1735699995643,0,X'35');
INSERT INTO pawl_journal VALUES(14,5,1,4,11,0,'',1735699995643,0,X'2261736c65657022');
INSERT INTO pawl_journal VALUES(15,5,1,5,6,0,'',1735699995643,0,X'31373335373033353935363433');
INSERT INTO pawl_journal VALUES(16,7,1,2,14,0,'refund',1735699995644,0,X'37');
INSERT INTO pawl_journal VALUES(17,7,1,3,2,0,'pay',1735699995645,0,X'37');
INSERT INTO pawl_journal VALUES(18,7,1,4,27,0,'failed',1735699995646,0,X'7b226e616d65223a2272656a6563746564222c226d657373616765223a226e6f2073746f636b222c227768657265223a22227d');
INSERT INTO pawl_journal VALUES(19,8,1,2,17,0,'waiter',1735699995650,0,X'7b226964223a22706172656e742f312e32222c2272756e223a31307d');
INSERT INTO pawl_journal VALUES(20,7,1,5,28,0,'refund',1735699995650,0,X'7b226f66223a327d');
INSERT INTO pawl_journal VALUES(21,9,1,2,62,0,'',1735699995651,0,X'227365636f6e6422');
INSERT INTO pawl_journal VALUES(22,9,1,1,1,0,'',1735699995651,0,X'39');
INSERT INTO pawl_journal VALUES(23,10,1,2,20,0,'seen',1735699995651,0,X'31');
INSERT INTO pawl_journal VALUES(24,10,1,3,12,0,'colour',1735699995651,0,X'22626c756522');
INSERT INTO pawl_journal VALUES(25,10,1,4,23,0,'go',1735699995651,0,X'39323233333732303336383534373735383037');
INSERT INTO pawl_journal VALUES(26,7,1,6,50,5,'',1735699995651,0,X'7b226e616d65223a227265747279222c226d657373616765223a227468652062616e6b20697320636c6f736564222c226e657874223a313733353730333539353635312c22626567616e223a313733353639393939353635307d');
INSERT INTO pawl_journal VALUES(27,11,1,2,2,0,'first',1735699995653,0,X'3130');
INSERT INTO pawl_journal VALUES(28,9,2,2,20,0,'seen',1735699995653,0,X'31');
INSERT INTO pawl_journal VALUES(29,9,2,3,12,0,'colour',1735699995653,0,X'22626c756522');
INSERT INTO pawl_journal VALUES(30,9,2,4,23,0,'go',1735699995653,0,X'39323233333732303336383534373735383037');
CREATE TABLE pawl_inbox (
    run               INTEGER NOT NULL,
    seq               INTEGER NOT NULL,
    generation        INTEGER NOT NULL DEFAULT 0,
    op                INTEGER NOT NULL DEFAULT 0,
    attempt           INTEGER NOT NULL DEFAULT 0,
    kind              INTEGER NOT NULL,
    name              TEXT NOT NULL,
    key               TEXT,
    by                TEXT NOT NULL DEFAULT '',
    at                INTEGER NOT NULL,
    enc               INTEGER NOT NULL DEFAULT 0,
    data              BLOB,
    PRIMARY KEY (run, name, seq)
);
INSERT INTO pawl_inbox VALUES(9,1,0,0,0,1,'other',NULL,'old:8112',1735700000855,0,X'22756e7265616422');
CREATE TABLE pawl_receipts (
    run               INTEGER NOT NULL,
    key               TEXT NOT NULL,
    kind              INTEGER NOT NULL,
    seq               INTEGER NOT NULL,
    at                INTEGER NOT NULL,
    enc               INTEGER NOT NULL DEFAULT 0,
    answer            BLOB,
    PRIMARY KEY (run, key)
);
CREATE TABLE pawl_tasks (
    task              INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant            TEXT NOT NULL,
    queue             TEXT NOT NULL,
    run               INTEGER NOT NULL,
    generation        INTEGER NOT NULL,
    op                INTEGER NOT NULL,
    attempt           INTEGER NOT NULL DEFAULT 1,
    name              TEXT NOT NULL,
    owner             INTEGER NOT NULL DEFAULT 0,
    fence             INTEGER NOT NULL DEFAULT 0,
    tag               TEXT NOT NULL DEFAULT '',
    affinity          TEXT NOT NULL DEFAULT '',
    fair_key          TEXT NOT NULL DEFAULT '',
    priority          INTEGER NOT NULL DEFAULT 0,
    place             INTEGER NOT NULL DEFAULT 0,
    visible_at        INTEGER NOT NULL,
    progress          BLOB,
    at                INTEGER NOT NULL,
    enc               INTEGER NOT NULL DEFAULT 0,
    input             BLOB
);
CREATE TABLE pawl_outbox (
    pos               INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant            TEXT NOT NULL,
    kind              INTEGER NOT NULL,
    target            TEXT NOT NULL,
    name              TEXT NOT NULL,
    key               TEXT,
    by                TEXT NOT NULL DEFAULT '',
    at                INTEGER NOT NULL,
    failed            INTEGER NOT NULL DEFAULT 0,
    failed_why        TEXT,
    options           TEXT,
    enc               INTEGER NOT NULL DEFAULT 0,
    data              BLOB
);
CREATE TABLE pawl_attributes (
    run               INTEGER NOT NULL,
    name              TEXT NOT NULL,
    kind              INTEGER NOT NULL,
    number            REAL,
    value             TEXT,
    PRIMARY KEY (run, name)
);
INSERT INTO pawl_attributes VALUES(3,'colour',1,NULL,'blue');
INSERT INTO pawl_attributes VALUES(6,'colour',1,NULL,'blue');
INSERT INTO pawl_attributes VALUES(10,'colour',1,NULL,'blue');
INSERT INTO pawl_attributes VALUES(9,'colour',1,NULL,'blue');
CREATE TABLE pawl_state (
    run               INTEGER NOT NULL,
    key               TEXT NOT NULL,
    generation        INTEGER NOT NULL,
    at                INTEGER NOT NULL,
    enc               INTEGER NOT NULL DEFAULT 0,
    data              BLOB,
    PRIMARY KEY (run, key)
);
INSERT INTO pawl_state VALUES(3,'seen',1,1735699995643,0,X'31');
INSERT INTO pawl_state VALUES(6,'seen',1,1735699995643,0,X'31');
INSERT INTO pawl_state VALUES(10,'seen',1,1735699995651,0,X'31');
INSERT INTO pawl_state VALUES(9,'seen',2,1735699995653,0,X'31');
CREATE TABLE pawl_queues (
    tenant            TEXT NOT NULL,
    queue             TEXT NOT NULL,
    paused            INTEGER NOT NULL DEFAULT 0,
    running_max       INTEGER NOT NULL DEFAULT 0,
    per_key_max       INTEGER NOT NULL DEFAULT 0,
    rate              INTEGER NOT NULL DEFAULT 0,
    rate_ms           INTEGER NOT NULL DEFAULT 0,
    updated_at        INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue)
);
CREATE TABLE pawl_changes (
    pos               INTEGER PRIMARY KEY AUTOINCREMENT,
    xact              INTEGER NOT NULL DEFAULT 0,
    run               INTEGER NOT NULL,
    at                INTEGER NOT NULL
);
CREATE TABLE pawl_commits (
    ring              INTEGER NOT NULL,
    place             INTEGER NOT NULL,
    number            INTEGER NOT NULL,
    at                INTEGER NOT NULL,
    PRIMARY KEY (ring, place)
);
INSERT INTO pawl_commits VALUES(6073474451912270978,0,23,1735700000908);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('pawl_journal',30);
CREATE UNIQUE INDEX pawl_runs_id ON pawl_runs (tenant, id);
CREATE INDEX pawl_runs_wake ON pawl_runs (owner, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX pawl_runs_parent ON pawl_runs (parent, run) WHERE parent IS NOT NULL;
CREATE INDEX pawl_runs_held ON pawl_runs (held, owner, workflow, version, run) WHERE held <> 0;
CREATE INDEX pawl_runs_deadline ON pawl_runs (tenant, deadline_at)
    WHERE (deadline_at IS NOT NULL AND held <> 0);
CREATE INDEX pawl_runs_failing ON pawl_runs (tenant, run) WHERE (held <> 0 AND status = 4);
CREATE INDEX pawl_runs_trouble ON pawl_runs (run) WHERE (status >= 2 OR held <> 0);
CREATE UNIQUE INDEX pawl_journal_seq ON pawl_journal (run, generation, seq);
CREATE INDEX pawl_inbox_rest ON pawl_inbox (run, seq) WHERE kind <> 1;
CREATE UNIQUE INDEX pawl_tasks_op ON pawl_tasks (run, generation, op);
CREATE INDEX pawl_tasks_due ON pawl_tasks (owner, queue, tag, priority, place, visible_at, task);
CREATE INDEX pawl_outbox_target ON pawl_outbox (tenant, target, pos) WHERE failed = 0;
CREATE INDEX pawl_outbox_key ON pawl_outbox (tenant, target, key, pos)
    WHERE (failed = 0 AND key IS NOT NULL);
CREATE INDEX pawl_outbox_next ON pawl_outbox (tenant, pos) WHERE failed = 0;
CREATE INDEX pawl_attributes_value ON pawl_attributes (name, value, run) WHERE value IS NOT NULL;
CREATE INDEX pawl_attributes_number ON pawl_attributes (name, number, run) WHERE number IS NOT NULL;
CREATE INDEX pawl_changes_xact ON pawl_changes (xact, pos) WHERE xact > 0;
COMMIT;
