package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
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
		Gateway: j.gateway, Version: version, Timeout: j.limit(reachTime / 2), First: transport.FirstContact{Pin: j.pin}, Way: j.way,
	})
	if err != nil {
		return "", err
	}
	deadline := time.Now().Add(j.limit(reachTime))
	for {
		sight, err := client.Look(ctx)
		if err == nil {
			return describeSight(client.Gateway(), sight, j.pin)
		}
		err = fmt.Errorf("%w: %s", err, reachAdvice(err, sight))
		if time.Now().After(deadline) || !transport.Sleep(ctx, j.limit(2*time.Second)) {
			return "", err
		}
		j.note("not reached yet, trying again: %v", err)
	}
}

func describeSight(gateway string, sight transport.Sight, pin *transport.Pin) (string, error) {
	parts := []string{}
	if sight.Proxy != "" {
		parts = append(parts, "reachable through the proxy "+sight.Proxy)
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
		parts = append(parts, fmt.Sprintf("clock %+.1f s", sight.Ahead.Seconds()))
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

// enrol is step 2: the identity that is there, or a new one.
func (j *joining) enrol(ctx context.Context) (string, error) {
	if err := j.manager.MakeBase(); err != nil {
		return "", err
	}
	state, err := identity.Read(j.state)
	if err != nil {
		return "", err
	}
	word := "known here as"
	switch {
	case j.needsEnrolment(state):
		word = "enrolled as"
		state, err = j.replaceIdentity(ctx, state)
	case j.pinBroken(state):
		err = fmt.Errorf("the identity in %s was made by a gateway whose root has not the --root-pin %s: leave the pin out, "+
			"or leave that gateway first (muster-agent leave)", j.state, j.pin)
	case state.Gateway.URL != j.gatewayURL(): // by --force: the same gateway under another address
		state, err = j.moveGateway(ctx)
	}
	if err != nil {
		return "", err
	}
	leaf, err := state.Leaf()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s (tenant %s), certificate until %s", word, state.Name, state.Tenant, leaf.NotAfter.UTC().Format(time.RFC3339)), nil
}

// replaceIdentity stops an agent that is at work, which would hold the state directory, and enrols.
func (j *joining) replaceIdentity(ctx context.Context, state identity.State) (identity.State, error) {
	switch {
	case j.hasSecret():
	case j.movedTo(state):
		return state, fmt.Errorf("the identity in %s belongs to instance %s and this is %s: give a token (MUSTER_TOKEN) to enrol this machine afresh",
			j.state, state.InstanceID, j.instanceID)
	default:
		return state, errNoCredential
	}
	if err := j.manager.Stop(ctx); err != nil {
		return state, err
	}
	return j.enrolAfresh(ctx)
}

// moveGateway notes the other address of the gateway. Its root stays pinned: another gateway would not be believed.
func (j *joining) moveGateway(ctx context.Context) (identity.State, error) {
	if err := j.manager.Stop(ctx); err != nil {
		return identity.State{}, err
	}
	directory, err := identity.Open(j.state)
	if err != nil {
		return identity.State{}, err
	}
	defer directory.Close()
	state, err := directory.Load()
	if err != nil {
		return state, err
	}
	state.Gateway.URL = j.gatewayURL()
	return state, directory.Save(state)
}

// needsEnrolment reports whether the identity that is there is none for this gateway and this machine. One that might
// still be good is kept where there is no credential for another.
func (j *joining) needsEnrolment(state identity.State) bool {
	if state.Current == nil || j.movedTo(state) {
		return true
	}
	status, err := identity.ReadStatus(j.state)
	refused := err == nil && status.Phase == identity.PhaseRefused
	return j.hasSecret() && (refused || state.Gateway.URL != j.gatewayURL())
}

// enrolAfresh enrols in this process, so that a failure is said here and the token touches no file.
func (j *joining) enrolAfresh(ctx context.Context) (identity.State, error) {
	directory, err := identity.Open(j.state)
	if err != nil {
		return identity.State{}, err
	}
	defer directory.Close()
	state, err := directory.Load()
	if err != nil {
		return state, err
	}
	a := j.quiet().newForeground(j.options, directory)
	a.status = identity.Status{
		PID: os.Getpid(), Version: version, Phase: identity.PhaseEnrolling, Gateway: j.gatewayURL(), Since: time.Now().UTC().Truncate(time.Second),
	}
	if state, err = a.moved(state); err != nil {
		return state, err
	}
	if state.Current != nil {
		aside, err := directory.SetAside(state.NodeID)
		if err != nil {
			return state, err
		}
		j.note("the identity of node %s is not used any more; kept in %s", state.NodeID, aside)
		state = identity.State{}
	}
	return j.enrolBounded(ctx, a, state)
}

// errNotYet ends an enrolment that would be tried for ever.
var errNotYet = errors.New("no end of the enrolment in sight")

// enrolBounded gives up after a while, and sooner where something between answers: a gateway that does not know a
// credential cannot prove its refusal.
func (j *joining) enrolBounded(ctx context.Context, a *foreground, state identity.State) (identity.State, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	timer := time.AfterFunc(j.limit(enrolTime), func() { giveUp(errNotYet) })
	defer timer.Stop()
	var last error
	unproven := 0
	a.progress = func(err error) {
		if err == nil {
			return
		}
		last = err
		var between *transport.Unproven
		if errors.As(err, &between) {
			unproven++
		}
		if unproven > 2 {
			giveUp(errNotYet)
			return
		}
		j.note("not enrolled yet, trying again: %v", err)
	}
	state, err := a.enroll(ctx, state)
	if err == nil || !errors.Is(context.Cause(ctx), errNotYet) {
		return state, err
	}
	if last == nil {
		last = errors.New("the gateway did not answer in time")
	}
	return state, fmt.Errorf("not enrolled: %w: mend that, then run the same command again; the token is not lost", last)
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
	outcome, err := j.manager.Install(ctx, j.manager.Kind(), j.restart)
	if err != nil {
		return "", err
	}
	line := outcome.Line
	for _, advice := range outcome.Advice {
		line += "\n      note: " + advice
	}
	return line, nil
}

// online is step 5: the gateway has accepted a heartbeat of the agent that was installed.
func (j *joining) online(ctx context.Context) (string, error) {
	status, err := j.await(ctx)
	if errors.Is(err, errRefused) && !j.hasSecret() {
		err = fmt.Errorf("%w: with a new token (muster token create, on the gateway) the same command enrols this machine afresh", err)
	} else if errors.Is(err, errRefused) {
		j.note("%v; enrolling afresh", err)
		if status, err = j.again(ctx); err == nil {
			j.note("enrolled as %s (tenant %s)", status.Name, status.Tenant)
		}
	}
	if err != nil {
		return "", j.back(ctx, err)
	}
	if err := j.layout.SetGood(j.digest); err != nil {
		return "", err
	}
	if err := j.layout.Prune(); err != nil {
		j.note("an old version could not be removed: %v", err)
	}
	if err := j.manager.Finish(); err != nil {
		return "", err
	}
	gpus := j.awaitGPUs(ctx, status)
	return "online: " + gpus + ", first heartbeat accepted", nil
}

// again replaces an identity that the gateway refuses, for a credential is there.
func (j *joining) again(ctx context.Context) (identity.Status, error) {
	status, _ := identity.ReadStatus(j.state)
	j.oldPID = status.PID
	if err := j.manager.Stop(ctx); err != nil {
		return status, err
	}
	if _, err := j.enrolAfresh(ctx); err != nil {
		return status, err
	}
	if _, err := j.manager.Install(ctx, j.manager.Kind(), false); err != nil {
		return status, err
	}
	return j.await(ctx)
}

// errRefused means that the gateway provably does not want the node as it is.
var errRefused = errors.New("the gateway refuses this node")

// await waits until the agent says that it is online, and repeats what else it says.
func (j *joining) await(ctx context.Context) (identity.Status, error) {
	deadline := time.Now().Add(j.limit(onlineTime))
	told := ""
	for {
		status, err := identity.ReadStatus(j.state)
		if mine := err == nil && status.PID != j.oldPID; mine {
			switch {
			case status.Phase == identity.PhaseOnline && identity.Running(j.state):
				return status, nil
			case status.Phase == identity.PhaseRefused:
				return status, fmt.Errorf("%w: %s", errRefused, status.LastError)
			case status.LastError != "" && status.LastError != told:
				told = status.LastError
				j.note("not online yet: %s", told)
			}
		}
		if time.Now().After(deadline) {
			return status, j.notOnline(told)
		}
		if !transport.Sleep(ctx, 50*time.Millisecond) {
			return status, ctx.Err()
		}
	}
}

func (j *joining) notOnline(told string) error {
	switch {
	case told != "":
	case identity.Running(j.state):
		told = "the agent runs and has not been answered"
	default:
		told = "the agent does not run"
	}
	return fmt.Errorf("not online after %s: %s: see %s/agent.log; it goes on trying, and the same command waits again", j.limit(onlineTime), told, j.state)
}

// back returns to the build before, where there was one that was online.
func (j *joining) back(ctx context.Context, failed error) error {
	good := j.layout.Good()
	if good == "" || good == j.digest || ctx.Err() != nil {
		return failed
	}
	if err := j.layout.SetCurrent(good); err != nil {
		return errors.Join(failed, err)
	}
	if _, err := j.manager.Install(ctx, j.manager.Kind(), true); err != nil {
		return errors.Join(failed, err)
	}
	return fmt.Errorf("%w (went back to the version before, sha256:%.12s...)", failed, good)
}

// awaitGPUs is what the agent saw of them, if it sees something soon.
func (j *joining) awaitGPUs(ctx context.Context, status identity.Status) string {
	deadline := time.Now().Add(j.limit(gpuTime))
	for status.GPUs == "" && time.Now().Before(deadline) && transport.Sleep(ctx, 50*time.Millisecond) {
		if newer, err := identity.ReadStatus(j.state); err == nil {
			status = newer
		}
	}
	if status.GPUs == "" {
		return "GPUs still being looked at"
	}
	return status.GPUs
}
