package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/trust"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// patient is what one look knows. A part that could not be read is nil, and why says in its place what was answered.
type patient struct {
	*cli.Session
	gateway  *api.Gateway
	host     *api.GatewayHost
	ca       *trust.CA
	channels *api.ChannelList
	fleet    *api.FleetView
	why      map[string]string // by the path that was asked
	refused  map[string]bool   // some of these: this account may not read that

	before, after time.Time // of this machine's clock, around the gateway's answer
}

// unreached is said of what only the gateway knows, while it does not answer.
const unreached = "the gateway was not reached"

func doctor(ctx context.Context, s *cli.Session) error {
	p := &patient{Session: s, why: map[string]string{}, refused: map[string]bool{}}
	first := p.reach(ctx)
	checks := append([]api.Check{first, p.clock(ctx), p.disk(), p.backup()}, p.certificates()...)
	checks = append(checks, p.publicURL(ctx), p.versions(), p.agents(), p.masterKey())
	if err := p.report(checks); err != nil {
		return err
	}
	if slices.ContainsFunc(checks, func(c api.Check) bool { return c.Outcome == api.CheckFailed }) {
		return cli.ErrReported
	}
	return nil
}

// report says once, at the end, why several checks were refused.
func (p *patient) report(checks []api.Check) error {
	if p.Form == cli.FormJSON {
		return p.WriteJSON(api.DoctorReport{Checks: checks})
	}
	var rows, last [][]string
	counts, seen := map[string]int{}, map[string]int{}
	for _, c := range checks {
		seen[c.Seen]++
	}
	for _, c := range checks {
		counts[c.Outcome]++
		if n := seen[c.Seen]; n > 1 && p.refused[c.Seen] {
			last = append(last, []string{fmt.Sprintf("%d not for you", n), c.Seen})
			seen[c.Seen] = 0
		}
		if p.refused[c.Seen] && seen[c.Seen] != 1 {
			c.Seen = "not for this account: see the end"
		}
		rows = append(rows, []string{fmt.Sprintf("%-8s %s", c.Outcome, c.Check), c.Seen})
		if c.Next != "" {
			rows = append(rows, []string{"", "next: " + c.Next})
		}
	}
	var out bytes.Buffer
	screen.Pairs(&out, p.Screen(), append(rows, last...))
	var said []string
	for _, outcome := range api.CheckOutcomes() {
		if counts[outcome] > 0 {
			said = append(said, fmt.Sprintf("%d %s", counts[outcome], outcome))
		}
	}
	fmt.Fprint(p.Stdout, p.PastedText(out.String()))
	p.Printf("%d checks: %s\n", len(checks), strings.Join(said, ", "))
	return nil
}

// reach asks the gateway for all that the checks need.
func (p *patient) reach(ctx context.Context) api.Check {
	c := api.Check{Check: "gateway"}
	p.before = p.Now()
	gateway, err := cli.Get[api.Gateway](ctx, p.Session, api.PathGateway, nil)
	p.after = p.Now()
	if err != nil {
		for _, path := range []string{api.PathGatewayHost, api.PathCA, api.PathChannels, api.PathFleet} {
			p.why[path] = unreached
		}
		c.Outcome = api.CheckFailed
		c.Seen, c.Next = p.Explain(ctx, err)
		return c
	}
	p.gateway = &gateway
	p.host = read[api.GatewayHost](ctx, p, api.PathGatewayHost, nil)
	p.ca = read[trust.CA](ctx, p, api.PathCA, nil)
	p.channels = read[api.ChannelList](ctx, p, api.PathChannels, nil)
	p.fleet = read[api.FleetView](ctx, p, api.PathFleet, api.FleetFilter{})
	c.Outcome, c.Seen = api.CheckOK, "it answers, and its database takes writes"
	switch {
	case gateway.Ready == nil:
		c.Outcome, c.Seen = api.CheckUnknown, "it answers, and does not say whether its database takes writes"
	case !*gateway.Ready:
		c.Outcome, c.Seen = api.CheckFailed, "it answers, and its database takes no writes"
		c.Next = "look at the disk of the gateway's machine: is it full, or read-only?"
	}
	return c
}

// at is now by the gateway's clock, if it says that.
func (p *patient) at() time.Time {
	if p.gateway.At.IsZero() {
		return p.Now()
	}
	return p.gateway.At
}

// read asks for a part. A gateway that is older has no route for some.
func read[T any](ctx context.Context, p *patient, path string, filter any) *T {
	got, err := cli.Get[T](ctx, p.Session, path, filter)
	if err == nil {
		return &got
	}
	why, _ := p.Explain(ctx, err)
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) {
		p.refused[why] = refused.Code == wire.CodeForbidden
		if refused.Code == wire.CodeNotFound {
			why = "this gateway does not say: it is of an older version"
		}
	}
	p.why[path] = why
	return nil
}

// unknown is a check that nobody could make.
func (p *patient) unknown(check, path string) api.Check {
	return api.Check{Check: check, Outcome: api.CheckUnknown, Seen: p.why[path]}
}

// How far this machine's clock may be off. More than the second is refused where something is signed here.
const (
	clockWarn   = 5 * time.Second
	clockFailed = wire.SignatureWindow
)

// clock compares with the gateway's clock. If the gateway is on this machine, that is the same one, and systemd knows whether it is right.
func (p *patient) clock(ctx context.Context) api.Check {
	c := api.Check{Check: "clock"}
	const set = "timedatectl set-ntp true"
	switch {
	case p.OverSocket():
		said, err := p.Machine.Command(ctx, "timedatectl", "show", "--property", "NTPSynchronized", "--value")
		switch strings.TrimSpace(said) {
		case "yes":
			c.Outcome, c.Seen = api.CheckOK, "this machine's clock follows NTP"
		case "no":
			c.Outcome, c.Seen, c.Next = api.CheckWarn, "this machine's clock does not follow NTP", set
		default:
			c.Outcome, c.Seen = api.CheckUnknown, "nothing here says whether this machine's clock is right"
			if err != nil {
				c.Seen += ": timedatectl fails, or there is none"
			}
		}
		return c
	case p.gateway == nil:
		return api.Check{Check: c.Check, Outcome: api.CheckUnknown, Seen: unreached}
	case p.gateway.At.IsZero():
		return api.Check{Check: c.Check, Outcome: api.CheckUnknown, Seen: "this gateway does not say what its clock says"}
	}
	took := p.after.Sub(p.before)
	off := p.before.Add(took / 2).Sub(p.gateway.At)
	size := max(off.Abs()-took/2, 0) // the answer may have been made at any moment of that time
	word := "ahead of"
	if off < 0 {
		word = "behind"
	}
	c.Outcome, c.Seen = api.CheckOK, fmt.Sprintf("this machine's clock agrees with the gateway's within %.1fs", max(off.Abs(), took).Seconds())
	if size > clockWarn {
		c.Outcome, c.Seen, c.Next = api.CheckWarn, fmt.Sprintf("this machine's clock is %s %s the gateway's", screen.Age(size), word), set
	}
	if size > clockFailed {
		c.Outcome = api.CheckFailed
	}
	return c
}

// Room that the disk of the data should have.
const (
	roomWarn   = 0.10      // of the disk
	roomLittle = 1 << 30   // bytes
	roomFailed = 100 << 20 // bytes
)

func (p *patient) disk() api.Check {
	free, size := diskOf(p.DataDir())
	if p.host != nil {
		free, size = p.host.DiskFreeBytes, p.host.DiskBytes
	}
	if free == nil || size == nil || *size == 0 {
		c := p.unknown("disk", api.PathGatewayHost)
		if c.Seen == "" {
			c.Seen = "the gateway cannot tell"
		}
		return c
	}
	c := api.Check{Check: "disk", Outcome: api.CheckOK,
		Seen: fmt.Sprintf("%s of %s are free where the gateway's data are", bytesOf(*free), bytesOf(*size))}
	if float64(*free) < roomWarn*float64(*size) || *free < roomLittle {
		c.Outcome = api.CheckWarn
		c.Next = "muster help settings names what takes room: history, recordings, logs; or give it a larger disk"
	}
	if *free < roomFailed {
		c.Outcome = api.CheckFailed
	}
	return c
}

// diskOf is the room on the disk of a folder, and the disk's size; nil: nobody can tell from here.
func diskOf(folder string) (free, size *int64) {
	var s syscall.Statfs_t
	if folder == "" || syscall.Statfs(folder, &s) != nil {
		return nil, nil
	}
	left := int64(s.Bavail) * int64(s.Bsize)
	all := int64(s.Blocks) * int64(s.Bsize)
	return &left, &all
}

func bytesOf(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// backupOld is from when on a backup is old.
const backupOld = 7 * 24 * time.Hour

func (p *patient) backup() api.Check {
	c := api.Check{Check: "backup", Outcome: api.CheckWarn, Next: "muster backup FILE"}
	switch {
	case p.host == nil:
		return p.unknown(c.Check, api.PathGatewayHost)
	case p.host.BackupAt == nil:
		c.Seen = "none was ever made of this database"
		return c
	}
	age := p.at().Sub(*p.host.BackupAt)
	c.Seen = "the newest was begun " + screen.Age(age) + " ago"
	if age < backupOld {
		c.Outcome, c.Next = api.CheckOK, ""
	}
	return c
}
