package command

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/sign"
)

func TestWhereTheSecretComesFrom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	given := map[string]string{"MUSTER_TOKEN": "from-variable", "MUSTER_TOKEN_FILE": "/nowhere", "HOME": "/tmp"}
	variables := func(name string) string { return given[name] }
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "from-variable"}, {[]string{"--token", "from-flag"}, "from-flag"}, {[]string{"--token-file", file}, "from-file"},
		{[]string{"--token-file=-"}, "from-stdin"},
	} {
		p := Program{Getenv: variables, Stdin: strings.NewReader(" from-stdin\n"), Stdout: io.Discard, Stderr: io.Discard}
		o, err := Parse(p.Flags("run", "", "", RunFlags()...), append([]string{"--gateway", "https://gw.test"}, test.args...))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := o.secret(p); err != nil || got != test.want {
			t.Errorf("%v: %q, %v", test.args, got, err)
		}
		if o.ForgetSecret(); o.HasSecret() || strings.Contains(fmt.Sprintf("%+v", o), "from-") {
			t.Errorf("%v: kept in %+v", test.args, o)
		}
	}
}

// TestSecretThatIsShown: a person pasted a credential into a value that the gateway shows to everybody. It is found before any request.
func TestSecretThatIsShown(t *testing.T) {
	psk, err := sign.NewPSK(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{psk, "correct horse battery staple"} {
		for _, args := range [][]string{{"--name", secret}, {"--label", "a=" + secret}, {"--label", "a=x" + secret + "y"},
			{"--label", secret + "=a"},
			{"--provider", secret, "--instance-id", "1"}, {"--provider", "vast_ai", "--instance-id", secret}} {
			o := Options{source: source{text: secret}, Labels: Labels{}}
			for i := 0; i < len(args); i += 2 {
				switch key, value, _ := strings.Cut(args[i+1], "="); args[i] {
				case "--name":
					o.Name = args[i+1]
				case "--label":
					o.Labels[key] = value
				case "--provider":
					o.Provider = args[i+1]
				default:
					o.InstanceID = args[i+1]
				}
			}
			_, err := o.Credential(Program{})
			if err == nil || !strings.Contains(err.Error(), "holds the credential itself") || strings.Contains(err.Error(), secret) {
				t.Errorf("%q: %v", args, err)
			}
		}
		harmless := Options{source: source{text: secret}, Name: "gpu-1", Labels: Labels{"a": "b"}}
		if _, err := harmless.Credential(Program{}); err != nil {
			t.Error(err)
		}
	}
}

func TestDefaultName(t *testing.T) {
	for _, test := range []struct{ provider, instance, host, want string }{
		{"vast_ai", "39467543", "h", "vast-ai-39467543"}, {"", "7", "h", "7"}, {"aws", "", "Host_1.example", "host-1.example"},
		{"", "", "", ""}, {"", "", strings.Repeat("a", 100), strings.Repeat("a", 63)}, {"", "", "-.-", ""},
	} {
		if got := DefaultName(test.provider, test.instance, test.host); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// TestWithoutCredential: no secret, and no standard input, goes on to another start.
func TestWithoutCredential(t *testing.T) {
	for given, want := range map[string]string{
		"":                                   "",
		"--token mse_x --name a":             "--name a",
		"-token=mse_x --no-gpu":              "--no-gpu",
		"--name a --token":                   "--name a",
		"--token-file - --gateway https://g": "--gateway https://g",
		"--token-file=- --gateway https://g": "--gateway https://g",
		"--token-file /run/t --name token":   "--token-file /run/t --name token",
		"--token-file=/run/t":                "--token-file /run/t",
		"--label token=1 --token=t=1":        "--label token=1",
	} {
		if got := strings.Join(WithoutCredential(strings.Fields(given)), " "); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
}

// TestLabelTwice: of two values one would be lost.
func TestLabelTwice(t *testing.T) {
	for text, want := range map[string]bool{"a=1,b=1": true, "a=1,a=1": false, "a=1, a =2": false, "c=1": false} {
		if err := (Labels{"c": "1"}).Set(text); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
