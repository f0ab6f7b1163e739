-- A process id may be used again after its process is forgotten. The sequence gives the new process a larger epoch.
CREATE SEQUENCE xavantes.epochs;
SELECT setval('xavantes.epochs', coalesce(max(epoch), 0) + 1) FROM xavantes.processes;
ALTER TABLE xavantes.processes ADD COLUMN created bigint NOT NULL DEFAULT 1;
