package command

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/service"
)

// TestStayBringsBackWhatHangs: an agent that gives no sign of life is ended and started again, with nothing on trial. One that ends by
// itself ends what stays.
func TestStayBringsBackWhatHangs(t *testing.T) {
	l := service.Layout{Base: t.TempDir()}
	calls := filepath.Join(l.Base, "calls")
	program := filepath.Join(t.TempDir(), "program")
	script := "#!/bin/sh\necho \"$*\" >>" + calls + "\n[ $(wc -l <" + calls + ") = 1 ] || exit 4\nexec sleep 1000\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	build, err := l.Install(program)
	if err == nil {
		err = errors.Join(l.SetCurrent(build), l.SetGood(build))
	}
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	j := judge{base: l.Base, log: slog.New(slog.NewTextHandler(&said, nil)),
		patience: service.Patience{Start: time.Second, Silence: time.Hour, Stop: 5 * time.Second, Look: 50 * time.Millisecond}}
	var exit *exec.ExitError
	if err := j.stay(t.Context(), []string{"--no-gpu"}); !errors.As(err, &exit) || exit.ExitCode() != 4 {
		t.Errorf("%v", err)
	}
	raw, err := os.ReadFile(calls)
	if err != nil || string(raw) != "run --no-gpu\nrun --no-gpu\n" || !strings.Contains(said.String(), service.ErrHung.Error()) {
		t.Errorf("%v, started %q, log %s", err, raw, said.String())
	}
}
