-- What a task changes, where a task of another type can undo it: tasks on one subject of a node are done in their order.
ALTER TABLE tasks ADD COLUMN subject TEXT NOT NULL DEFAULT ''; -- such as user; '' : none
ALTER TABLE tasks ADD COLUMN subject_name TEXT NOT NULL DEFAULT ''; -- '' : all of that kind
CREATE INDEX tasks_subject ON tasks(node_id, subject, number) WHERE subject <> '';
