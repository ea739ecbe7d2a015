package region_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas/region"
)

// TestImages: what can be installed is listed once, with what people have uploaded, and without what only starts machines.
func TestImages(t *testing.T) {
	t.Parallel()
	l := newLab(t, maassim.Config{})
	l.SetImages("ubuntu/noble", "custom/h200-570", "ubuntu/jammy")
	got, err := l.client.Images(t.Context())
	if want := []string{"custom/h200-570", "ubuntu/jammy", "ubuntu/noble"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, image := range got {
		d := script
		d.Series = image
		l.good(l.client.Deploy(t.Context(), l.ready(), d))
	}
	l.SetImages()
	if got, err := l.client.Images(t.Context()); err != nil || len(got) > 0 {
		t.Errorf("of none: %q, %v", got, err)
	}
	for _, fault := range []maassim.Fault{maassim.ErrorBefore, maassim.LostBefore, maassim.HalfAfter, maassim.PageInstead} {
		l.Fail("images", fault, -1)
		if got, err := l.client.Images(t.Context()); err == nil {
			t.Errorf("fault %d: got %q and no error", fault, got)
		}
		l.Heal()
	}
}

// TestMayInstall: what MAAS takes is never refused. It may be that MAAS refuses more.
func TestMayInstall(t *testing.T) {
	t.Parallel()
	for series, want := range map[string]string{
		"ubuntu/noble": "ubuntu/noble", "noble": "ubuntu/noble", "ubuntu": "ubuntu/jammy ubuntu/noble", "ubuntu/warty": "", "warty": "",
		"ubuntu/24.04": "ubuntu/jammy ubuntu/noble", "24.04": "centos/centos8 custom/h200-570 ubuntu/jammy ubuntu/noble",
		"centos/7": "centos/centos8", "centos": "centos/centos8", "centos/centos8": "centos/centos8", "custom/h200-570": "custom/h200-570",
		"h200-570": "custom/h200-570", "h200": "custom/h200-570", "debian/12": "",
	} {
		got := []string{}
		for _, image := range []string{"centos/centos8", "custom/h200-570", "ubuntu/jammy", "ubuntu/noble"} {
			if region.MayInstall(image, series) {
				got = append(got, image)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", series, got, want)
		}
	}
}

// FuzzImages: an image that is read has a system and a release, plain and short.
func FuzzImages(f *testing.F) {
	for _, seed := range []string{`[{"id":3,"name":"grub-efi-signed/uefi"},{"id":1,"name":"ubuntu/noble"}]`, `[{"name":"mine"}]`,
		`[{"name":7}]`, `[{}]`, `[{"name":"\u001b[31m/"}]`, `{"a":[]}`, `[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_ = region.ReadImages(bytes.NewReader(text), func(name string) error {
			if len(name) > 300 || !strings.Contains(name, "/") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
				t.Errorf("%q", name)
			}
			return nil
		})
	})
}
