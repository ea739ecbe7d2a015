package cli_test

import (
	"os"
	"strings"
	"testing"
)

// TestServiceFiles: a file that a flag names is checked before the service that runs is touched, and the settings have its whole path,
// because the service works in another folder.
func TestServiceFiles(t *testing.T) {
	c := newComputer(t)
	c.write("/srv/ca/nodes.jwk", "key", 0o600)
	t.Chdir("/")
	c.done("install", "--step-ca-key", "srv/ca/nodes.jwk")
	before := c.file("/etc/muster/gateway.env", 0o600)
	if !strings.Contains(before, "MUSTER_STEP_CA_KEY=\"/srv/ca/nodes.jwk\"\n") {
		t.Errorf("the settings:\n%s", before)
	}
	if calls := strings.Join(c.calls, "\n"); !strings.Contains(calls, "runuser -u muster -- test -r /srv/ca/nodes.jwk") {
		t.Errorf("nobody asked whether the service may read the file:\n%s", calls)
	}

	c.refuse = "runuser"
	code, _, errs := c.muster("install", "--listen", ":1")
	if code != 1 || !strings.Contains(errs, "chown muster /srv/ca/nodes.jwk lets it, or setfacl -m u:muster:r /srv/ca/nodes.jwk;") {
		t.Errorf("a file that the user may not read: code %d %s", code, errs)
	}
	c.refuse = ""
	if err := os.Remove(c.path("/srv/ca/nodes.jwk")); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := c.muster("install", "--listen", ":1"); code != 1 || !strings.Contains(errs, "there is no /srv/ca/nodes.jwk") {
		t.Errorf("a file that is gone: code %d %s", code, errs)
	}
	if now := c.file("/etc/muster/gateway.env", 0o600); now != before {
		t.Errorf("refused, and the settings are\n%s", now)
	}
}

// TestServiceCredential: a file that may go after a start, and the empty file of every machine, are no reason to refuse.
func TestServiceCredential(t *testing.T) {
	c := newComputer(t)
	c.done("install", "--credential", "/etc/muster/login")
	if calls := strings.Join(c.calls, "\n"); strings.Contains(calls, "runuser") {
		t.Errorf("asked for a file that is not there:\n%s", calls)
	}
	c.done("install", "--credential", os.DevNull)
	if got := c.file("/etc/muster/gateway.env", 0o600); !strings.Contains(got, "MUSTER_CREDENTIAL=\""+os.DevNull+"\"\n") {
		t.Errorf("the settings:\n%s", got)
	}
}
