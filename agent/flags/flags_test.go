package flags_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"muster/agent/flags"
)

type inner struct {
	Depth int `flag:"how-deep"`
}

type fields struct {
	GPUInterval time.Duration
	TLSCert     string
	Peers       []string
	Labels      map[string]string
	Level       slog.Level
	NoGPU       bool
	Below       inner
	Since       time.Time
	Bytes       int64
}

func table() []flags.Flag {
	return []flags.Flag{
		{Name: "gpu-interval", Value: "TIME", Zero: true}, {Name: "tls-cert", Value: "FILE", Alias: "OTHER_CERT"},
		{Name: "peer", Short: "p", Other: "friend", Value: "P"}, {Name: "label", Value: "KEY=VALUE"}, {Name: "level", Value: "LEVEL"},
		{Name: "no-gpu", Off: true}, {Name: "how-deep", Value: "N"},
		{Name: "since", Value: "TIME"}, {Name: "bytes", Value: "SIZE"}, {Name: "all"}, {Name: "secret", Value: "S", NoEnv: true},
	}
}

func read(args string, env map[string]string) (fields, *flags.Set, error) {
	s := &flags.Set{All: table(), Getenv: func(name string) string { return env[name] }}
	got := fields{TLSCert: "usual", NoGPU: true, GPUInterval: time.Hour}
	_, _, err := s.Parse(strings.Fields(args))
	if err == nil {
		err = s.Into(&got)
	}
	return got, s, err
}

// TestInto: a flag wins over its variable, that over its alias, and those over what the field had.
func TestInto(t *testing.T) {
	got, s, err := read("--gpu-interval=0 -p a,b --friend c --label k=v --level warn --no-gpu=off --since yesterday --bytes 3GiB",
		map[string]string{"MUSTER_HOW_DEEP": "3", "MUSTER_PEER": "d", "OTHER_CERT": "f.pem", "MUSTER_SECRET": "x"})
	const want = "map[bytes:0 gpu-interval:0s how-deep:3 label:map[k:v] level:WARN no-gpu:false peer:a,b,c " +
		"since:0001-01-01 00:00:00 +0000 UTC tls-cert:f.pem]"
	if texts := fmt.Sprint(s.Texts(&got)); err != nil || texts != want {
		t.Errorf("got %s, %v", texts, err)
	}
	if s.Source("tls-cert") != "OTHER_CERT" || s.Source("how-deep") != "MUSTER_HOW_DEEP" || s.Source("peer") != "--peer" ||
		s.Source("all") != "--all" || s.Text("secret") != "" || s.Given("how-deep") {
		t.Errorf("sources %s, %s, %s", s.Source("tls-cert"), s.Source("how-deep"), s.Source("peer"))
	}
	own := map[string]string{"MUSTER_TLS_CERT": "own", "OTHER_CERT": "f.pem"}
	if got, _, err := read("--tls-cert=", own); err != nil || got.TLSCert != "" {
		t.Errorf("an empty value: %q, %v", got.TLSCert, err)
	}
	if got, _, err := read("", own); err != nil || got.TLSCert != "own" {
		t.Errorf("a variable and its alias: %q, %v", got.TLSCert, err)
	}
	if got, _, err := read("", nil); err != nil || got.TLSCert != "usual" || !got.NoGPU || got.GPUInterval != time.Hour {
		t.Errorf("nothing is given: %+v, %v", got, err)
	}
}

// TestTake: the last value of a flag is taken away. The one before it counts then, and a variable is no value of the flag.
func TestTake(t *testing.T) {
	_, s, err := read("-p a -p b", map[string]string{"MUSTER_PEER": "d"})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Take("peer"); got != "b" || s.Text("peer") != "a" || !s.Given("peer") {
		t.Errorf("took %q, and left %q", got, s.Text("peer"))
	}
	if got := s.Take("peer"); got != "a" || s.Text("peer") != "d" || s.Given("peer") || s.Take("peer") != "" {
		t.Errorf("took %q, and left %q", got, s.Text("peer"))
	}
}

// TestRefuses: what is refused names the flag or the variable, and says what to write.
func TestRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--all=false":             "--all takes no value: write --all alone",
		"--tls-cert":              "--tls-cert needs a value: write --tls-cert FILE",
		"--no-gpu=maybe":          `--no-gpu has the value "maybe": write true`,
		"--no-gpu=":               `--no-gpu has the value ""`,
		"--gpu-interval=":         `--gpu-interval has the value ""`,
		"--how-deep=":             `--how-deep has the value ""`,
		"--peer=":                 `--peer has the value "": write a value`,
		"--label mse_id_secret":   "ms..., which looks like a secret is no label",
		"--gpu-interval 5":        `which is no duration: it has no unit`,
		"--gpu-interval -5s":      `which is not longer than 0s`,
		"--how-deep 0":            `--how-deep has the value "0": write a whole number from 1`,
		"--label x":               `"x" is no label: write --label tier=sovereign`,
		"--label a=1 --label a=2": `the label "a" is given twice`,
		"--peer x":                `MUSTER_LEVEL has the value "loud"`,
	} {
		env := map[string]string{}
		if args == "--peer x" {
			env["MUSTER_LEVEL"] = "loud"
		}
		_, _, err := read(args, env)
		var wrong *flags.Error
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestParse: words may stand between flags and behind --. A flag that is not known is named without its value.
func TestParse(t *testing.T) {
	s := &flags.Set{All: table()}
	words, behind, err := s.Parse(strings.Fields("a --tls-cert f b - -- --c d"))
	if err != nil || fmt.Sprint(words, behind) != "[a b -] [--c d]" || s.Text("tls-cert") != "f" {
		t.Errorf("words %v, behind %v, %v", words, behind, err)
	}
	if _, _, err := s.Parse([]string{"--token=mse_secret"}); err == nil || err.Error() != "there is no flag --token" {
		t.Errorf("an unknown flag: %v", err)
	}
	for _, help := range []string{"-h", "-help", "--help"} {
		if _, _, err := s.Parse([]string{"--all", help}); err != flags.ErrHelp {
			t.Errorf("%s: %v", help, err)
		}
	}
	if err := s.Into(&struct{ Nonsense int }{}); err == nil || !strings.Contains(err.Error(), "no flag is called nonsense") {
		t.Errorf("a field without a flag: %v", err)
	}
}
