package remote_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/pipe"
	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/cli/remote/standin"
)

// cat gives back its input, says the number of its words on standard error, and exits with 5.
func cat(s *standin.Session) {
	program(func(words []string, in <-chan []byte, _ <-chan string, say speak) pipe.Exit {
		for data := range in {
			say(pipe.FrameOutput, string(data))
		}
		say(pipe.FrameError, strings.Join(words, "|")+"\n")
		return pipe.Exit{Code: 5}
	})(s)
}

// TestExec: on one node the streams go byte for byte and apart, words are not looked at, and the exit code is the program's.
func TestExec(t *testing.T) {
	h := newHouse(t, cat)
	sent := strings.Repeat("\x00\xff\x1b[2J~.\r\n", 30000)
	h.stdin = strings.NewReader(sent)
	code, stdout, stderr := h.muster("node", "exec", "gpu-1", "--user", "ada", "--", "cat", "-l", "--user", "$HOME", "")
	if code != 5 || stdout != sent || stderr != "cat|-l|--user|$HOME|\n" {
		t.Errorf("code %d, %d bytes of %d, %q", code, len(stdout), len(sent), stderr)
	}
	var params wire.ExecParams
	ask := h.gateway.Asked()[0]
	if err := json.Unmarshal(ask.Params, &params); err != nil || params.User != "ada" || ask.Type != wire.SessionExec || ask.Signed != nil {
		t.Errorf("asked for %+v, %v", ask, err)
	}
}

// TestExecUsage: what cannot be is refused before a session is asked for.
func TestExecUsage(t *testing.T) {
	h := newHouse(t, cat)
	for line, says := range map[string]string{
		"node exec gpu-1 uptime":                  " node exec gpu-1 -- uptime\n",
		"node exec gpu-1 --":                      " node exec gpu-1 -- CMD ARG...\n",
		"node exec -- uptime":                     "which nodes?",
		"node exec gpu-1 -l a=b -- uptime":        "either named or selected",
		"node exec gpu-1 --timeout x -- uptime":   "no duration",
		"node exec gpu-1 --at-most 0 -- uptime":   "whole number",
		"node exec gpu-1 --user a/b -- uptime":    "that cannot be the user of a session\n  hint: the name of an account",
		"node exec gpu-1 -- rm lat\xe9":           `command[1] is not UTF-8, and cannot be sent as it is`,
		"node exec gpu-1 -- \xff":                 "is not UTF-8",
		"node exec gpu-1 --stdin -- cat \xff":     "is not UTF-8",
		"node exec -l a=b -- uptime":              "--yes",
		"node exec gpu-1 --key /none -- uptime":   "read the key",
		"node shell":                              "needs NAME",
		"node shell gpu-1 gpu-2":                  `does not take "gpu-2"`,
		"node exec gpu-1 --label a=b -- uptime":   "takes no --label",
		"node exec gpu-1 --stdin=no -- uptime":    "takes no value",
		"node exec gpu-1 --nonsense -- uptime -x": "there is no flag --nonsense",
	} {
		code, stdout, stderr := h.muster(strings.Fields(line)...)
		if code == 0 || code == 5 || (strings.Contains(line, "--user") || strings.Contains(says, "UTF-8")) && code != 2 || !strings.Contains(stderr, says) || stdout != "" {
			t.Errorf("%s: code %d\n%s", line, code, stderr)
		}
	}
	if asked := h.gateway.Asked(); len(asked) != 0 {
		t.Errorf("asked for %+v", asked)
	}
}

// TestExecMany: the lines of several nodes have their names, the input is empty, and a table says what came of each.
func TestExecMany(t *testing.T) {
	long := strings.Repeat("x", 70<<10)
	h := newHouse(t, func(s *standin.Session) {
		program(func(_ []string, in <-chan []byte, _ <-chan string, say speak) pipe.Exit {
			for data := range in {
				say(pipe.FrameOutput, string(data))
			}
			switch s.NodeID {
			case standin.NodeID("gpu-1"):
				say(pipe.FrameOutput, "one\ntw")
				say(pipe.FrameError, "to the side\n")
				say(pipe.FrameOutput, "o\nno end \x1b[2J")
				return pipe.Exit{}
			case standin.NodeID("gpu-2"):
				say(pipe.FrameOutput, long[:40<<10])
				say(pipe.FrameOutput, long[40<<10:])
				return pipe.Exit{Code: 137, Signal: "KILL"}
			}
			return pipe.Exit{Error: "there is no program nvtop"}
		})(s)
	})
	h.stdin = strings.NewReader("not for many")
	code, stdout, stderr := h.muster("node", "exec", "-l", "tier=spot", "--yes", "--at-most", "2", "--", "true")
	for _, want := range []string{"gpu-1: one\n", "gpu-1: two\n", "gpu-1: no end \x1b[2J\n", "gpu-2: " + long[:64<<10] + "\n",
		"gpu-2: " + long[64<<10:] + "\n"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the output lacks %.80q", want)
		}
	}
	for _, want := range []string{"gpu-1: to the side\n", "exit 0\n", "signal KILL\n", "failed: there is no program nvtop\n",
		"2 of 3 nodes failed"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("standard error lacks %q:\n%s", want, stderr)
		}
	}
	if code != 1 || strings.Contains(stdout, "not for many") {
		t.Errorf("code %d, %.200q", code, stdout)
	}
	h.screen = 80
	if _, stdout, _ := h.muster("node", "exec", "gpu-1", "gpu-2", "--", "true"); !strings.Contains(stdout, `no end \x1b[2J`) {
		t.Errorf("on a terminal: %q", stdout)
	}
	h.screen = 0
	h.stdin = strings.NewReader("for both\n")
	if _, stdout, _ = h.muster("node", "exec", "gpu-1", "gpu-2", "--stdin", "--", "cat"); !strings.Contains(stdout, "gpu-1: for both\n") ||
		!strings.Contains(stdout, "gpu-2: for both\n") {
		t.Errorf("with --stdin: %.300q", stdout)
	}
}

// TestExecNotRun: where the node could not run the program, the exit code is that of shells. A node named twice is one node.
func TestExecNotRun(t *testing.T) {
	for code := range map[int]bool{126: true, 127: true} {
		h := newHouse(t, program(func([]string, <-chan []byte, <-chan string, speak) pipe.Exit {
			return pipe.Exit{Code: code, Error: "there is no program nvtop"}
		}))
		if got, stdout, stderr := h.muster("node", "exec", "gpu-1", "--", "nvtop"); got != code || stdout != "" ||
			!strings.Contains(stderr, "muster: there is no program nvtop\n") {
			t.Errorf("code %d, %q\n%s", got, stdout, stderr)
		}
		if _, _, stderr := h.muster("node", "exec", "gpu-1", "gpu-1", "--", "nvtop"); !strings.Contains(stderr, "1 of 1 node failed") {
			t.Error(stderr)
		}
	}
}

// TestExecInterrupted: the first ^C is the programs', the second leaves them.
func TestExecInterrupted(t *testing.T) {
	for name, stubborn := range map[string]bool{"it ends": false, "it does not": true} {
		t.Run(name, func(t *testing.T) {
			var h *house
			h = newHouse(t, program(func(_ []string, _ <-chan []byte, signals <-chan string, _ speak) pipe.Exit {
				h.signals <- os.Interrupt
				if got := <-signals; got != "INT" {
					t.Errorf("the signal %s came", got)
				}
				if stubborn {
					h.signals <- os.Interrupt
					<-signals
				}
				return pipe.Exit{Code: 130, Signal: "INT"}
			}))
			want := 130
			if stubborn {
				want = 255
			}
			code, _, stderr := h.muster("node", "exec", "gpu-1", "--", "sleep")
			if code != want || stubborn != strings.Contains(stderr, "interrupted") {
				t.Errorf("code %d\n%s", code, stderr)
			}
		})
	}
}

// TestExecRefused: what the gateway or the node refuses is said with exit code 255.
func TestExecRefused(t *testing.T) {
	h := newHouse(t, func(s *standin.Session) {
		_ = pipe.WriteJSON(s.Main, pipe.FrameRefused, wire.SessionRefused{Code: "policy", Message: "there is no user eve on this machine"})
	})
	code, _, stderr := h.muster("node", "exec", "gpu-1", "--user", "eve", "--", "id")
	if code != 255 || !strings.Contains(stderr, "no user eve") {
		t.Errorf("code %d\n%s", code, stderr)
	}
	h.gateway.Refuse = &wire.ErrorDetail{Code: wire.CodeForbidden, Message: "the account lacks the scope sessions:exec", Hint: "ask for it"}
	code, _, stderr = h.muster("node", "exec", "gpu-1", "--", "id")
	if code != 255 || !strings.Contains(stderr, "sessions:exec\n  hint: ask for it") {
		t.Errorf("code %d\n%s", code, stderr)
	}
}

// TestExecSigned: with --key the document is signed here, for this node and this enrolment.
func TestExecSigned(t *testing.T) {
	h := newHouse(t, cat)
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := h.muster("node", "exec", "gpu-1", "--key", file, "--", "id"); code == 1 {
		t.Fatal(stderr)
	}
	ask := h.gateway.Asked()[0]
	if ask.Signed == nil || ask.Type != "" {
		t.Fatalf("asked for %+v", ask)
	}
	payload, _, err := sign.OpenTask(*ask.Signed, []ed25519.PublicKey{public})
	if err != nil || payload.Type != wire.SessionExec || payload.NodeID != standin.NodeID("gpu-1") || payload.Enrolment != standin.Enrolment ||
		wire.CheckSessionID(payload.TaskID) != nil || payload.ExpiresAt.Sub(payload.IssuedAt) != wire.MaxSessionWait {
		t.Errorf("%+v, %v", payload, err)
	}
	if payload.Nonce == "" {
		t.Error("there is no nonce")
	}
}
