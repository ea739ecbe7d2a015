package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
)

// How long join waits for each thing at most.
const (
	reachTime  = 20 * time.Second
	enrolTime  = time.Minute
	onlineTime = 90 * time.Second
	gpuTime    = 5 * time.Second // for the first look at the GPUs, once the node is online
)

// limit is one of these, or what a test waits.
func (p program) limit(regular time.Duration) time.Duration {
	if p.patience > 0 {
		return min(p.patience, regular)
	}
	return regular
}

// reach is step 1: is there a gateway, and what is it like.
func (j *joining) reach(ctx context.Context) (string, error) {
	client, err := transport.New(transport.Config{
		Gateway: j.gateway, Version: version, Timeout: j.limit(reachTime / 2), First: transport.FirstContact{Pins: j.pinned()}, Way: j.way,
	})
	if err != nil {
		return "", err
	}
	deadline := time.Now().Add(j.limit(reachTime))
	for {
		sight, err := client.Look(ctx)
		if err == nil {
			return j.reached(ctx, client, sight)
		}
		err = fmt.Errorf("%w: %s", err, reachAdvice(err, sight))
		if time.Now().After(deadline) || !transport.Sleep(ctx, j.limit(2*time.Second)) {
			return "", err
		}
		j.live.again("not reached yet", err)
	}
}

// reached says what is there. A pin that this machine has outlived is dropped first, and then the gateway is looked at without.
func (j *joining) reached(ctx context.Context, client *transport.Client, sight transport.Sight) (string, error) {
	if said := j.dropFormerPin(ctx); said != "" {
		j.note("%s", said)
		return j.reach(ctx)
	}
	return describeSight(client.Gateway(), sight, j.pin)
}

func describeSight(gateway string, sight transport.Sight, pin *transport.Pin) (string, error) {
	parts := []string{}
	if sight.Proxy != "" {
		parts = append(parts, "reached through the proxy "+sight.Proxy)
	} else {
		parts = append(parts, "reachable")
	}
	switch sight.Certificate {
	case transport.CertificateNone:
		parts = append(parts, "plain HTTP (each exchange is signed)")
	case transport.CertificateSystem:
		parts = append(parts, "a certificate that this system trusts")
	case transport.CertificatePinned:
		parts = append(parts, "its own certificate, root pin fits")
	case transport.CertificateUnpinned:
		parts = append(parts, "its own certificate")
	case transport.CertificateForeigner:
		return "", fmt.Errorf("%s shows a certificate that does not chain to the root pin %s: this is another gateway, the pin is an old one, "+
			"or something stands between; compare it with what the gateway prints (muster token create)", gateway, pin)
	}
	if sight.Through == transport.Curl {
		parts = append(parts, "asked through curl")
	}
	if sight.Edge != "" {
		parts = append(parts, "behind "+sight.Edge)
	}
	if sight.Ahead != nil {
		parts = append(parts, clocks(*sight.Ahead))
	}
	if sight.Between != nil {
		parts = append(parts, "but it does not answer like a gateway ("+sight.Between.What+"); going on, the enrolment decides")
	}
	return "gateway " + gateway + ": " + strings.Join(parts, ", "), nil
}

// reachAdvice is the next step for a gateway that could not be reached.
func reachAdvice(err error, sight transport.Sight) string {
	var name *net.DNSError
	switch {
	case sight.Proxy != "":
		return "it was asked through the proxy " + sight.Proxy + " of this environment; check that, or set NO_PROXY"
	case errors.As(err, &name):
		return "check the name in --gateway and this machine's DNS (/etc/resolv.conf)"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there; check the port, and that muster serve runs"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return "this machine has no way there; check its network"
	}
	return "check address and port, and that no firewall stands between"
}

// install is step 3: the program in its place, and its settings.
func (j *joining) install(ctx context.Context) (string, error) {
	j.previous = j.layout.Current()
	j.restart = j.previous != "" && (j.previous != j.digest || !j.settings.Equal(j.before) || j.manager.Unfinished())
	if err := j.manager.Open(); err != nil {
		return "", err
	}
	digest, err := j.layout.Install(ownProgram)
	if err != nil {
		return "", err
	}
	path := j.layout.Version(digest)
	if err := j.tryProgram(ctx, path); err != nil {
		return "", err
	}
	if err := j.layout.SetCurrent(digest); err != nil {
		return "", err
	}
	if err := j.manager.SaveSettings(j.settings); err != nil {
		return "", err
	}
	return fmt.Sprintf("agent %s %s/%s sha256:%.12s... in %s", version, runtime.GOOS, runtime.GOARCH, digest, path), nil
}

// tryProgram starts the program once: a file system may forbid that, and then nothing else would say so.
func (j *joining) tryProgram(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "version").CombinedOutput()
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may not be run, perhaps because its file system is mounted noexec: give --state a directory on another one: %w", path, err)
	case err != nil:
		return fmt.Errorf("%s does not run (%.200q): use the agent for this machine's platform, %s/%s: %w", path, out, runtime.GOOS, runtime.GOARCH, err)
	}
	return nil
}

// stay is step 4: what keeps it running.
func (j *joining) stay(ctx context.Context) (string, error) {
	if j.restart || j.manager.Agent() == 0 {
		status, _ := identity.ReadStatus(j.state)
		j.oldPID = status.PID
	}
	outcome, err := j.manager.Install(ctx, j.kind, j.restart)
	if err != nil {
		return "", err
	}
	line := outcome.Line
	for _, advice := range outcome.Advice {
		line += "\n      note: " + advice
	}
	return line, nil
}
