package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"muster/agent/internal/gpu"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/internal/transport"
)

// leastDisk is what two builds and the logs need, with some room.
const leastDisk = 64 << 20

// noExec is the kernel's ST_NOEXEC.
const noExec = 8

// findings are the lines of a check.
type findings struct {
	j      *joining
	broken int
}

func (c *findings) say(ok bool, what, format string, args ...any) {
	verdict := "ok"
	if !ok {
		verdict = "FAILS"
		c.broken++
	}
	fmt.Fprintf(c.j.stdout, "%-11s %-5s %s\n", what, verdict, fmt.Sprintf(format, args...))
}

// hint is a line about what is missing and would not keep the machine from joining.
func (c *findings) hint(what, format string, args ...any) {
	fmt.Fprintf(c.j.stdout, "%-11s %-5s %s\n", what, "note", fmt.Sprintf(format, args...))
}

// errWouldFail ends a check that found something.
var errWouldFail = errors.New("joining would not work: mend what is said above")

// checkAll says line by line whether joining would work. Nothing is written, and no credential is sent.
func (j *joining) checkAll(ctx context.Context) error {
	c := &findings{j: j}
	c.network(ctx)
	c.token()
	c.joined(ctx)
	c.disk()
	c.gpus(ctx)
	c.service(ctx)
	if c.broken > 0 {
		return errWouldFail
	}
	fmt.Fprintln(j.stdout, "joining would work: run the same without --check")
	return nil
}

func (c *findings) network(ctx context.Context) {
	client, err := transport.New(transport.Config{
		Gateway: c.j.gateway, Version: version, Timeout: c.j.limit(reachTime / 2), First: transport.FirstContact{Pins: c.j.pinned()}, Way: c.j.way,
	})
	if err != nil {
		c.say(false, "gateway", "%v", err)
		return
	}
	sight, err := client.Look(ctx)
	c.names(ctx, sight)
	if err != nil {
		c.say(false, failedPart(err), "%v: %s", err, reachAdvice(err, sight))
		return
	}
	c.say(true, "TCP", "%s answers", client.Gateway())
	line, err := describeSight(client.Gateway(), sight, c.j.pin)
	if err != nil {
		c.say(false, "TLS", "%v", err)
		return
	}
	c.say(sight.Between == nil, "gateway", "%s", line)
	c.clock(sight)
}

// names looks the gateway's name up, where that is up to this machine.
func (c *findings) names(ctx context.Context, sight transport.Sight) {
	u, err := url.Parse(c.j.gateway)
	if err != nil || sight.Proxy != "" || net.ParseIP(u.Hostname()) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.j.limit(reachTime/2))
	defer cancel()
	if addresses, err := net.DefaultResolver.LookupHost(ctx, u.Hostname()); err == nil {
		c.say(true, "DNS", "%s is %s", u.Hostname(), addresses[0])
	}
}

// failedPart is the layer that an error comes from.
func failedPart(err error) string {
	var name *net.DNSError
	var operation *net.OpError
	switch {
	case errors.As(err, &name):
		return "DNS"
	case errors.As(err, &operation) && operation.Op == "dial":
		return "TCP"
	}
	return "TLS"
}

func (c *findings) clock(sight transport.Sight) {
	switch {
	case sight.Ahead == nil:
		c.hint("clock", "the gateway's answer carries no date")
	case sight.Ahead.Abs() > time.Minute:
		c.hint("clock", "the gateway's is %s ahead of this machine's: the agent corrects for that, other programs do not; set it (NTP)",
			sight.Ahead.Round(time.Second))
	default:
		c.say(true, "clock", "the gateway's is %+.1f s ahead", sight.Ahead.Seconds())
	}
}

// token checks the typing. Whether the gateway takes it is not asked: that would spend it.
func (c *findings) token() {
	if !c.j.hasSecret() {
		c.hint("token", "none given: one is needed unless this machine is enrolled already (muster token create, on the gateway)")
		return
	}
	credential, err := c.j.credential(&c.j.options)
	if err != nil {
		c.say(false, "token", "%v", err)
		return
	}
	defer credential.Forget()
	c.say(true, "token", "%s is typed right; not sent, so not spent", credential.ID)
}

func (c *findings) joined(ctx context.Context) {
	state, err := identity.Read(c.j.state)
	if err == nil && state.Current == nil {
		return
	}
	if err == nil {
		err = c.j.refuseOther()
	}
	if err == nil && !c.j.force {
		err = c.j.checkPin(ctx, state)
	}
	if err != nil {
		c.say(false, "joined", "%v", err)
		return
	}
	c.say(true, "joined", "this machine is enrolled as %s with %s", state.Name, state.Gateway.URL)
}

// disk looks at the file system that the state directory is on, or would be made on.
func (c *findings) disk() {
	there := c.j.state
	for !exists(there) && there != "/" {
		there = filepath.Dir(there)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(there, &fs); err != nil {
		c.say(false, "disk", "%s: %v", there, err)
		return
	}
	free := int64(fs.Bavail) * int64(fs.Bsize)
	c.say(free >= leastDisk, "disk", "%d MiB free for %s, of which %d are needed", free>>20, c.j.state, leastDisk>>20)
	c.say(syscall.Access(there, 2) == nil, "writable", "%s, for %s (else give --state DIR)", there, c.j.state)
	c.say(int64(fs.Flags)&noExec == 0, "executable", "programs on the file system of %s (else give --state DIR on another one)", there)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (c *findings) gpus(ctx context.Context) {
	if c.j.noGPU {
		c.hint("GPU", "not looked at (--no-gpu)")
		return
	}
	prober := &gpu.Prober{Path: c.j.nvidiaSMI}
	reading := prober.Probe(ctx)
	if len(reading.GPUs) == 0 {
		c.hint("GPU", "%s; the node joins without", summarize(reading))
		return
	}
	c.say(true, "GPU", "%s", summarize(reading))
}

func (c *findings) service(ctx context.Context) {
	if c.j.system.UID == 0 {
		c.say(true, "privileges", "root")
	} else {
		c.hint("privileges", "none: the agent runs as this user and cannot do what needs root")
	}
	kind, err := c.j.manager.Choose(ctx)
	if err != nil {
		c.say(false, "service", "%v", err)
		return
	}
	if kind != service.Supervised {
		c.say(true, "service", "%s", kind)
		return
	}
	by, advice := c.j.manager.Boot()
	if by == "" {
		c.hint("service", "%s: the built-in supervisor; %s", c.j.manager.Without(), advice)
		return
	}
	c.say(true, "service", "%s: the built-in supervisor, restarted %s", c.j.manager.Without(), by)
}
