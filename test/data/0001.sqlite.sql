PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE pawl_meta (
    name              TEXT NOT NULL PRIMARY KEY,
    number            INTEGER,
    value             TEXT
);
INSERT INTO pawl_meta VALUES('format',1,'pawl');
INSERT INTO pawl_meta VALUES('settled',0,NULL);
INSERT INTO pawl_meta VALUES('next_run',2001,NULL);
INSERT INTO pawl_meta VALUES('next_node',3,NULL);
INSERT INTO pawl_meta VALUES('next_ring',1,NULL);
INSERT INTO pawl_meta VALUES('feed',0,NULL);
INSERT INTO pawl_meta VALUES('feed_from',0,NULL);
INSERT INTO pawl_meta VALUES('schema',1,'0001_core');
INSERT INTO pawl_meta VALUES('database',1735700282321,'01a1ec44-9e11-7e21-af19-aea9d74a9bde');
CREATE TABLE pawl_nodes (
    node              INTEGER NOT NULL,
    slot              INTEGER NOT NULL,
    closed            INTEGER NOT NULL DEFAULT 0,
    name              TEXT NOT NULL DEFAULT '',
    build             TEXT NOT NULL DEFAULT '',
    since             INTEGER NOT NULL,
    PRIMARY KEY (node, slot)
);
INSERT INTO pawl_nodes VALUES(2,1,0,'old','610f4c97a3349ccd8095dfcf698526e2d9b16b8c',1735700282330);
INSERT INTO pawl_nodes VALUES(2,2,0,'old','610f4c97a3349ccd8095dfcf698526e2d9b16b8c',1735700282330);
INSERT INTO pawl_nodes VALUES(2,3,0,'old','610f4c97a3349ccd8095dfcf698526e2d9b16b8c',1735700282330);
INSERT INTO pawl_nodes VALUES(2,4,0,'old','610f4c97a3349ccd8095dfcf698526e2d9b16b8c',1735700282330);
INSERT INTO pawl_nodes VALUES(2,5,0,'old','610f4c97a3349ccd8095dfcf698526e2d9b16b8c',1735700282330);
CREATE TABLE pawl_offers (
    tenant            TEXT NOT NULL,
    workflow          TEXT NOT NULL,
    version           TEXT NOT NULL,
    node              INTEGER NOT NULL,
    PRIMARY KEY (tenant, workflow, version, node)
);
INSERT INTO pawl_offers VALUES('','quick','1',2);
INSERT INTO pawl_offers VALUES('','loop','1',2);
INSERT INTO pawl_offers VALUES('','parent','1',2);
INSERT INTO pawl_offers VALUES('','asks','1',2);
INSERT INTO pawl_offers VALUES('','retries','1',2);
INSERT INTO pawl_offers VALUES('','beside','1',2);
INSERT INTO pawl_offers VALUES('','saga','1',2);
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
);
INSERT INTO pawl_runs VALUES(1,'','done','quick','1',1,1,0,2,NULL,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282326,1735700282352,1735700282352,NULL,NULL,NULL,0,0,X'31',X'31',NULL);
INSERT INTO pawl_runs VALUES(2,'','failed','saga','1',2,1,0,1,NULL,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282333,1735700282367,1735700282367,NULL,NULL,NULL,0,0,X'7b226e223a327d',NULL,'{"name":"rejected","message":"no stock","where":""}');
INSERT INTO pawl_runs VALUES(3,'','cancelled','waiter','1',3,1,0,1,NULL,1,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282334,1735700288371,1735700288371,NULL,1735700288363,NULL,0,0,X'33',NULL,'{"name":"cancelled","message":"not wanted","where":""}');
INSERT INTO pawl_runs VALUES(4,'','sleeps','sleeper','1',0,1,2,1,1735703882348,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282334,1735700282348,NULL,NULL,NULL,'{"paid":4,"at":1735700282348,"chance":7547682498950467818,"id":"01a1ec44-9e2c-719c-9c3e-a93e79c242a5","patched":true}',2,0,X'34',NULL,NULL);
INSERT INTO pawl_runs VALUES(5,'','held','sleeper','1',0,1,0,1,NULL,0,4,'the auditors come',1735700288370,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282335,1735700288382,NULL,NULL,NULL,'{"paid":5,"at":1735700282348,"chance":393848474667884825,"id":"01a1ec44-9e2c-709d-9baa-4d5cde79ae50","patched":true}',2,0,X'35',NULL,NULL);
INSERT INTO pawl_runs VALUES(6,'','waits','waiter','1',0,1,2,1,NULL,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282335,1735700282351,NULL,NULL,NULL,NULL,0,0,X'36',NULL,NULL);
INSERT INTO pawl_runs VALUES(7,'','failing','saga','1',4,1,2,1,1735703882356,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282335,1735700282356,NULL,NULL,NULL,NULL,0,0,X'7b226e223a377d',NULL,NULL);
INSERT INTO pawl_runs VALUES(8,'','parent','parent','1',0,1,2,1,1735700342348,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282336,1735700282348,NULL,NULL,NULL,'"with a child"',1,0,X'38',NULL,NULL);
INSERT INTO pawl_runs VALUES(9,'','continued','loop','1',0,2,2,1,1735700292470,1,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282336,1735700282354,NULL,NULL,NULL,NULL,0,0,X'227365636f6e6422',NULL,NULL);
INSERT INTO pawl_runs VALUES(10,'','under-way','busy','1',0,1,2,1,1735700282337,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282337,1735700282337,NULL,NULL,NULL,NULL,0,0,X'3130',NULL,NULL);
INSERT INTO pawl_runs VALUES(11,'','not-registered','later','',0,1,0,1,NULL,0,1,'no node has later',1735700284354,'',0,0,NULL,NULL,NULL,0,'old',1735700282337,1735700284354,NULL,NULL,NULL,NULL,0,0,X'3131',NULL,NULL);
INSERT INTO pawl_runs VALUES(12,'','beside','beside','1',0,1,2,1,1735700282354,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282347,1735700282354,NULL,NULL,NULL,NULL,0,0,X'3132',NULL,NULL);
INSERT INTO pawl_runs VALUES(13,'','parent/1.3','waiter','1',0,1,2,1,NULL,0,0,NULL,NULL,NULL,1,0,8,1,3,0,'parent',1735700282348,1735700282354,NULL,NULL,NULL,NULL,0,0,X'38',NULL,NULL);
INSERT INTO pawl_runs VALUES(14,'','retries','retries','1',0,1,2,1,1735703882353,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282349,1735700282353,NULL,NULL,NULL,NULL,0,0,X'3133',NULL,NULL);
INSERT INTO pawl_runs VALUES(15,'','asks','asks','1',0,1,2,1,1735703882356,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282353,1735700282356,NULL,NULL,NULL,NULL,0,0,X'3134',NULL,NULL);
INSERT INTO pawl_runs VALUES(16,'','undoes','saga','1',0,1,2,1,NULL,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282355,1735700282356,NULL,NULL,NULL,NULL,0,0,X'7b226e223a31352c227761697473223a317d',NULL,NULL);
INSERT INTO pawl_runs VALUES(17,'','late','saga','1',0,1,2,1,1735703882356,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282356,1735700282365,NULL,1735703882356,NULL,NULL,0,0,X'7b226e223a31362c227761697473223a317d',NULL,NULL);
INSERT INTO pawl_runs VALUES(18,'','listens','waiter','1',0,1,2,1,NULL,0,0,NULL,NULL,NULL,1,0,NULL,NULL,NULL,0,'old',1735700282356,1735700282358,NULL,NULL,NULL,NULL,0,0,X'3137',NULL,NULL);
INSERT INTO pawl_runs VALUES(1001,'','new','quick','',0,1,0,1,1735703892464,0,0,NULL,NULL,NULL,0,0,NULL,NULL,NULL,0,'old',1735700292464,1735700292464,NULL,NULL,NULL,NULL,0,0,X'3138',NULL,NULL);
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
INSERT INTO pawl_generations VALUES(9,1,'1',5,1735700282336,1735700282348,0,NULL);
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
INSERT INTO pawl_journal VALUES(1,2,1,2,15,0,'sweep',1735700282348,0,X'7b226e223a327d');
INSERT INTO pawl_journal VALUES(2,2,1,3,14,0,'refund',1735700282348,0,X'7b226e223a327d');
INSERT INTO pawl_journal VALUES(3,4,1,2,2,0,'pay',1735700282348,0,X'34');
INSERT INTO pawl_journal VALUES(4,4,1,3,11,0,'',1735700282348,0,X'227061696422');
INSERT INTO pawl_journal VALUES(5,4,1,4,8,0,'',1735700282348,0,X'31373335373030323832333438');
INSERT INTO pawl_journal VALUES(6,4,1,5,10,0,'',1735700282348,0,X'2d33333531333739303735383038363135393830');
INSERT INTO pawl_journal VALUES(7,4,1,6,9,0,'',1735700282348,0,X'2230316131656334342d396532632d373139632d396333652d61393365373963323432613522');
INSERT INTO pawl_journal VALUES(8,4,1,7,13,0,'with-values',1735700282348,0,X'74727565');
INSERT INTO pawl_journal VALUES(9,4,1,8,11,0,'',1735700282348,0,X'7b2270616964223a342c226174223a313733353730303238323334382c226368616e6365223a373534373638323439383935303436373831382c226964223a2230316131656334342d396532632d373139632d396333652d613933653739633234326135222c2270617463686564223a747275657d');
INSERT INTO pawl_journal VALUES(10,4,1,9,6,0,'',1735700282348,0,X'31373335373033383832333438');
INSERT INTO pawl_journal VALUES(11,8,1,2,11,0,'',1735700282348,0,X'22776974682061206368696c6422');
INSERT INTO pawl_journal VALUES(12,8,1,3,17,0,'waiter',1735700282348,0,X'7b226964223a22706172656e742f312e33222c2272756e223a31337d');
INSERT INTO pawl_journal VALUES(13,5,1,2,2,0,'pay',1735700282348,0,X'35');
INSERT INTO pawl_journal VALUES(14,5,1,3,11,0,'',1735700282348,0,X'227061696422');
INSERT INTO pawl_journal VALUES(15,5,1,4,8,0,'',1735700282348,0,X'31373335373030323832333438');
INSERT INTO pawl_journal VALUES(16,5,1,5,10,0,'',1735700282348,0,X'373837363936393439333335373639363530');
INSERT INTO pawl_journal VALUES(17,5,1,6,9,0,'',1735700282348,0,X'2230316131656334342d396532632d373039642d396261612d34643563646537396165353022');
INSERT INTO pawl_journal VALUES(18,5,1,7,13,0,'with-values',1735700282348,0,X'74727565');
INSERT INTO pawl_journal VALUES(19,5,1,8,11,0,'',1735700282348,0,X'7b2270616964223a352c226174223a313733353730303238323334382c226368616e6365223a3339333834383437343636373838343832352c226964223a2230316131656334342d396532632d373039642d396261612d346435636465373961653530222c2270617463686564223a747275657d');
INSERT INTO pawl_journal VALUES(20,5,1,9,6,0,'',1735700282348,0,X'31373335373033383832333438');
INSERT INTO pawl_journal VALUES(21,9,1,2,62,0,'',1735700282348,0,X'227365636f6e6422');
INSERT INTO pawl_journal VALUES(22,9,1,1,1,0,'',1735700282348,0,X'39');
INSERT INTO pawl_journal VALUES(23,12,1,2,16,0,'one',1735700282349,0,X'');
INSERT INTO pawl_journal VALUES(24,12,1,3,16,0,'two',1735700282349,0,X'');
INSERT INTO pawl_journal VALUES(25,12,1,4,6,0,'',1735700282349,0,X'31373335373033383832333439');
INSERT INTO pawl_journal VALUES(26,12,1,5,23,0,'go',1735700282349,0,X'39323233333732303336383534373735383037');
INSERT INTO pawl_journal VALUES(27,3,1,2,20,0,'seen',1735700282348,0,X'31');
INSERT INTO pawl_journal VALUES(28,3,1,3,12,0,'colour',1735700282350,0,X'22626c756522');
INSERT INTO pawl_journal VALUES(29,3,1,4,12,0,'size',1735700282350,0,X'37');
INSERT INTO pawl_journal VALUES(30,3,1,5,23,0,'go',1735700282350,0,X'39323233333732303336383534373735383037');
INSERT INTO pawl_journal VALUES(31,7,1,2,15,0,'sweep',1735700282350,0,X'7b226e223a377d');
INSERT INTO pawl_journal VALUES(32,7,1,3,14,0,'refund',1735700282350,0,X'7b226e223a377d');
INSERT INTO pawl_journal VALUES(33,6,1,2,20,0,'seen',1735700282348,0,X'31');
INSERT INTO pawl_journal VALUES(34,6,1,3,12,0,'colour',1735700282351,0,X'22626c756522');
INSERT INTO pawl_journal VALUES(35,6,1,4,12,0,'size',1735700282351,0,X'37');
INSERT INTO pawl_journal VALUES(36,6,1,5,23,0,'go',1735700282351,0,X'39323233333732303336383534373735383037');
INSERT INTO pawl_journal VALUES(37,10,1,2,2,0,'first',1735700282351,0,X'3130');
INSERT INTO pawl_journal VALUES(38,2,1,4,2,0,'pay',1735700282351,0,X'7b226e223a327d');
INSERT INTO pawl_journal VALUES(39,2,1,5,27,0,'failed',1735700282351,0,X'7b226e616d65223a2272656a6563746564222c226d657373616765223a226e6f2073746f636b222c227768657265223a22227d');
INSERT INTO pawl_journal VALUES(40,1,1,2,2,0,'echo',1735700282352,0,X'31');
INSERT INTO pawl_journal VALUES(41,14,1,2,4,0,'pay',1735700282353,0,X'7b226e616d65223a227265747279222c226d657373616765223a227468652062616e6b20697320636c6f736564222c226e657874223a313733353730333838323335332c22626567616e223a313733353730303238323335337d');
INSERT INTO pawl_journal VALUES(42,13,1,2,20,0,'seen',1735700282354,0,X'31');
INSERT INTO pawl_journal VALUES(43,13,1,3,12,0,'colour',1735700282354,0,X'22626c756522');
INSERT INTO pawl_journal VALUES(44,13,1,4,12,0,'size',1735700282354,0,X'37');
INSERT INTO pawl_journal VALUES(45,13,1,5,23,0,'go',1735700282354,0,X'39323233333732303336383534373735383037');
INSERT INTO pawl_journal VALUES(46,9,2,2,20,0,'seen',1735700282353,0,X'31');
INSERT INTO pawl_journal VALUES(47,9,2,3,12,0,'colour',1735700282354,0,X'22626c756522');
INSERT INTO pawl_journal VALUES(48,9,2,4,12,0,'size',1735700282354,0,X'37');
INSERT INTO pawl_journal VALUES(49,9,2,5,23,0,'go',1735700282354,0,X'39323233333732303336383534373735383037');
INSERT INTO pawl_journal VALUES(50,12,1,6,40,2,'',1735700282354,0,X'3132');
INSERT INTO pawl_journal VALUES(51,7,1,4,2,0,'pay',1735700282355,0,X'7b226e223a377d');
INSERT INTO pawl_journal VALUES(52,7,1,5,27,0,'failed',1735700282355,0,X'7b226e616d65223a2272656a6563746564222c226d657373616765223a226e6f2073746f636b222c227768657265223a22227d');
INSERT INTO pawl_journal VALUES(53,15,1,2,7,0,'ask',1735700282355,0,X'39323233333732303336383534373735383037');
INSERT INTO pawl_journal VALUES(54,7,1,6,28,0,'refund',1735700282356,0,X'7b226f66223a337d');
INSERT INTO pawl_journal VALUES(55,16,1,2,15,0,'sweep',1735700282356,0,X'7b226e223a31352c227761697473223a317d');
INSERT INTO pawl_journal VALUES(56,16,1,3,14,0,'refund',1735700282356,0,X'7b226e223a31352c227761697473223a317d');
INSERT INTO pawl_journal VALUES(57,7,1,7,50,6,'',1735700282356,0,X'7b226e616d65223a227265747279222c226d657373616765223a227468652062616e6b20697320636c6f736564222c226e657874223a313733353730333838323335362c22626567616e223a313733353730303238323335367d');
INSERT INTO pawl_journal VALUES(58,17,1,2,15,0,'sweep',1735700282356,0,X'7b226e223a31362c227761697473223a317d');
INSERT INTO pawl_journal VALUES(59,17,1,3,14,0,'refund',1735700282356,0,X'7b226e223a31362c227761697473223a317d');
INSERT INTO pawl_journal VALUES(60,16,1,4,2,0,'pay',1735700282356,0,X'7b226e223a31352c227761697473223a317d');
INSERT INTO pawl_journal VALUES(61,16,1,5,23,0,'go',1735700282356,0,X'39323233333732303336383534373735383037');
INSERT INTO pawl_journal VALUES(62,18,1,2,20,0,'seen',1735700282357,0,X'31');
INSERT INTO pawl_journal VALUES(63,18,1,3,12,0,'colour',1735700282358,0,X'22626c756522');
INSERT INTO pawl_journal VALUES(64,18,1,4,12,0,'size',1735700282358,0,X'37');
INSERT INTO pawl_journal VALUES(65,18,1,5,23,0,'go',1735700282358,0,X'39323233333732303336383534373735383037');
INSERT INTO pawl_journal VALUES(66,2,1,6,28,0,'refund',1735700282364,0,X'7b226f66223a337d');
INSERT INTO pawl_journal VALUES(67,17,1,4,2,0,'pay',1735700282365,0,X'7b226e223a31362c227761697473223a317d');
INSERT INTO pawl_journal VALUES(68,17,1,5,23,0,'go',1735700282365,0,X'39323233333732303336383534373735383037');
INSERT INTO pawl_journal VALUES(69,2,1,7,40,6,'',1735700282365,0,X'7b226e223a327d');
INSERT INTO pawl_journal VALUES(70,2,1,8,28,0,'sweep',1735700282365,0,X'7b226f66223a327d');
INSERT INTO pawl_journal VALUES(71,2,1,9,40,8,'',1735700282367,0,X'7b226e223a327d');
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
INSERT INTO pawl_inbox VALUES(9,1,0,0,0,1,'other','once','old',1735700292470,0,X'22756e7265616422');
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
INSERT INTO pawl_receipts VALUES(9,'once',1,1,1735700292470,0,X'8ed9937cc9c262affe1946907e756d11a18fcced9ee8c45105032c873de12c09');
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
INSERT INTO pawl_outbox VALUES(1,'',1,'boxed','quick',NULL,'old',1735700292473,0,NULL,'{"version":null,"attributes":null,"delay_ms":0,"deadline_ms":0,"start":null}',0,X'3139');
INSERT INTO pawl_outbox VALUES(2,'',2,'listens','go',NULL,'old',1735700292474,0,NULL,NULL,0,X'2266726f6d20746865206f7574626f7822');
CREATE TABLE pawl_attributes (
    run               INTEGER NOT NULL,
    name              TEXT NOT NULL,
    kind              INTEGER NOT NULL,
    number            REAL,
    value             TEXT,
    PRIMARY KEY (run, name)
);
INSERT INTO pawl_attributes VALUES(3,'colour',1,NULL,'blue');
INSERT INTO pawl_attributes VALUES(3,'size',2,7.0,NULL);
INSERT INTO pawl_attributes VALUES(6,'colour',1,NULL,'blue');
INSERT INTO pawl_attributes VALUES(6,'size',2,7.0,NULL);
INSERT INTO pawl_attributes VALUES(13,'colour',1,NULL,'blue');
INSERT INTO pawl_attributes VALUES(13,'size',2,7.0,NULL);
INSERT INTO pawl_attributes VALUES(9,'colour',1,NULL,'blue');
INSERT INTO pawl_attributes VALUES(9,'size',2,7.0,NULL);
INSERT INTO pawl_attributes VALUES(18,'colour',1,NULL,'blue');
INSERT INTO pawl_attributes VALUES(18,'size',2,7.0,NULL);
CREATE TABLE pawl_state (
    run               INTEGER NOT NULL,
    key               TEXT NOT NULL,
    generation        INTEGER NOT NULL,
    at                INTEGER NOT NULL,
    enc               INTEGER NOT NULL DEFAULT 0,
    data              BLOB,
    PRIMARY KEY (run, key)
);
INSERT INTO pawl_state VALUES(3,'seen',1,1735700282350,0,X'31');
INSERT INTO pawl_state VALUES(6,'seen',1,1735700282351,0,X'31');
INSERT INTO pawl_state VALUES(13,'seen',1,1735700282354,0,X'31');
INSERT INTO pawl_state VALUES(9,'seen',2,1735700282354,0,X'31');
INSERT INTO pawl_state VALUES(18,'seen',1,1735700282358,0,X'31');
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
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('pawl_journal',71);
INSERT INTO sqlite_sequence VALUES('pawl_outbox',2);
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
