-- What a channel goes back to is a release that has finished: its rollout came to its end, or the gateway brought it as the channel's
-- first. Until now a rollout that a later one replaced was said to be done.
UPDATE rollouts SET state = 'replaced' WHERE state = 'done' AND why = 'a later one took its place';

-- finished is 1 where the channel's present release has finished here. reported is the highest number that nodes have obeyed and that a
-- restored database does not know of; while it is not 0, nobody is sent anywhere.
ALTER TABLE channels ADD COLUMN finished INTEGER NOT NULL DEFAULT 0;
ALTER TABLE channels ADD COLUMN reported INTEGER NOT NULL DEFAULT 0;

UPDATE channels SET finished = 1
  WHERE NOT EXISTS(SELECT 1 FROM rollouts o WHERE o.channel = channels.channel AND o.digest = channels.digest)
    OR EXISTS(SELECT 1 FROM rollouts o WHERE o.channel = channels.channel AND o.digest = channels.digest AND o.state = 'done');

-- A release before that never finished gives its place to the newest one that did.
UPDATE channels SET previous = COALESCE(
    (SELECT o.digest FROM rollouts o WHERE o.channel = channels.channel AND o.digest <> channels.digest AND o.state = 'done'
      AND EXISTS(SELECT 1 FROM releases r WHERE r.digest = o.digest) ORDER BY o.number DESC LIMIT 1),
    (SELECT p.digest FROM pointers p WHERE p.channel = channels.channel AND p.seq = 1 AND p.digest <> channels.digest
      AND EXISTS(SELECT 1 FROM releases r WHERE r.digest = p.digest)
      AND NOT EXISTS(SELECT 1 FROM rollouts o WHERE o.channel = p.channel AND o.digest = p.digest AND o.state IN ('halted', 'aborted'))),
    '')
  WHERE previous <> ''
    AND EXISTS(SELECT 1 FROM rollouts o WHERE o.channel = channels.channel AND o.digest = channels.previous)
    AND NOT EXISTS(SELECT 1 FROM rollouts o WHERE o.channel = channels.channel AND o.digest = channels.previous AND o.state = 'done');
