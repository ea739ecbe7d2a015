package api_test

import (
	"strings"
	"testing"

	"muster/gateway/api"
)

func TestSSHOf(t *testing.T) {
	for text, want := range map[string]api.SSH{
		"": {}, "ada 22": {User: "ada", Port: 22}, "ada@corp.example 65535": {User: "ada@corp.example", Port: 65535}, "a-b_c.d ": {User: "a-b_c.d"},
		"-oProxyCommand=id 0": {}, "ada;id -1": {}, "%r 65536": {}, "a\nb ssh": {}, "\"a\" 2222x": {}, "$HOME  22": {},
		strings.Repeat("a", 65) + " 1": {Port: 1},
	} {
		user, port, _ := strings.Cut(text, " ")
		if got := api.SSHOf(map[string]string{api.LabelSSHUser: user, api.LabelSSHPort: port}); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzSSHOf(f *testing.F) {
	f.Add("ada", "22")
	f.Fuzz(func(t *testing.T, user, port string) {
		got := api.SSHOf(map[string]string{api.LabelSSHUser: user, api.LabelSSHPort: port})
		if strings.ContainsAny(got.User, " \t\r\n\"'%#\\$`;|&*?!,=") || strings.HasPrefix(got.User, "-") || got.Port < 0 || got.Port > 65535 {
			t.Errorf("%+v", got)
		}
	})
}
