package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
)

// online is step 5: it waits until the gateway has accepted a heartbeat of the installed agent.
func (j *joining) online(ctx context.Context) (string, error) {
	status, err := j.await(ctx)
	if errors.Is(err, errRefused) && !j.HasSecret() {
		err = fmt.Errorf("%w: with a new token (muster token create, on the gateway) the same command enrols this machine afresh", err)
	} else if errors.Is(err, errRefused) {
		j.note("%v; enrolling afresh", err)
		status, err = j.again(ctx)
		if err == nil {
			j.note("enrolled as %s (tenant %s)", status.Name, status.Tenant)
		}
	}
	if err != nil {
		return "", j.back(ctx, err)
	}
	// Only a build that was online may replace the good one: back returns to it.
	if err := j.layout.SetGood(j.digest); err != nil {
		return "", err
	}
	if err := j.layout.Prune(); err != nil {
		j.note("an old version could not be removed: %v", err)
	}
	if err := j.manager.Finish(); err != nil {
		return "", err
	}
	gpus := j.awaitGPUs(ctx, status) // only for the line: the node is online without them
	return "online: " + gpus + ", first heartbeat accepted", nil
}

// again replaces an identity that the gateway refuses. The caller knows that a credential was given.
func (j *joining) again(ctx context.Context) (identity.Status, error) {
	status, _ := identity.ReadStatus(j.State)
	j.oldPID = status.PID
	if err := j.manager.Stop(ctx); err != nil {
		return status, err
	}
	if _, err := j.enrolAfresh(ctx); err != nil {
		return status, err
	}
	if _, err := j.manager.Install(ctx, j.kind, false); err != nil {
		return status, err
	}
	return j.await(ctx)
}

// errRefused means that the gateway has refused this node in a proven answer.
var errRefused = errors.New("the gateway refuses this node")

// await waits until the agent's status says that it is online. Meanwhile it prints the errors from the status. A status that the agent
// from before wrote does not count.
func (j *joining) await(ctx context.Context) (identity.Status, error) {
	deadline := time.Now().Add(j.Limit(onlineTime))
	told := ""
	for {
		status, err := identity.ReadStatus(j.State)
		if err == nil && status.PID != j.oldPID {
			switch {
			case status.Phase == identity.PhaseOnline && identity.Running(j.State):
				return status, nil
			case status.Phase == identity.PhaseRefused:
				return status, fmt.Errorf("%w: %s", errRefused, status.LastError)
			case status.LastError != "" && status.LastError != told:
				told = status.LastError
				j.live.again("not online yet", errors.New(told))
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

// notOnline is the error at the end of the wait. told is the last error from the status.
func (j *joining) notOnline(told string) error {
	switch {
	case told != "":
	case identity.Running(j.State):
		told = "the agent runs and has not been answered"
	default:
		told = "the agent does not run"
	}
	return fmt.Errorf("not online after %s: %s: see %s; it goes on trying, and the same command waits again",
		j.Limit(onlineTime), told, j.layout.Log())
}

// back starts the earlier build again, where one was online. It returns failed, and says that it went back.
func (j *joining) back(ctx context.Context, failed error) error {
	good := j.layout.Good()
	if good == "" || good == j.digest || ctx.Err() != nil { // nothing to go back to, or a person interrupted
		return failed
	}
	if err := j.layout.SetCurrent(good); err != nil {
		return errors.Join(failed, err)
	}
	if _, err := j.manager.Install(ctx, j.kind, true); err != nil {
		return errors.Join(failed, err)
	}
	return fmt.Errorf("%w (went back to the version before, sha256:%.12s...)", failed, good)
}

// awaitGPUs is what the agent saw of the GPUs, if it sees them soon.
func (j *joining) awaitGPUs(ctx context.Context, status identity.Status) string {
	deadline := time.Now().Add(j.Limit(gpuTime))
	for status.GPUs == "" && time.Now().Before(deadline) && transport.Sleep(ctx, 50*time.Millisecond) {
		if newer, err := identity.ReadStatus(j.State); err == nil {
			status = newer
		}
	}
	if status.GPUs == "" {
		return "GPUs still being looked at"
	}
	return status.GPUs
}
