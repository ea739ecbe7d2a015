package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/cluster/nodeurl"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/health"
	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/logs"
	"muster/gateway/internal/logs/ship"
	"muster/gateway/internal/maas"
	"muster/gateway/internal/nodeapi"
	"muster/gateway/internal/placement"
	"muster/gateway/internal/placement/inventory"
	"muster/gateway/internal/placement/usage"
	"muster/gateway/internal/release"
	"muster/gateway/internal/release/build"
	"muster/gateway/internal/session"
	"muster/gateway/internal/session/recording"
	"muster/gateway/internal/task"
	"muster/store"
	findings "muster/store/health"
	slots "muster/store/placement"
)

// secretRecordings is the secret that seals the keys of all recordings. It is in the database, so that it is in every backup, and follows
// muster key rotate --master.
const secretRecordings = "recordings"

// base is what the parts stand on: the settings and the phases before theirs.
type base struct {
	settings settings
	log      *slog.Logger
	*storage
	*network
	peers    *peers        // the other gateways; nil: there can be none
	nodeURLs *nodeurl.List // of all gateways; nil: there is one
	*trust
	*sight
}

// parts do the work of the gateway. They are the fifth phase.
type parts struct {
	logins     *login.Service
	artifacts  *artifact.Registry
	passes     *account.Passes // for the registry
	health     *health.Service
	releases   *release.Service
	shipping   *ship.Service
	alerts     *alert.Service
	tasks      *task.Service
	placement  *placement.Service
	rental     *rental
	maas       *maas.Service
	usage      *usage.Service
	recordings *recording.Store
	sessions   *session.Service
	logs       *logs.Hub
	agents     *nodeapi.Agents // that this gateway carries
	bootstrap  *bootstrap.Bootstrap
}

// openParts opens each part after those that it asks.
func openParts(ctx context.Context, b base) (p *parts, err error) {
	p = &parts{logins: login.New(b.store, nil, b.log)}
	if p.health, err = openHealth(ctx, b); err != nil {
		return nil, err
	}
	if err := p.openReleases(ctx, b); err != nil {
		return nil, err
	}
	if p.shipping, err = openShipping(ctx, b); err != nil {
		return nil, err
	}
	digests := build.NewDigests(p.artifacts, b.reach.PublicURL)
	p.tasks, err = task.New(ctx, task.Config{Store: b.store, Sign: b.authority.SignTask, Keys: b.authority.TaskKeys, Logger: b.log,
		CountAgain: b.audit.Repeated, Moved: b.streams.TaskMoved,
		Digest: func(ctx context.Context, tag task.Tag) (string, error) {
			return digests.Find(ctx, tag.Image, tag.OfTenant, tag.Login)
		}})
	if err != nil {
		return nil, err
	}
	if p.placement, err = openPlacement(ctx, b, p.tasks); err != nil {
		return nil, err
	}
	if p.usage, err = usage.Open(ctx, usage.Config{Records: slots.New(b.store.Records()), Holds: p.placement.Holds, Node: b.overview.Row,
		Logger: b.log}); err != nil {
		return nil, err
	}
	b.feed.Add(p.usage.Take)
	if p.recordings, err = openRecordings(ctx, b); err != nil {
		return nil, err
	}
	if p.sessions, err = openSessions(ctx, b, p.tasks, p.recordings); err != nil {
		return nil, err
	}
	p.logs = logs.New(logs.Config{Open: p.sessions.OpenLog})
	if err := p.openBootstrap(ctx, b); err != nil {
		return nil, err
	}
	if p.rental, err = openRental(ctx, b, p); err != nil {
		return nil, err
	}
	if p.maas, err = openMAAS(ctx, b, p); err != nil {
		return nil, err
	}
	p.placement.SupplyBy(p.couldGet, p.supply)
	p.alerts, err = openAlerts(ctx, b, p)
	return p, err
}

// openHealth opens what finds what is wrong with nodes.
func openHealth(ctx context.Context, b base) (*health.Service, error) {
	h, err := health.Open(ctx, health.Config{
		Records: findings.New(b.store.Records()), Ready: b.overview.Ready, Node: b.overview.Row, Nodes: b.overview.Nodes,
		Tell:  b.overview.Findings,
		Judge: b.fleet.Judge, RetireAfter: time.Duration(b.settings.RetireStaleAfter), Retire: b.fleet.RetireSilent,
		CountAgain: b.audit.Told, Logger: b.log,
	})
	if err != nil {
		return nil, err
	}
	b.fleet.CountBy(h.Counts)
	b.feed.Add(h.Take)
	return h, nil
}

// openShipping opens what forwards the logs of nodes. Its buffers lie in a folder beside the database.
func openShipping(ctx context.Context, b base) (*ship.Service, error) {
	return ship.Open(ctx, ship.Config{
		Store: b.store, Folder: filepath.Join(b.settings.Data, datadir.Logs), Bound: int64(b.settings.LogsBuffer), Node: b.overview.Row,
		Count: func(picks func(*api.NodeRow) bool) int {
			n := 0
			for _, row := range b.overview.Nodes() {
				if picks(row) {
					n++
				}
			}
			return n
		},
		Logger: b.log,
	})
}

// openAlerts opens what tells people.
func openAlerts(ctx context.Context, b base, p *parts) (*alert.Service, error) {
	a, err := alert.Open(ctx, alert.Config{
		Store: b.store, Ready: b.overview.Ready, Node: b.overview.Row, Nodes: b.overview.Nodes,
		Facts: func() []alert.Fact { return wrong(b, p) },
		URL:   func() string { return b.reach.PublicURL }, Logger: b.log,
	})
	if err != nil {
		return nil, err
	}
	b.tail.Add(a.Take)
	return a, nil
}

// wrong is what is wrong with the gateway and the fleet, beside the nodes.
func wrong(b base, p *parts) (all []alert.Fact) {
	for _, c := range p.releases.Halted() {
		all = append(all, alert.Fact{Condition: condition.RolloutHalted, Subject: c.Channel,
			Text: "the rollout on the channel " + c.Channel + " was halted: " + c.Why})
	}
	for _, r := range p.shipping.Rules("") {
		if r.FailingSince != nil {
			all = append(all, alert.Fact{Condition: condition.LogShippingFailing, Subject: r.Name, Tenant: r.Tenant, Since: *r.FailingSince,
				Text: "no log lines are taken for the rule " + r.Name + ": " + r.Error})
		}
	}
	for _, h := range p.placement.Ending() {
		all = append(all, alert.Fact{Condition: condition.AllocationEnding, Subject: h.Allocation, Tenant: h.Tenant,
			Since: h.Since, Text: "the allocation " + h.Allocation + " of " + h.Owner + " ends at " + h.EndsAt.UTC().Format(time.RFC3339)})
	}
	all = append(all, p.rental.told()...)
	all = append(all, api.Each(p.maas.Told(), func(t maas.Told) alert.Fact { return alert.Fact(t) })...)
	if since, reason, lasts := b.outage.Lasts(); lasts {
		all = append(all, alert.Fact{Condition: condition.GatewayCannotWrite, Subject: "database", Since: since,
			Text: "the database takes no writes: " + reason})
	}
	return append(all, lessSafe(b)...)
}

// lessSafe is what several gateways miss so that one more loss would be felt.
func lessSafe(b base) (all []alert.Fact) {
	if b.cluster == nil {
		return nil
	}
	for _, n := range b.cluster.SilentNodes() {
		all = append(all, alert.Fact{Condition: condition.StoreNodeSilent, Subject: n.At, Since: n.Since,
			Text: "the node " + n.At + " of rqlite does not answer: " + n.Why})
	}
	if since, alone := b.peers.Alone(time.Now()); alone {
		all = append(all, alert.Fact{Condition: condition.GatewayAlone, Subject: "gateways", Since: since,
			Text: "no gateway stands by for " + b.cluster.ID})
	}
	return all
}

// openPlacement opens what says who has which GPU.
func openPlacement(ctx context.Context, b base, tasks *task.Service) (*placement.Service, error) {
	c := inventory.Config{
		Store: b.store, Records: slots.New(b.store.Records()), Ready: b.overview.Ready, Node: b.overview.Row, Nodes: b.overview.Nodes,
		Placed: b.overview.Placed,
		Send: func(ctx context.Context, o inventory.Order) error {
			params, err := json.Marshal(o.Params)
			if err == nil {
				_, _, err = tasks.Create(ctx, "", task.Request{ID: o.ID, Node: o.NodeID, Type: o.Type, Params: params, Expires: o.Expires, May: o.May},
					o.By)
			}
			return err
		},
		Cancel: func(ctx context.Context, id string, by store.Actor) error {
			_, err := tasks.Cancel(ctx, "", id, by)
			return err
		},
		Taken: func(row *api.NodeRow) (gpus []string) {
			for _, f := range row.Findings {
				if f.Rule == condition.GPUUnclaimed && !f.Old {
					gpus = append(gpus, f.GPU)
				}
			}
			slices.Sort(gpus)
			return gpus
		},
		Logger: b.log,
	}
	s, err := placement.Open(ctx, placement.Config{Config: c, TTL: time.Duration(b.settings.AllocationTTL),
		Longest: time.Duration(b.settings.AllocationLongest)})
	if err != nil {
		return nil, err
	}
	tasks.UseBy(s.MayUse)
	b.tail.Add(s.Take)
	return s, nil
}

// openRecordings opens the folder of recordings.
func openRecordings(ctx context.Context, b base) (*recording.Store, error) {
	fresh := make([]byte, 32)
	rand.Read(fresh)
	key, err := b.store.SecretOnce(ctx, secretRecordings, fresh)
	if err != nil {
		return nil, err
	}
	s := b.settings
	return recording.Open(recording.Config{
		Folder: filepath.Join(s.Data, datadir.Recordings), Key: key, Most: int64(s.RecordingMax), Keep: time.Duration(s.RecordingsKeep),
		Quota: int64(s.RecordingsQuota), Logger: b.log,
		Dropped: func(ctx context.Context, why string, count int, bytes int64) error {
			detail := map[string]string{"deleted": strconv.Itoa(count), "bytes": strconv.FormatInt(bytes, 10), "why": why}
			return b.store.AddEvents(ctx, store.Event{At: time.Now(), Kind: "recordings.pruned", Actor: "gateway", Outcome: store.OutcomeOK,
				Security: true, Detail: detail})
		},
	})
}

// openSessions opens the service of live sessions. Nodes get their documents through the wait for tasks.
func openSessions(ctx context.Context, b base, tasks *task.Service, kept *recording.Store) (*session.Service,
	error) {
	c := session.Config{
		Store: b.store, Sign: b.authority.SignTask, Keys: b.authority.TaskKeys, Ref: b.fleet.Ref, Ring: tasks.Ring,
		Heard: func(ctx context.Context, id string) (*time.Time, error) {
			node, err := b.fleet.Node(ctx, "", id)
			return node.LastSeen, err
		},
		Still: func(ctx context.Context, id, tenant, opener string) error {
			return account.Still(ctx, b.store, id, tenant, opener)
		},
		Idle: b.settings.SessionIdle, Limit: b.settings.SessionLimit, Logger: b.log, CountAgain: b.audit.Repeated,
	}
	if b.settings.RecordShells {
		c.Record = func(m recording.Meta) (session.Tape, error) { return kept.Begin(m) }
	}
	live, err := session.New(ctx, c)
	if err != nil {
		return nil, err
	}
	b.tail.Add(live.Take)
	return live, nil
}

// openBootstrap opens what brings new machines in.
func (p *parts) openBootstrap(ctx context.Context, b base) error {
	p.bootstrap = bootstrap.New(bootstrap.Config{Store: b.store, Logger: b.log, Audit: b.audit, Reach: b.reach,
		Site: func() (bootstrap.Site, error) { // with the newest trust set
			sets := b.authority.TrustSets()
			return b.settings.Bootstrap.Site(bootstrap.Gateway{
				Reach: b.reach, PinnedKey: b.serving.PinnedPublicKey(), RootPin: b.authority.RootPin(), Roots: b.authority.RootPEM(),
				TrustSet: sets[len(sets)-1].Payload, Agents: p.agents.List(),
			})
		},
		Release: func(ctx context.Context, nodeID string) (bootstrap.Release, error) {
			return scriptRelease(ctx, p.releases, b.reach.PublicURL, nodeID)
		}})
	return p.bootstrap.TakeCredential(ctx, b.settings.Bootstrap, b.settings.named)
}
