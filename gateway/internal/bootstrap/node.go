package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
)

// Bounds of a bootstrap token. It ends FetchWindow after the first fetch of its script (restartWindow
// where the machine is restarted in between), or earlier at its outer limit.
const (
	FetchWindow     = 15 * time.Minute
	restartWindow   = 45 * time.Minute // large servers take 15 minutes to start
	manualOuter     = 15 * time.Minute
	cloudInitOuter  = 24 * time.Hour
	shortestOuter   = time.Minute
	longestOuter    = 30 * 24 * time.Hour
	longestUserData = 16 << 10 // bytes; EC2 accepts no more
)

// NodeTokenRequest asks for a bootstrap token. The caller has made sure that the node may be bootstrapped.
type NodeTokenRequest struct {
	Node store.Node    // ID, Name, Tenant, EnrolmentID
	Mode string        // Manual or CloudInit; empty: Manual
	TTL  time.Duration // the outer limit; 0: 15 minutes for Manual, 24 hours for CloudInit

	Shell   bool   // for CloudInit: the user-data is a script, and no cloud-config
	Profile string // the helper agrees to it before the machine joins; empty: none
	Apply   string // what is then run for it: a script for sh, which gets the path of the agent
	Restart bool   // a machine of CloudInit is then restarted once, before it joins
}

// window is how long the token lives from the first fetch on.
func (q *NodeTokenRequest) window() time.Duration {
	if q.Restart {
		return restartWindow
	}
	return FetchWindow
}

// Complete fills in the defaults, and refuses values that make no sense.
func (q *NodeTokenRequest) Complete() error {
	switch q.Mode {
	case "":
		q.Mode = Manual
	case "cloud-init":
		q.Mode = CloudInit
	case Manual, CloudInit:
	default:
		return badRequest(fmt.Sprintf("there is no mode %.40q", q.Mode), "manual or cloud_init")
	}
	if q.TTL == 0 {
		q.TTL = manualOuter
		if q.Mode == CloudInit {
			q.TTL = cloudInitOuter
		}
	}
	if q.TTL < shortestOuter || q.TTL > longestOuter {
		return badRequest("a bootstrap token cannot live "+q.TTL.String(),
			"a time from 1m to 720h; from the first fetch on it is 15 minutes at most")
	}
	return nil
}

// Minted is a new bootstrap token with its scripts. They are shown once.
type Minted struct {
	Token       sign.Token
	ExpiresAt   time.Time     // the outer limit
	Window      time.Duration // from the first fetch on
	Mode        string
	Script      string // complete by itself: it holds the token
	ScriptSum   string // hex SHA-256 of Script
	FetchSum    string // hex SHA-256 of the script without the secret, which URL gives
	URL         string
	Command     string
	UserData    string // for CloudInit; otherwise empty
	TrustNumber int64
	Packages    []Package
	Release     Release // what the script installs; its Reference is empty if it installs one of Packages
	Registry    string  // that the script logs in to; empty: none
}

// MintNodeToken makes a bootstrap token, and stores its script as it is now. Earlier tokens of the node stay good until their own end.
func (b *Bootstrap) MintNodeToken(ctx context.Context, q NodeTokenRequest, by store.Actor) (Minted, error) {
	if err := q.Complete(); err != nil {
		return Minted{}, err
	}
	site, err := b.ready()
	if err != nil {
		return Minted{}, err
	}
	secret, err := sign.NewToken(sign.BootstrapToken, b.config.Rand)
	if err != nil {
		return Minted{}, err
	}
	release, err := b.config.Release(ctx, q.Node.ID)
	if err != nil {
		return Minted{}, err
	}
	m, kept, err := site.mint(q, secret, release)
	if err != nil {
		return Minted{}, err
	}
	now := b.config.Now()
	m.ExpiresAt = now.Add(q.TTL).Truncate(time.Millisecond)
	return m, b.keep(ctx, q, m, kept, by)
}

// Ready refuses with unavailable if no bootstrap token could work: this gateway makes no scripts, or has no agent to install.
func (b *Bootstrap) Ready() error {
	_, err := b.ready()
	return err
}

func (b *Bootstrap) ready() (Site, error) {
	if b.config.Site == nil {
		return Site{}, wire.Refuse(wire.CodeUnavailable, "this gateway renders no bootstrap scripts", "use muster token create instead")
	}
	site, err := b.config.Site()
	if err != nil {
		return Site{}, err
	}
	if site.digest("amd64")+site.digest("arm64") == "" {
		return Site{}, wire.Refuse(wire.CodeUnavailable, "this gateway carries no agent, so a bootstrap script could install none",
			"build the gateway with make build, which puts the agents into it, and start that one; GET /agent shows what it carries")

	}
	return site, nil
}

// mint makes the scripts, the command and the user-data for a token. kept is the script to store.
func (s Site) mint(q NodeTokenRequest, t sign.Token, r Release) (m Minted, kept string, err error) {
	m = Minted{Token: t, Window: q.window(), Mode: q.Mode, URL: s.URL(t.FetchPart()), TrustNumber: s.TrustNumber, Packages: s.Packages(),
		Registry: s.Registry, Release: r}
	if kept, err = s.frozen(q, t.Public(), r); err != nil {
		return m, "", err
	}
	public, err := thaw(kept, t.Fetch, "")
	if err != nil {
		return m, "", err
	}
	if m.Script, err = thaw(kept, t.Fetch, t.Secret); err != nil {
		return m, "", err
	}
	m.FetchSum = hexSum(public)
	m.ScriptSum = hexSum(m.Script)
	m.Command = s.Command(t.FetchPart(), t.Reveal(), m.FetchSum)
	if q.Mode == CloudInit {
		m.UserData, err = s.userData(q, t.FetchPart(), t.Reveal(), m.FetchSum)
	}
	if err == nil && len(m.UserData) >= longestUserData {
		err = fmt.Errorf("user-data of %d bytes, which is more than clouds take", len(m.UserData))
	}
	return m, kept, err
}

// keep stores a token with its script. It is refused if the node enrolled or retired after the caller looked at it.
func (b *Bootstrap) keep(ctx context.Context, q NodeTokenRequest, m Minted, kept string, by store.Actor) error {
	key, err := sign.EnrollKey(m.Token.Secret)
	if err != nil {
		return err
	}
	row := store.Bootstrap{
		Token: store.Token{ID: m.Token.Public(), Tenant: q.Node.Tenant, Uses: 1, NodeID: q.Node.ID, Name: q.Node.Name, Key: key,
			CreatedAt: b.config.Now(), ExpiresAt: m.ExpiresAt, CreatedBy: by.Name},
		FetchHash: hexSum(m.Token.Fetch), Mode: m.Mode, Window: m.Window, Script: kept, FetchSHA256: m.FetchSum, WholeSHA256: m.ScriptSum,
		Registry: m.Registry,
	}
	e := b.event("bootstrap.created", q.Node.Tenant, by)
	e.NodeID = q.Node.ID
	e.NodeName = q.Node.Name
	e.Detail = map[string]string{"token": row.Token.ID, "mode": m.Mode, "expires": m.ExpiresAt.UTC().Format(time.RFC3339),
		"window": m.Window.String()}
	err = b.config.Store.CreateBootstrap(ctx, row, q.Node.EnrolmentID, e)
	if errors.Is(err, store.ErrConflict) {
		return wire.Refuse(wire.CodeIllegalMove, "node "+q.Node.Name+" changed just now",
			"look at it (muster node show "+q.Node.Name+"), then try again")
	}
	return err
}
