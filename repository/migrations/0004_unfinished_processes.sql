-- A page of the processes that have not ended costs what it shows.
CREATE INDEX unfinished ON xavantes.processes (created, process) WHERE summary IS NULL;
