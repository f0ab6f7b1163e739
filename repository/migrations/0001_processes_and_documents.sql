CREATE TABLE xavantes.repository (realm text NOT NULL);
INSERT INTO xavantes.repository (realm) VALUES (replace(gen_random_uuid()::text, '-', ''));

-- A session is one opened store of a node. A session owns its processes while it renews its lease.
CREATE TABLE xavantes.owners (
    session text PRIMARY KEY,
    node text NOT NULL,
    lease_until timestamptz NOT NULL
);

-- Every change of the owner gives a process a larger epoch.
CREATE TABLE xavantes.processes (
    process text COLLATE "C" PRIMARY KEY,
    owner text NOT NULL,
    node text NOT NULL,
    epoch bigint NOT NULL,
    head bytea NOT NULL,
    summary bytea
);
CREATE INDEX running ON xavantes.processes (owner) WHERE summary IS NULL;

CREATE TABLE xavantes.records (
    process text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    is_snapshot boolean NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (process, number)
);

CREATE TABLE xavantes.documents (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (kind, key)
);
