-- A shop in memory: inserts, indexes, joins, updates and deletions.
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE purchase (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER, note TEXT);
BEGIN;
WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {rows} / 10 + 1)
INSERT INTO customer SELECT n, printf('customer %08x', n * 2654435761 % 4294967296), printf('city %d', n * 7919 % 500) FROM number;
WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {rows})
INSERT INTO purchase SELECT n, n * 48271 % ({rows} / 10 + 1) + 1, n * 16807 % 10000, printf('%.*c', n * 31 % 200, 'x') FROM number;
COMMIT;
CREATE INDEX by_customer ON purchase (customer, amount);
CREATE INDEX by_note ON purchase (note);
CREATE INDEX by_city ON customer (city, name);
SELECT city, count(*), sum(amount) FROM customer JOIN purchase ON purchase.customer = customer.id
GROUP BY city ORDER BY 3 DESC;
SELECT name, group_concat(amount) FROM customer JOIN purchase ON purchase.customer = customer.id
GROUP BY customer.id HAVING count(*) > 3;
SELECT count(DISTINCT note || amount) FROM purchase;
UPDATE purchase SET note = note || ' again' WHERE id % 3 = 0;
DELETE FROM purchase WHERE id % 2 = 0;
SELECT length(group_concat(note)) FROM purchase;
VACUUM;
