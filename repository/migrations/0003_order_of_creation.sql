-- A page of processes in the order of their creation costs what it shows.
CREATE INDEX created ON xavantes.processes (created, process);
