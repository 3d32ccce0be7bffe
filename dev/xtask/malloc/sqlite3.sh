#!/bin/sh
# SQLite under the malloc: a table of 100,000 rows, an index, an update and queries; then the same database from disk.
set -eu

sqlite3 base.db <<'END'
PRAGMA journal_mode = MEMORY;
PRAGMA synchronous = OFF;
CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT, amount INTEGER, body BLOB);
WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 100000)
INSERT INTO rows SELECT n, 'name ' || (n * 7919 % 100003), n * n % 1009, zeroblob(n % 100) FROM count;
CREATE INDEX by_name ON rows (name);
UPDATE rows SET amount = amount + length(name) WHERE id % 3 = 0;
DELETE FROM rows WHERE id % 10 = 4;
END
sqlite3 base.db <<'END'
SELECT count(*), sum(amount), sum(length(body)), min(name), max(name) FROM rows;
SELECT amount, count(*), group_concat(id) FROM rows GROUP BY amount HAVING amount % 50 = 1 ORDER BY 2, 1 LIMIT 20;
SELECT a.name, b.name FROM rows a JOIN rows b ON a.id = b.amount WHERE a.id < 300 ORDER BY 1, 2 LIMIT 50;
SELECT name FROM rows ORDER BY name DESC, body LIMIT 10;
PRAGMA integrity_check;
END
