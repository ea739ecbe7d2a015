package provider

import (
	"context"
	"time"

	"muster/store/engine"
)

// leaseLeast is for how long after a restore no machine is stopped or destroyed because of a lease of before: its extensions may be lost.
const leaseLeast = 24 * time.Hour

// Restored makes sure that no machine ends because the database was restored from a backup. Every lease that has not ended goes on for
// leaseLeast or longer, with an event. What is being rented is not waited for and not replaced: a machine that is on record is ready, since
// it may be in use by now, and one that is not may be there under the name of its record, so it becomes nobody's. No machine ends with an
// allocation, since that may go on for longer than the backup says. A second call changes nothing.
func (r Records) Restored(ctx context.Context, at time.Time) error {
	const why = "the gateway was restored from a backup, and what was decided since is not known"
	const which = " WHERE state <> 'ended' AND (state <> 'live' OR ends_at < ?)"
	least := engine.Millis(at.Add(leaseLeast))
	return r.db.Change(ctx, []engine.Statement{
		engine.Do(`INSERT INTO events(at, kind, actor, node_id, node_name, tenant, address, outcome, detail, security)
			SELECT ?, 'lease.extended', 'gateway', node_id, '', tenant, '', 'ok', json_object('provider', account, 'instance', instance,
			'act', act, 'ends', strftime('%Y-%m-%dT%H:%M:%SZ', max(ends_at, ?) / 1000, 'unixepoch'), 'why', ?), 0
			FROM machine_leases`+which, engine.Millis(at), least, why, least),
		engine.Do(`UPDATE machine_leases SET state = 'live', ends_at = max(ends_at, ?), why = '', tries = 0, try_at = NULL, drained_at = NULL,
			asked_at = NULL, warned = 0, version = version + 1`+which, least, least),
		engine.Do("DELETE FROM rentals AS x WHERE " + live + " AND instance = ''"),
		engine.Do("UPDATE rentals AS x SET state = 'ready', ready_at = ?, why = '', version = version + 1 WHERE "+live+
			" AND state <> 'ready'", engine.Millis(at)),
		engine.Do("UPDATE rental_requests SET allocation = '' WHERE id IN (SELECT request FROM rentals x WHERE " + live + ")"),
		engine.Do("UPDATE rental_requests SET state = 'failed', why = ?, done_at = ? WHERE state = 'renting'", why, engine.Millis(at)),
		engine.Do("UPDATE rejoins SET state = 'failed', why = ?, ended_at = ? WHERE "+asked, why, engine.Millis(at)),
	})
}
