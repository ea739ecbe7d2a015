package task

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"muster/agent/wire"
)

// ended is a result without any of the handler's.
func (k *work) ended(status, code, why string) wire.TaskResult {
	return wire.TaskResult{
		Status: status, Code: code, Error: wire.Cut(strings.ToValidUTF8(why, "?"), wire.MaxTaskError), Output: k.output.log(),
		StartedAt: k.Started, FinishedAt: k.now(),
	}
}

// interrupted is the result of a task of which nobody knows how far it came. It is not done again.
func (k *work) interrupted(why string) wire.TaskResult {
	return k.ended(wire.TaskFailed, wire.TaskInterrupted, why+": "+anew)
}

// refused is the result of a task that was not begun.
func (k *work) refused(err error) wire.TaskResult {
	k.Logger.Warn("a task is refused", "task", k.Task, "error", err)
	var refusal *wire.ErrorDetail
	if !errors.As(err, &refusal) {
		return k.ended(wire.TaskFailed, "", err.Error())
	}
	status := wire.TaskFailed
	if refusal.Code == wire.CodeTaskExpired {
		status = wire.TaskExpired
	}
	return k.ended(status, refusal.Code, err.Error())
}

// judge makes the result of what a handler did. cause is why it was asked to end; nil: it was not. Who has done its work all the same
// has completed it.
func (k *work) judge(o Outcome, cause error, limit time.Duration) (result wire.TaskResult, archive string) {
	var file *wire.TaskFile
	var err error
	if o.Archive != "" {
		file, err = k.measure(o.Archive)
	}
	values, tooLong := json.Marshal(o.Values)
	switch {
	case err != nil:
		o = Failf("the file that the task made cannot be sent: %w", err)
		file = nil
	case tooLong != nil || len(values) > wire.MaxTaskValues:
		o.Values = nil
		o = Outcome{ExitCode: 1, Error: "the task found out more than a result can hold; " + o.Error, Archive: o.Archive}
	}
	result = k.ended(wire.TaskCompleted, o.Code, o.Error)
	result.ExitCode = &o.ExitCode
	result.Values = o.Values
	result.Archive = file
	if file != nil {
		archive = o.Archive
	}
	if o.ExitCode == 0 && o.Error == "" && o.Code == "" {
		return result, archive
	}
	result.Status = wire.TaskFailed
	switch {
	case errors.Is(cause, errCanceled):
		result.Status = wire.TaskCanceled
	case errors.Is(cause, errTimedOut):
		result.Code = wire.TaskTimedOut
		result.Error = wire.Cut(fmt.Sprintf("the task took longer than %v; %s", limit, result.Error), wire.MaxTaskError)
	case errors.Is(cause, errStops):
		result.Code = wire.TaskInterrupted
	}
	return result, archive
}

// finish writes the result into the journal. If the disk does not take it, it counts as long as this process runs.
func (k *work) finish(result wire.TaskResult, archive string) {
	k.Step = stepFinished
	k.Result = &result
	k.Archive = archive
	k.noteJournal(k.journal.finish(k.Task, result, archive, k.Follows))
}

// drop forgets a task of which the gateway wants to hear nothing.
func (k *work) drop(why error) {
	k.Logger.Warn("a task is given up", "task", k.Task, "error", why)
	k.know()
	k.release()
	k.noteJournal(k.journal.report(k.Task))
	_ = os.RemoveAll(k.folder())
}

// openArchive opens a file that the handler has made. Its name is no path, and it is no link: it is sent away.
func (k *work) openArchive(name string) (*os.File, int64, error) {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return nil, 0, fmt.Errorf("%.60q is not the name of a file in the task's folder", name)
	}
	file, err := os.OpenFile(filepath.Join(k.folder(), name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a file", name)
	case info.Size() > wire.MaxTaskArchive:
		err = fmt.Errorf("%s has %d bytes: at most %d can be sent", name, info.Size(), wire.MaxTaskArchive)
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// measure describes the file, for the result.
func (k *work) measure(name string) (*wire.TaskFile, error) {
	file, size, err := k.openArchive(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sum := sha256.New()
	if n, err := io.Copy(sum, file); err != nil || n != size {
		return nil, fmt.Errorf("read %s: %d of %d bytes: %w", name, n, size, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return &wire.TaskFile{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// secrets asks for the secrets of the params.
func (k *work) secrets(ctx context.Context) (map[string]string, error) {
	var answer wire.TaskSecrets
	if err := k.call(ctx, wire.TaskSecretsPath(k.Task), struct{}{}, &answer); err != nil {
		return nil, fmt.Errorf("get the task's secrets from the gateway: %w", err)
	}
	return answer.Secrets, nil
}
