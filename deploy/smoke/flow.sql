-- What a user does first with Trino, run by flow.sh. Each line that begins with "-->" is a row that Trino prints.
CREATE SCHEMA smoke;
CREATE SCHEMA "smoke.inner";
SHOW SCHEMAS LIKE 'smoke%';
--> smoke
--> smoke.inner

CREATE TABLE smoke.orders (id integer, name varchar);
SELECT * FROM smoke.orders;
INSERT INTO smoke.orders VALUES (1, 'a'), (2, 'b'), (3, 'c');
SELECT count(*), sum(id) FROM smoke.orders;
--> 3	6
DELETE FROM smoke.orders WHERE id = 2;
UPDATE smoke.orders SET name = 'c2' WHERE id = 3;
MERGE INTO smoke.orders AS old USING (VALUES (1, 'a2'), (4, 'd')) AS new (id, name) ON old.id = new.id
    WHEN MATCHED THEN UPDATE SET name = new.name
    WHEN NOT MATCHED THEN INSERT VALUES (new.id, new.name);
SELECT * FROM smoke.orders ORDER BY id;
--> 1	a2
--> 3	c2
--> 4	d
ALTER TABLE smoke.orders ADD COLUMN region varchar;
ALTER TABLE smoke.orders RENAME COLUMN name TO title;
INSERT INTO smoke.orders VALUES (5, 'e', 'east');
SELECT id, title, coalesce(region, 'none') FROM smoke.orders WHERE id > 3 ORDER BY id;
--> 4	d	none
--> 5	e	east
SELECT count(*) FROM smoke."orders$snapshots";
--> 6

CREATE TABLE "smoke.inner".copy WITH (partitioning = ARRAY['region'], format_version = 1)
    AS SELECT * FROM smoke.orders;
SELECT count(*) FROM "smoke.inner".copy;
--> 4
ALTER TABLE "smoke.inner".copy RENAME TO "smoke.inner".renamed;
SHOW TABLES FROM "smoke.inner";
--> renamed
DROP TABLE "smoke.inner".renamed;
CREATE TABLE "smoke.inner".renamed AS SELECT 7 AS id;
SELECT * FROM "smoke.inner".renamed;
--> 7

CREATE VIEW smoke.titles AS SELECT title FROM smoke.orders;
SELECT count(*) FROM smoke.titles;
--> 4
CREATE OR REPLACE VIEW smoke.titles AS SELECT title FROM smoke.orders WHERE id = 1;
SELECT * FROM smoke.titles;
--> a2

DROP VIEW smoke.titles;
DROP TABLE "smoke.inner".renamed;
DROP TABLE smoke.orders;
SHOW TABLES FROM smoke;
DROP SCHEMA "smoke.inner";
DROP SCHEMA smoke;
SHOW SCHEMAS LIKE 'smoke%';
