package join

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/service"
)

// lockTime is how long another process may take to decide about the version that is started.
const lockTime = 20 * time.Second

// install is step 3: it puts the program in its place, and writes the settings. The link changes only after the new build has run once
// here, so a build that cannot run never replaces one that can.
func (j *joining) install(ctx context.Context) (string, error) {
	previous := j.layout.Current()
	j.restart = previous != "" && (previous != j.digest || !j.settings.Equal(j.before) || j.manager.Unfinished())
	if err := j.manager.Open(); err != nil { // until Finish, in step 5, another join knows that this one is not done
		return "", err
	}
	digest, err := j.replace(ctx)
	if err != nil {
		return "", err
	}
	if err := j.manager.SaveSettings(j.settings); err != nil {
		return "", err
	}
	return fmt.Sprintf("agent %s %s/%s sha256:%.12s... in %s", j.Version, runtime.GOOS, runtime.GOARCH, digest, j.layout.Base), nil
}

// replace makes this program the one that is started. An agent at work removes no build meanwhile.
func (j *joining) replace(ctx context.Context) (digest string, err error) {
	free, err := j.lock(ctx)
	if err != nil {
		return "", err
	}
	defer free()
	if digest, err = j.place(ctx); err != nil {
		return "", err
	}
	if err := j.layout.SetCurrent(digest); err != nil {
		return "", err
	}
	if j.layout.Good() != "" {
		return digest, nil
	}
	return digest, j.layout.SetGood(digest) // what starts the agent asks the good version first: at the beginning there is this one alone
}

// lock keeps others from deciding about the version that is started, and from removing builds.
func (j *joining) lock(ctx context.Context) (free func(), err error) {
	bounded, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	return service.SettleLock(bounded, j.layout.Base)
}

// place copies this program to its place and runs it there once. The caller has the lock.
func (j *joining) place(ctx context.Context) (digest string, err error) {
	digest, err = j.layout.Install(service.OwnProgram)
	if err == nil {
		err = tryProgram(ctx, j.layout.Version(digest))
	}
	return digest, err
}

// tryProgram starts the program once. A file system may forbid that, and a service manager would not say so clearly.
func tryProgram(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	said, err := service.Try(ctx, path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may not be run, perhaps because its file system is mounted noexec: give --state a directory on another one: %w",
			path, err)
	case err != nil:
		return fmt.Errorf("%s does not run (%.200q): use the agent for this machine's platform, %s/%s: %w",
			path, said, runtime.GOOS, runtime.GOARCH, err)
	}
	return nil
}

// stay is step 4: it has systemd, OpenRC or the supervisor keep the agent running.
func (j *joining) stay(ctx context.Context) (string, error) {
	if j.restart || j.manager.Agent() == 0 { // a new process comes: the old status must not pass for its own
		status, _ := identity.ReadStatus(j.State)
		j.oldPID = status.PID
	}
	outcome, err := j.manager.Install(ctx, j.kind, j.restart)
	if err != nil {
		return "", err
	}
	line := outcome.Line
	for _, advice := range outcome.Advice {
		line += "\nnote: " + advice
	}
	return line, nil
}
