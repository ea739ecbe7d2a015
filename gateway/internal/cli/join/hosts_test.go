package join

import (
	"strings"
	"testing"
)

// FuzzHosts: no line makes ssh take a host for an option, or a shell take it apart, and no two machines are one.
func FuzzHosts(f *testing.F) {
	for _, seed := range []string{"gpu-1=a\nroot@[fd00::7]:22\n", "# x\n\n-oProxyCommand=x", "a:b:c", "@", "x@-y", "[::1", "[]:1", "a=b=c",
		"u@h:70000", "\xff", "a@b@c:22=d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found := list{hosts: map[string]bool{}, names: map[string]bool{}}
		found.lines([]byte(text))
		seen := map[string]bool{}
		for _, b := range found.all {
			name := b.host[strings.LastIndexByte(b.host, '@')+1:]
			if b.host == "" || name == "" || strings.ContainsRune("-@", rune(b.host[0])) || name[0] == '-' ||
				strings.ContainsAny(b.host, " \t\n'\"$`;&|<>()\\=#") ||
				strings.Trim(b.port, "0123456789") != "" {
				t.Errorf("%q passes as %+v", text, b)
			}
			if seen[b.host+" "+b.port] || b.name != "" && seen["="+b.name] {
				t.Errorf("%q has %+v twice", text, b)
			}
			seen[b.host+" "+b.port] = true
			seen["="+b.name] = true
		}
	})
}
