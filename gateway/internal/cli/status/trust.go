package status

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
	"muster/gateway/internal/datadir"
)

// How long before their end certificates are named.
const (
	rootSoon         = 180 * 24 * time.Hour
	intermediateSoon = 30 * 24 * time.Hour
	servingSoon      = 14 * 24 * time.Hour
)

// certificates looks at the three whose end takes the gateway away from its nodes.
func (p *patient) certificates() []api.Check {
	root, intermediate := p.unknown("root", api.PathCA), p.unknown("intermediate", api.PathCA)
	if p.ca != nil {
		intermediate = p.until(intermediate.Check, p.ca.Intermediate.NotAfter, intermediateSoon, "muster ca intermediate")
		for _, r := range p.ca.Roots {
			if r.Signing {
				root = p.until(root.Check, r.NotAfter, rootSoon, "muster ca rotate-root")
			}
		}
	}
	serving := p.unknown("serving certificate", api.PathGatewayHost)
	switch {
	case p.host == nil:
	case p.host.ServingNotAfter == nil:
		serving.Seen = "the gateway cannot tell"
	default:
		serving = p.until(serving.Check, *p.host.ServingNotAfter, servingSoon,
			"the gateway's log says why it was not renewed: muster help certificates")
	}
	return []api.Check{root, intermediate, serving}
}

// until judges the end of a certificate by the gateway's clock.
func (p *patient) until(check string, end time.Time, soon time.Duration, next string) api.Check {
	left := end.Sub(p.at())
	c := api.Check{Check: check, Outcome: api.CheckOK, Seen: fmt.Sprintf("good for %s, until %s", screen.Age(left), screen.Stamp(&end))}
	if left < soon {
		c.Outcome, c.Next = api.CheckWarn, next
	}
	if left <= 0 {
		c.Outcome, c.Seen = api.CheckFailed, "it ended "+screen.Age(-left)+" ago"
	}
	return c
}

// publicURL goes the way that a machine takes which is no node yet, from here.
func (p *patient) publicURL(ctx context.Context) api.Check {
	c := api.Check{Check: "public URL", Outcome: api.CheckUnknown, Seen: unreached}
	if p.gateway == nil {
		return c
	}
	url := p.gateway.URL
	reached, err := client.Reach(ctx, url, p.gateway.RootPin, p.gateway.PinnedPublicKey)
	if err == nil {
		c.Outcome, c.Seen = api.CheckOK, url+" leads to this gateway: "+reached.Proof
		return c
	}
	c.Outcome, c.Seen = api.CheckFailed, url+" does not lead to this gateway from here: "+err.Error()
	c.Next = "check the URL, its name and the firewall: muster serve --public-url URL sets it, muster help not-joining says more"
	if p.fleet != nil && p.fleet.Totals.StatusTexts()[wire.StatusOnline] > 0 {
		c.Outcome = api.CheckWarn
		c.Seen += "; nodes are heard all the same"
	}
	return c
}

// versions compares this program with the gateway.
func (p *patient) versions() api.Check {
	c := api.Check{Check: "versions", Outcome: api.CheckUnknown, Seen: unreached}
	switch {
	case p.gateway == nil:
	case p.gateway.Version == p.Version:
		c.Outcome, c.Seen = api.CheckOK, "this program and the gateway are "+p.Version
	default:
		c.Outcome, c.Seen = api.CheckWarn, "this program is "+p.Version+", the gateway is "+p.gateway.Version
		c.Next = "bring the older one up: muster help upgrades"
	}
	return c
}

// agents says which nodes do not run the release of their channel.
func (p *patient) agents() api.Check {
	if p.channels == nil {
		return p.unknown("agents", api.PathChannels)
	}
	var behind, uncounted []string
	nodes, pinned, offline := 0, 0, 0
	for _, channel := range p.channels.Channels {
		n := channel.Counts
		nodes += n.Nodes
		pinned += n.Pinned
		offline += n.Offline + n.Silent
		if n := n.Nodes - n.Running - n.Pinned - n.Offline - n.Silent; n > 0 {
			behind = append(behind, fmt.Sprintf("%d of %d on %s", n, channel.Counts.Nodes, channel.Channel))
		}
	}
	c := api.Check{Check: "agents", Outcome: api.CheckOK, Seen: "all agents are up to date"}
	if pinned > 0 {
		uncounted = append(uncounted, "pinned")
	}
	if offline > 0 {
		uncounted = append(uncounted, "offline")
	}
	if uncounted != nil {
		c.Seen += " (" + strings.Join(uncounted, " and ") + " ones not counted)"
	}
	if nodes == 0 {
		c.Seen = "no node follows a channel"
	}
	if len(behind) > 0 {
		c.Outcome, c.Next = api.CheckWarn, "muster release status"
		c.Seen = "behind the release of their channel: " + strings.Join(behind, ", ")
	}
	return c
}

// masterKey looks whether whoever copies the data has the key that opens them as well.
func (p *patient) masterKey() api.Check {
	c := p.unknown("master key", api.PathGatewayHost)
	beside := keyIn(p.DataDir())
	if p.host != nil {
		beside = p.host.KeyWithData
	}
	switch {
	case beside == nil && c.Seen == "":
		c.Seen = "the gateway cannot tell"
	case beside == nil:
	case *beside:
		c.Outcome, c.Seen = api.CheckWarn, "it lies beside the database: a copy of the folder has both"
		c.Next = "keep it elsewhere, and a copy on another machine: muster help backup; muster service install does the first"
	case p.host == nil:
		c.Seen = "it is not beside the database; where else, only a gateway that runs can tell"
	default:
		c.Outcome, c.Seen = api.CheckOK, "it is kept apart from the database"
	}
	return c
}

// keyIn is true if a data directory has a master key; nil: nobody can tell from here.
func keyIn(folder string) *bool {
	if folder == "" {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(folder, datadir.Database)); err != nil {
		return nil
	}
	_, err := os.Lstat(filepath.Join(folder, datadir.MasterKey))
	there := err == nil
	return &there
}
