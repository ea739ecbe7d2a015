package service_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/agent/internal/service"
)

func TestSettingsRoundTrip(t *testing.T) {
	want := service.Settings{
		"MUSTER_GATEWAY": "https://gw.example:7443", "MUSTER_LABEL": `a=x y,b="q",c=$HOME,d=back\slash,e=` + "`id`" + `,f=it's,g=#h`, "EMPTY": "",
		"HTTPS_PROXY": "http://user:p%40ss@proxy:3128",
	}
	got, err := service.ParseSettings(want.Format())
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v\n%s", got, err, want.Format())
	}
}

func TestSettingsNeverHoldASecret(t *testing.T) {
	s := service.Settings{"MUSTER_TOKEN": "mse_secret", "MUSTER_TOKEN_FILE": "/secret", "MUSTER_NAME": "a\nMUSTER_TOKEN=x"}
	if text := string(s.Format()); strings.Contains(text, "secret") || strings.Contains(text, "=x") {
		t.Errorf("%s", text)
	}
	if slices.ContainsFunc(s.Environ(), func(e string) bool { return strings.Contains(e, "secret") }) {
		t.Errorf("%v", s.Environ())
	}
	if got := s.Or(func(string) string { return "" })("MUSTER_TOKEN"); got != "" {
		t.Errorf("a token came from the settings: %q", got)
	}
}

func TestParseSettings(t *testing.T) {
	for _, test := range []struct {
		text, value string
		ok          bool
	}{
		{"A=b", "b", true}, {"  A=b  \n\n# c\n", "b", true}, {`A="b c"`, "b c", true}, {`A='$x'`, "$x", true}, {"A=", "", true},
		{`A="a\"b\\c\$d\e"`, `a"b\c$d\e`, true}, {"A=b\r\n", "b", true},
		{"A", "", false}, {"=b", "", false}, {"1A=b", "", false}, {"A B=c", "", false}, {`A="b`, "", false}, {`A="`, "", false},
		{`A="$x"`, "", false}, {`A="b\"`, "", false}, {`A=a"b"`, "", false}, {"A=$x", "", false}, {"A='b'c'", "", false},
		{"A=\x00", "", false}, {"A=\xff", "", false}, {strings.Repeat("#\n", 40<<10), "", false},
	} {
		got, err := service.ParseSettings([]byte(test.text))
		if (err == nil) != test.ok || got["A"] != test.value {
			t.Errorf("%.40q: %v, %v", test.text, got, err)
		}
	}
}

func FuzzParseSettings(f *testing.F) {
	for _, seed := range []string{"A=b\nB=\"c d\"\n", "A='x'\n#\n", `A="\\\"\$"`, "A=\"", "=\n", "A=\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := service.ParseSettings(raw)
		if err != nil {
			return
		}
		delete(s, "MUSTER_TOKEN")
		delete(s, "MUSTER_TOKEN_FILE")
		again, err := service.ParseSettings(s.Format())
		if err != nil || !maps.Equal(s, again) {
			t.Errorf("%v became %v, %v", s, again, err)
		}
	})
}

func TestSaveSettings(t *testing.T) {
	b := newBox(t, 0)
	if err := b.MakeBase(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.SaveSettings(service.Settings{"A": "b"}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(b.Root, b.Settings)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if got, err := b.LoadSettings(); err != nil || got["A"] != "b" {
		t.Errorf("%v, %v", got, err)
	}
	os.WriteFile(path, []byte("nonsense"), 0o600)
	if _, err := b.LoadSettings(); err == nil || !strings.Contains(err.Error(), "join again") {
		t.Errorf("error %v", err)
	}
	now := map[string]string{"MUSTER_LABEL": "now"}
	getenv := service.Settings{"MUSTER_NAME": "kept", "PATH": "x"}.Or(func(name string) string { return now[name] })
	if getenv("MUSTER_NAME") != "kept" || getenv("MUSTER_LABEL") != "now" || getenv("PATH") != "" {
		t.Error("settings do not stand in for the environment as they should")
	}
}
