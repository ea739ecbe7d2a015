package post

import (
	"errors"
	"testing"
)

// TestForbiddenAddresses: nothing goes where a machine's cloud tells it secrets, however the address is written. What a tenant has named
// leads not to the gateway's own machine either.
func TestForbiddenAddresses(t *testing.T) {
	for _, address := range []string{"169.254.169.254", "[fe80::1]", "[ff02::1]", "0.0.0.0", "[::ffff:169.254.169.254]",
		"[64:ff9b::169.254.169.254]", "[fd00:ec2::254]", "[fd20:ce::254]", "168.63.129.16", "100.100.100.200", "192.0.0.192"} {
		if err := Guard(false)("tcp", address+":80", nil); !errors.Is(err, errForbidden) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"127.0.0.1", "[::1]", "[64:ff9b::127.0.0.1]"} {
		own, foreign := Guard(false)("tcp", address+":80", nil), Guard(true)("tcp", address+":80", nil)
		if own != nil || !errors.Is(foreign, errForbidden) {
			t.Errorf("%s: %v; of a tenant %v", address, own, foreign)
		}
	}
	for _, address := range []string{"10.0.0.1", "203.0.113.7", "[2001:db8::1]", "[64:ff9b::203.0.113.7]"} {
		if err := Guard(true)("tcp", address+":80", nil); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"10.0.0.1", "172.16.0.1", "192.168.0.1", "[fd00::1]", "100.64.0.1", "[::ffff:10.0.0.1]",
		"[64:ff9b::10.0.0.1]", "127.0.0.1", "[::1]", "169.254.169.254"} {
		if err := GuardPublic()("tcp", address+":80", nil); !IsForbidden(err) {
			t.Errorf("%s is public: %v", address, err)
		}
	}
	if err := GuardPublic()("tcp", "203.0.113.7:80", nil); err != nil {
		t.Error(err)
	}
}
