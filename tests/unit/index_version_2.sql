-- An index of schema version 2, as memoryd before version 3 made it; without the tables that are
-- derived. Never to be changed.
BEGIN TRANSACTION;
CREATE TABLE chunks (
    row_id INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    file_id INTEGER NOT NULL REFERENCES files (file_id),
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    hash TEXT NOT NULL,
    model TEXT NOT NULL,
    heading TEXT NOT NULL,
    text TEXT NOT NULL,
    vector_id INTEGER REFERENCES embedding_cache (vector_id),
    updated_at INTEGER NOT NULL
, line_map TEXT NOT NULL DEFAULT '') STRICT;
INSERT INTO "chunks" VALUES(2,'46560529ebabf0d719812deb211ac426565a412232f76fccd682b4190c896e60',2,1,1,'8b4df85a07e71f5eaa57b5061838c44f5e1ab972a37e8051f85afb7978947df5','use','House','boiler',1,1790000000,'');
INSERT INTO "chunks" VALUES(3,'f8da2f0f2c14194ed13bcafc310b5461cddd35683dd640beef7ee7fbc77ae536',2,2,2,'c9af477d19b132dbcda4ebbaa61c923d29ef65c44636b929da54acd23f4e40eb','use','House','valve',NULL,1790000000,'');
INSERT INTO "chunks" VALUES(4,'052eda10a6d0394ec03de1a47d3baeb6f1804d38c3eef89b19d9627f7f1eb605',3,1,1,'0835a472d8b309f527d70c831af098db710bca5984245567ea5b33998788a7c5','use','House','gasket',2,1790000000,'');
INSERT INTO "chunks" VALUES(5,'398cfafb6d62aae1bfac7527dabb524612fa13a2266f4e3dbd444c3e215836d9',3,2,2,'8b4df85a07e71f5eaa57b5061838c44f5e1ab972a37e8051f85afb7978947df5','use','House','boiler',1,1790000000,'');
CREATE TABLE embedding_cache (
    vector_id INTEGER PRIMARY KEY AUTOINCREMENT,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    provider_key TEXT NOT NULL,
    hash TEXT NOT NULL,
    dims INTEGER NOT NULL,
    embedding BLOB NOT NULL,
    used_at INTEGER NOT NULL,
    UNIQUE (provider, model, provider_key, hash)
) STRICT;
INSERT INTO "embedding_cache" VALUES(1,'local','use','k','8b4df85a07e71f5eaa57b5061838c44f5e1ab972a37e8051f85afb7978947df5',2,X'0000803F0000C040',1790000000);
INSERT INTO "embedding_cache" VALUES(2,'local','use','k','0835a472d8b309f527d70c831af098db710bca5984245567ea5b33998788a7c5',2,X'0000803F0000C040',1790000000);
CREATE TABLE files (
    file_id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL,
    source TEXT NOT NULL,
    hash TEXT NOT NULL,
    mtime_ns INTEGER NOT NULL,
    size INTEGER NOT NULL,
    inode INTEGER NOT NULL, remarks TEXT NOT NULL DEFAULT '[]', transcript TEXT,
    UNIQUE (path, source)
) STRICT;
INSERT INTO "files" VALUES(2,'MEMORY.md','memory','h2',2,9,9,'[]',NULL);
INSERT INTO "files" VALUES(3,'memory/heat.md','memory','h3',3,14,14,'[]',NULL);
CREATE TABLE forgotten (
    kind TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (kind, value)
) STRICT, WITHOUT ROWID;
INSERT INTO "forgotten" VALUES('chunk','ffff');
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('identity','{"provider":"local","model":"use","provider_key":"k","dims":2,"max_input_bytes":8000,"chunk_tokens":400,"chunk_overlap":80,"tokenizer":"porter-bigram-1"}');
INSERT INTO "meta" VALUES('workspace','/home/ann/work');
CREATE TABLE set_aside (hash TEXT PRIMARY KEY, reason TEXT NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "set_aside" VALUES('c9af477d19b132dbcda4ebbaa61c923d29ef65c44636b929da54acd23f4e40eb','too odd');
CREATE INDEX chunks_file ON chunks (file_id);
CREATE INDEX chunks_hash ON chunks (hash);
CREATE INDEX chunks_vector ON chunks (vector_id) WHERE vector_id IS NOT NULL;
CREATE INDEX chunks_pending ON chunks (row_id) WHERE vector_id IS NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('files',3);
INSERT INTO "sqlite_sequence" VALUES('chunks',5);
INSERT INTO "sqlite_sequence" VALUES('embedding_cache',2);
COMMIT;
PRAGMA user_version = 2;
