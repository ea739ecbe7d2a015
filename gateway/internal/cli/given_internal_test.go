package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"muster/agent/flags"
	"muster/gateway/api"
)

// TestInto: flags and variables set the fields that have their names, and nothing else.
func TestInto(t *testing.T) {
	_, _, s, err := split(strings.Fields("--tenant x --uses 3 --label a=b --label c=d --ttl 2h --remove-home --at-most 4 --scope a,b"))
	if err != nil {
		t.Fatal(err)
	}
	s.Takes = []string{"uses", "label", "ttl", "scope", "gpus"}
	s.Getenv = func(name string) string {
		return map[string]string{"MUSTER_GPUS": "0", "MUSTER_BIND_INSTANCE": "true"}[name]
	}
	q := api.TokenRequest{GPUs: 8, Tenant: "kept"}
	var a api.AccountRequest
	o := struct {
		RemoveHome, Force bool
		AtMost            int
		Timeout           time.Duration
		Bind              bool `flag:"bind-instance"`
		Word              string
		hidden            int
	}{Timeout: time.Minute}
	if err := s.Into(&o); err == nil || !strings.Contains(err.Error(), "no flag is called word") {
		t.Errorf("a field without a flag: %v", err)
	}
	if err := errors.Join(s.Into(&q), s.Into(&a)); err != nil || q.Tenant != "kept" || q.Uses != 3 || q.Labels["c"] != "d" || q.GPUs != 0 ||
		q.TTL != api.Duration(2*time.Hour) || q.BindInstance || strings.Join(a.Scopes, " ") != "a b" {
		t.Errorf("%+v, %+v, %v", q, a, err)
	}
	if !o.RemoveHome || o.Force || o.AtMost != 4 || o.Timeout != time.Minute || !o.Bind || o.hidden != 0 {
		t.Errorf("%+v", o)
	}
}

// TestIntoRefuses: what is refused names the flag or the variable, and says what is right.
func TestIntoRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"--uses 0":       `--uses has the value "0"`,
		"--ttl 5":        "no unit",
		"--ttl -1h":      "not longer than 0s",
		"--soak 1500ms":  "no number of whole seconds",
		"--label x":      "is no label",
		"--tenant plain": `MUSTER_ALL has the value "perhaps"`,
	} {
		_, _, s, err := split(strings.Fields(text))
		s.Getenv = func(name string) string { return map[string]string{"MUSTER_ALL": "perhaps"}[name] }
		o := struct {
			Uses   int
			TTL    time.Duration `flag:"ttl"`
			Soak   time.Duration `flag:"soak,seconds"`
			Labels map[string]string
			All    bool
		}{}
		if err == nil {
			err = s.Into(&o)
		}
		var usage *flags.Error
		if !errors.As(err, &usage) || !strings.Contains(usage.Message, says) || usage.Hint == "" {
			t.Errorf("%s: %v", text, err)
		}
	}
}
