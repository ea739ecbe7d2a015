package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"muster/gateway/internal/account"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/adminapi/backup"
	"muster/gateway/internal/adminapi/metrics"
	"muster/gateway/internal/artifact"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/authority/stepca"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/bootstrap/reach"
	"muster/gateway/internal/datadir"
	"muster/gateway/internal/datadir/masterkey"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/health"
	"muster/gateway/internal/health/alert"
	"muster/gateway/internal/history"
	"muster/gateway/internal/history/cost"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/httpserver/daemon"
	"muster/gateway/internal/httpserver/origin"
	"muster/gateway/internal/httpserver/outage"
	"muster/gateway/internal/logs"
	"muster/gateway/internal/logs/ship"
	"muster/gateway/internal/nodeapi"
	"muster/gateway/internal/release"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/session"
	"muster/gateway/internal/session/recording"
	"muster/gateway/internal/task"
	"muster/gateway/internal/view"
	"muster/gateway/internal/view/livestream"
	"muster/store"
)

// gateway holds the parts of one running gateway. open fills it in, and nothing changes it once the listeners are open.
type gateway struct {
	settings  settings
	log       *slog.Logger
	store     *store.Store
	authority *authority.Authority
	issuer    authority.Issuer // of the nodes' certificates
	serving   certificates
	overview  *view.Fleet
	costs     *cost.Service
	health    *health.Service
	alerts    *alert.Service
	shipping  *ship.Service
	tail      *audit.Tail
	streams   *livestream.Streams
	logs      *logs.Hub
	feed      *view.Feed
	history   *history.Store // nil: none is kept
	fleet     *fleet.Fleet
	logins    *login.Service
	outage    *outage.Watch
	tally     *metrics.Tally
	room      *metrics.Room
	audit     *audit.Trail
	bootstrap *bootstrap.Bootstrap
	tasks     *task.Service
	sessions  *session.Service
	releases  *release.Service
	info      *reply.Info
	origin    origin.Resolver
	limiter   *httpserver.Limiter
	nodes     *nodeapi.API
	artifacts *artifact.Registry
	passes    *account.Passes // for the registry
	lock      *os.File

	recordings *recording.Store

	started      time.Time      // when open began
	notifySocket string         // systemd's
	stepCA       *stepca.Issuer // nil: the built-in CA issues
}

// serve builds the parts, opens the listeners and serves until ctx ends. It says where it serves only when the listeners are open:
// tests wait for that line.
func serve(ctx context.Context, s settings, getenv func(string) string, stdout, stderr io.Writer) error {
	if err := checkClock(time.Now()); err != nil {
		return err
	}
	g := &gateway{settings: s, notifySocket: getenv("NOTIFY_SOCKET")}
	defer g.close()
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return fmt.Errorf("%s %q: write debug, info, warn or error", s.named("log-level"), s.logLevel)
	}
	g.log = slog.New(outage.Quiet(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})))
	if err := g.open(ctx, getenv, stdout); err != nil {
		return err
	}
	l, err := g.listen()
	if err != nil {
		return err
	}
	g.greet(stdout, l)
	return g.run(ctx, l)
}

// greet says where the gateway is and how to use it. Tests read the addresses out of these lines.
func (g *gateway) greet(stdout io.Writer, l *listeners) {
	certificate := "the files' certificate"
	if g.settings.tlsCert == "" {
		certificate = "its own CA"
	}
	fmt.Fprintf(stdout, "muster %s serves %s on %s with %s, root pin %s\n", version, g.settings.publicURL, l.tls.Addr(), certificate,
		g.authority.RootPin())
	if l.plain != nil {
		fmt.Fprintf(stdout, "without TLS: %s\n", l.plain.Addr())
	}
	fmt.Fprintf(stdout, "mint a token with: %s token create --tenant TENANT\n", g.settings.muster())
}

// checkClock refuses a clock that would issue certificates of the past.
func checkClock(now time.Time) error {
	built, err := time.Parse(time.RFC3339, builtAt)
	if err != nil || !now.Before(built) {
		return nil
	}
	const text = "this machine's clock says %s, but this program was built on %s: set the clock (timedatectl set-ntp true) and start again"
	return fmt.Errorf(text, now.UTC().Format(time.RFC3339), builtAt)
}

// open builds the parts. Each stands on those before it. The lock comes first, so that no second gateway opens the database, and
// close gives it back last. The first account comes last: its token is shown only when all the rest is good.
func (g *gateway) open(ctx context.Context, getenv func(string) string, stdout io.Writer) error {
	g.started = time.Now()
	keys := masterkey.Source{Data: g.settings.data, Named: g.settings.masterKey, Getenv: getenv, Say: stdout}
	var err error
	g.lock, err = datadir.Lock(g.settings.data)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; choose another --data%s", err, keys.AtService())
	}
	if err != nil {
		return err
	}
	if g.store, err = keys.Open(ctx); err != nil {
		return err
	}
	g.outage = outage.Tell(g.store, g.log)
	g.tally = &metrics.Tally{}
	g.room = &metrics.Room{}
	backup.RemoveScratch(g.settings.data)
	g.tellRestore(ctx)
	if err := g.openTrust(ctx); err != nil {
		return err
	}
	if g.origin, err = origin.NewResolver(g.settings.proxies, g.settings.addressHeader); err != nil {
		return err
	}
	g.openLimiter()
	grace := g.settings.renewGrace
	g.audit = audit.New(audit.Config{Store: g.store, Logger: g.log})
	g.logins = login.New(g.store, nil, g.log)
	g.bootstrap = bootstrap.New(bootstrap.Config{Store: g.store, Logger: g.log, Audit: g.audit, Site: g.site, Release: g.scriptRelease})
	g.overview = view.Open(view.Config{Store: g.store, Ref: func() store.StatusRef { return g.fleet.Ref() }, Today: g.today,
		Logger: g.log})
	g.openCosts()
	if err := g.openShipping(ctx); err != nil {
		return err
	}
	if err := g.openAlerts(ctx); err != nil {
		return err
	}
	if g.tail, err = audit.OpenTail(ctx, audit.TailConfig{Store: g.store, Takers: g.followers(), Logger: g.log}); err != nil {
		return err
	}
	g.streams = livestream.New()
	g.logs = logs.New(logs.Config{Open: g.openLog})
	g.openHistory()
	if err := g.openHealth(ctx); err != nil {
		return err
	}
	g.feed = view.NewFeed(view.FeedConfig{Takers: g.takers(), Logger: g.log})
	g.fleet, err = fleet.Open(ctx, fleet.Config{
		Store: g.store, RenewGrace: grace, Logger: g.log, CountAgain: g.audit.Repeated, Written: g.feed.Offer,
		Counts: g.health.Counts,
	})
	if err != nil {
		return err
	}
	g.tasks, err = task.New(ctx, task.Config{
		Store: g.store, Sign: g.authority.SignTask, Keys: g.authority.TaskKeys, Logger: g.log, CountAgain: g.audit.Repeated,
		Moved: g.streams.TaskMoved, Aside: g.sessionFor,
	})
	if err != nil {
		return err
	}
	if err := g.openRecordings(ctx); err != nil {
		return err
	}
	if err := g.openSessions(ctx); err != nil {
		return err
	}
	if err := g.openRegistry(ctx); err != nil {
		return err
	}
	if err := g.bootstrap.TakeCredential(ctx, g.settings.bootstrap, g.settings.named); err != nil {
		return err
	}
	if err := g.bootstrap.TellUnmarked(ctx); err != nil {
		return err
	}
	g.info = &reply.Info{Epoch: newEpoch(), Logger: g.log}
	agents, err := g.agents()
	if err != nil {
		return err
	}
	if err := g.openReleases(ctx, agents); err != nil {
		return err
	}
	g.openNodes(agents)
	return g.firstAccount(ctx, getenv, stdout)
}

// tellRestore logs that certificates are taken over, while the time for that after a restore lasts.
func (g *gateway) tellRestore(ctx context.Context) {
	if restored, err := g.store.Restoration(ctx); err == nil && time.Now().Before(restored.AdoptUntil) {
		g.log.Info("restored from a backup: certificates that were issued since are taken over", "backup", restored.BackupAt, "until",
			restored.AdoptUntil)
	}
}

// openTrust opens the CA, the issuer of the nodes' certificates and the gateway's own serving certificate. The last two need the CA.
func (g *gateway) openTrust(ctx context.Context) error {
	var err error
	g.authority, err = authority.Open(ctx, authority.Config{Store: g.store, TrustDomain: g.settings.trustDomain, CertTTL: g.settings.certTTL})
	if err != nil {
		return err
	}
	if err := g.openIssuer(); err != nil {
		return err
	}
	if g.settings.tlsCert != "" {
		g.serving, err = authority.OpenFiles(g.settings.tlsCert, g.settings.tlsKey, nil, g.log)
		return err
	}
	g.serving, err = authority.NewServing(ctx, g.authority, g.settings.reach().Hosts())
	return err
}

// openIssuer chooses who signs the nodes' certificates. The built-in CA goes on signing the gateway's own certificate and the trust
// sets. Nodes believe a gateway by the root of that CA alone, so no other customer of the step-ca can pose as the gateway.
func (g *gateway) openIssuer() error {
	if g.settings.issuer != issuerStepCA {
		g.issuer = g.authority
		return nil
	}
	var err error
	g.stepCA, err = stepca.New(stepca.Config{
		Settings:    g.settings.stepCA,
		TrustDomain: g.authority.TrustDomain(), CertTTL: g.settings.certTTL, Logger: g.log,
	})
	g.issuer = g.stepCA
	return err
}

// openRegistry opens the registry of agent releases, whose blobs lie in a folder beside the database.
func (g *gateway) openRegistry(ctx context.Context) error {
	var err error
	g.artifacts, err = artifact.Open(ctx, artifact.Config{
		Folder: filepath.Join(g.settings.data, datadir.Registry), Records: g.store.Records(), MaxBlob: int64(g.settings.maxBlob),
		Quota: int64(g.settings.quota), Logger: g.log,
	})
	if err != nil {
		return err
	}
	g.passes, err = account.OpenPasses(ctx, g.store, nil)
	return err
}

// openReleases opens what decides which agent each node runs. A gateway whose own agents do not get into its registry serves all the
// same: a full disk must not keep its nodes from it.
func (g *gateway) openReleases(ctx context.Context, agents fs.FS) error {
	err := g.holdsAgents(agents)
	if err != nil {
		return err
	}
	g.releases, err = release.Open(ctx, release.Config{Store: g.store, Artifacts: g.artifacts, Sign: g.authority.SignRelease,
		Keys: g.authority.ReleaseKeys, CountAgain: g.audit.Told, Severe: g.health.SevereSince, Logger: g.log})
	if err != nil {
		return err
	}
	if _, err := g.releases.Import(ctx, agents, version); err != nil {
		g.log.Error("the agents that this gateway carries are no release", "error", err)
	}
	return nil
}

// openNodes makes the node API. A node may renew a hundred times in a certificate's life, which is far more than it needs.
func (g *gateway) openNodes(agents fs.FS) {
	g.nodes = nodeapi.New(nodeapi.Config{
		Fleet: g.fleet, Bootstrap: g.bootstrap, Tasks: g.tasks, Sessions: g.sessions, Releases: g.releases, Newcomer: g.newcomer, Audit: g.audit,
		Authority: g.authority, Issuer: g.issuer, Store: g.store,
		Info: g.info, Address: g.origin.Address, Interval: g.settings.interval, RenewEvery: g.settings.certTTL / 100,
		RequireMTLS: g.settings.requireMTLS, Logs: g.shipping.Wanted, More: []nodeapi.Route{g.shippingRoute()},
		Agents: agents, Version: version, Installer: func(r *http.Request) ([]byte, error) { return g.installer().Answer(r) }, Logger: g.log,
	})
}

// run does the gateway's own work until ctx ends or a piece of that work fails.
func (g *gateway) run(ctx context.Context, l *listeners) error { return daemon.Run(ctx, g.work(l)...) }

// work lists what the gateway does by itself. The last in the list ends first, so that nothing is lost. First all live streams, all
// sessions and all waits for tasks end, because the listeners would wait for them. Then the listeners close, and nobody new comes in. Then
// the refusals that were only counted are recorded. The fleet writes last: it has the newest reports.
func (g *gateway) work(l *listeners) []daemon.Part {
	keeper := audit.Keeper{Store: g.store, Events: time.Duration(g.settings.retention), Logger: g.log}
	parts := []daemon.Part{
		{Name: "garbage collection", Run: daemon.Collect},
		{Name: "overview", Run: g.overview.Run},
		{Name: "costs", Run: g.costs.Run},
		{Name: "health", Run: g.health.Run},
		{Name: "alerts", Run: g.alerts.Run},
		{Name: "log shipping", Run: g.shipping.Run},
		{Name: "tail", Run: g.tail.Run},
		{Name: "history", Run: g.keepHistory}, // it ends after the feed has handed it the last heartbeats
		{Name: "feed", Run: g.feed.Run},
		{Name: "fleet", Run: g.fleet.Run},
		{Name: "refusals", Run: g.audit.Run},
		{Name: "retention", Run: keeper.Run},
		{Name: "registry", Run: g.artifacts.Run},
		{Name: "recordings", Run: g.recordings.Run},
		{Name: "connections", Run: g.limiter.Run},
		{Name: "releases", Run: g.releases.Run},
	}
	if g.stepCA != nil {
		parts = append(parts, daemon.Part{Name: "step-ca", Run: g.stepCA.Run})
	}
	notifier := daemon.Notifier{Socket: g.notifySocket, Logger: g.log}
	return append(parts, daemon.Part{Name: "listeners", Run: l.Run}, daemon.Part{Name: "tasks", Run: g.tasks.Run},
		daemon.Part{Name: "sessions", Run: g.sessions.Run},
		daemon.Part{Name: "streams", Run: g.streams.Run}, daemon.Part{Name: "logs", Run: g.logs.Run},
		daemon.Part{Name: "systemd", Run: notifier.Run})
}

// close closes the database before it gives the lock back: until then no other gateway may open the database.
func (g *gateway) close() {
	if g.store != nil {
		if err := g.store.Close(); err != nil {
			g.log.Error("the database did not close cleanly", "error", err)
		}
	}
	if g.lock != nil {
		g.lock.Close()
	}
}

// newEpoch makes a name for this start of the gateway. Nonces of another start are refused. So no nonce can be used before a restart
// and again after it, although the gateway keeps no nonces on the disk.
func newEpoch() string {
	var random [8]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// installer gives the joining script as the gateway is now. It is made anew for each call, because the root pin and the pinned key
// change while the gateway runs.
func (g *gateway) installer() reach.Installer {
	begins := g.nodes.Manifest()
	return reach.Installer{
		Version: begins.Version, RootPin: g.authority.RootPin(), PinnedKey: g.serving.PinnedPublicKey(), Reach: g.settings.reach(),
		Platforms: begins.Platforms, Behind: g.origin.Behind, Logger: g.log,
	}
}

// site is what a bootstrap script says of this gateway now, with the newest trust set.
func (g *gateway) site() (bootstrap.Site, error) {
	sets := g.authority.TrustSets()
	return g.settings.bootstrap.Site(bootstrap.Gateway{
		Reach: g.settings.reach(), PinnedKey: g.serving.PinnedPublicKey(), RootPin: g.authority.RootPin(), Roots: g.authority.RootPEM(),
		TrustSet: sets[len(sets)-1].Payload, Agents: g.nodes.Carried(),
	})
}

// firstAccount makes the operator's account of a new gateway. Its token is on stdout this once and nowhere else. Under systemd,
// stdout is the journal, which keeps the token and shows it to others. There the operator makes the account.
func (g *gateway) firstAccount(ctx context.Context, getenv func(string) string, stdout io.Writer) error {
	if getenv("JOURNAL_STREAM") != "" || getenv("INVOCATION_ID") != "" {
		accounts, err := g.store.Accounts(ctx, "")
		if err == nil && len(accounts) == 0 {
			const text = "there is no account yet. Its API token would stay in this log, so it is not made here: " +
				"%s account create NAME --scope '*' makes one\n"
			fmt.Fprintf(stdout, text, g.settings.muster())
		}
		return err
	}
	token, made, err := account.First(ctx, g.store, time.Now())
	if err != nil || !made {
		return err
	}
	fmt.Fprintf(stdout, "account operator, API token, shown this once: %s\n", token.Reveal())
	return nil
}
