package profile_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/profile"
)

// good is a profile as somebody may write it.
func good() api.Profile {
	return api.Profile{
		Name: "mi300-slices", About: "Slices of MI300X", Checks: []string{wire.CheckKVM, wire.CheckIOMMU},
		Slots: api.ProfileSlots{Shapes: []string{api.ShapeVM, api.ShapeNode}, Sizes: []int{1, 8}}, CloudConfig: "#cloud-config\npackages: []\n",
	}
}

func TestBuiltIn(t *testing.T) {
	t.Parallel()
	for _, p := range profile.BuiltIn() {
		if err := profile.Check(p); err == nil || !strings.Contains(err.Error(), "built in") {
			t.Errorf("%s may be pushed: %v", p.Name, err)
		}
		found, ok := profile.Find(p.Name)
		if !ok || !found.BuiltIn || found.About != p.About {
			t.Errorf("%s is found as %+v", p.Name, found)
		}
		renamed := p
		renamed.Name = "a-copy"
		if err := profile.Check(renamed); err != nil {
			t.Errorf("%s under another name: %v", p.Name, err)
		}
		if p.CloudConfig != "" && !strings.Contains(p.CloudConfig, "muster-agent profile apply "+p.Name+" &&\n") {
			t.Errorf("%s: its cloud-init does not run the helper:\n%s", p.Name, p.CloudConfig)
		}
	}
	if _, ok := profile.Find("a-copy"); ok {
		t.Error("what is not built in is found")
	}
}

// TestFilesOfBothAreTheSame proves that what one profile wrote on a host is gone when the other one's files are there.
func TestFilesOfBothAreTheSame(t *testing.T) {
	t.Parallel()
	paths := func(name string) (all []string) {
		p, _ := profile.Find(name)
		for line := range strings.Lines(p.CloudConfig) {
			if path, ok := strings.CutPrefix(line, "- path: /etc/muster/profiles/"+name); ok {
				all = append(all, path)
			}
		}
		return all
	}
	slice, metal := paths(api.ProfileSliceVM), paths(api.ProfileBareMetal)
	if len(slice) == 0 || !slices.Equal(slice, metal) {
		t.Errorf("the files are %q and %q", slice, metal)
	}
}

func TestConflict(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{api.ProfileSliceVM, api.ProfileBareMetal, true},
		{api.ProfileBareMetal, api.ProfileSliceVM, true},
		{"gpuaas-profile-mine", api.ProfileSliceVM, true},
		{api.ProfileSliceVM, api.ProfileSliceVM, false},
		{api.ProfileSliceVM, api.ProfileContainer, false},
		{"", api.ProfileSliceVM, false},
		{"mine", "yours", false},
	} {
		if got := profile.Conflict(test.a, test.b); got != test.want {
			t.Errorf("%q and %q: %v", test.a, test.b, got)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	want := good()
	shown := want
	shown.Nodes, shown.BuiltIn, shown.UpdatedBy = 7, true, "ada" // as a profile is printed
	body, _ := json.Marshal(shown)
	got, err := profile.Read(body)
	if err != nil {
		t.Fatal(err)
	}
	if got.Nodes != 0 || got.BuiltIn || got.UpdatedBy != "" || got.Name != want.Name || got.CloudConfig != want.CloudConfig ||
		!slices.Equal(got.Checks, want.Checks) || !slices.Equal(got.Slots.Sizes, want.Slots.Sizes) {
		t.Errorf("read %+v", got)
	}
	least, err := profile.Read([]byte(`{"name":"x","checks":["gpus"],"slots":{"shapes":["gpu"]}}`))
	if err != nil || least.Slots.Sizes == nil {
		t.Errorf("the least is %+v, %v", least, err)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``:                        "this is no profile: EOF",
		`[]`:                      "this is no profile",
		`{"name":"x","chekcs":1}`: `unknown field "chekcs"`,
		`{"name":"x","checks":["gpus"],"slots":{"shapes":["gpu"]}} {}`: "something stands behind",
		`{"name":"x","checks":["gpus"],"slots":{"shapes":["gpu"]}} x`:  "something stands behind",
		`{"name":"X","checks":["gpus"],"slots":{"shapes":["gpu"]}}`:    "is not a profile's name",
		`{"name":"x","checks":"gpus"}`:                                 "this is no profile",
	} {
		p, err := profile.Read([]byte(body))
		var refusal *wire.ErrorDetail
		if !errors.As(err, &refusal) || refusal.Code != wire.CodeBadRequest || refusal.Hint == "" || !strings.Contains(refusal.Message, want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
		if p.Name != "" {
			t.Errorf("%s gives %+v and an error", body, p)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := profile.Check(good()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*api.Profile)
		want   string
	}{
		"no name":            {func(p *api.Profile) { p.Name = "" }, "not a profile's name"},
		"a dash in front":    {func(p *api.Profile) { p.Name = "-x" }, "not a profile's name"},
		"a dash at the end":  {func(p *api.Profile) { p.Name = "x-" }, "not a profile's name"},
		"capitals":           {func(p *api.Profile) { p.Name = "Mine" }, "not a profile's name"},
		"a path":             {func(p *api.Profile) { p.Name = "../x" }, "not a profile's name"},
		"a long name":        {func(p *api.Profile) { p.Name = strings.Repeat("x", 64) }, "not a profile's name"},
		"built in":           {func(p *api.Profile) { p.Name = api.ProfileContainer }, "is built in"},
		"two lines":          {func(p *api.Profile) { p.About = "a\nb" }, "about is no line"},
		"a long text":        {func(p *api.Profile) { p.About = strings.Repeat("x", 201) }, "about is no line"},
		"no checks":          {func(p *api.Profile) { p.Checks = nil }, "asks for no check"},
		"an unknown check":   {func(p *api.Profile) { p.Checks = []string{"kvm", "luck"} }, `"luck" is not known`},
		"as_paid":            {func(p *api.Profile) { p.Checks = []string{wire.CheckAsPaid} }, `"as_paid" is not known`},
		"a check twice":      {func(p *api.Profile) { p.Checks = []string{"kvm", "kvm"} }, "kvm stands there twice"},
		"no shapes":          {func(p *api.Profile) { p.Slots.Shapes = nil }, "gives no slots"},
		"an unknown shape":   {func(p *api.Profile) { p.Slots.Shapes = []string{"pod"} }, `"pod" is not known`},
		"a shape twice":      {func(p *api.Profile) { p.Slots.Shapes = []string{"vm", "vm"} }, "vm stands there twice"},
		"sizes without vm":   {func(p *api.Profile) { p.Slots.Shapes = []string{"gpu"} }, "sizes are for slots of shape vm"},
		"size 0":             {func(p *api.Profile) { p.Slots.Sizes = []int{0} }, "the size 0"},
		"size 65":            {func(p *api.Profile) { p.Slots.Sizes = []int{65} }, "the size 65"},
		"a size twice":       {func(p *api.Profile) { p.Slots.Sizes = []int{2, 2} }, "the size 2"},
		"a script":           {func(p *api.Profile) { p.CloudConfig = "#!/bin/sh\n" }, "is not cloud-init's"},
		"a large config":     {func(p *api.Profile) { p.CloudConfig = "#cloud-config\n" + strings.Repeat("#", 64<<10) }, "too long"},
		"a config of binary": {func(p *api.Profile) { p.CloudConfig = "#cloud-config\n\x00" }, "no text"},
		"half a character":   {func(p *api.Profile) { p.CloudConfig = "#cloud-config\n\xff" }, "no text"},
	} {
		p := good()
		test.change(&p)
		var refusal *wire.ErrorDetail
		err := profile.Check(p)
		if !errors.As(err, &refusal) || refusal.Hint == "" || !strings.Contains(refusal.Message, test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// FuzzRead proves that what is read can be printed and read again, and that nothing else gets through.
func FuzzRead(f *testing.F) {
	body, _ := json.Marshal(good())
	f.Add(body)
	f.Add([]byte(`{"name":"x","checks":["gpus"],"slots":{"shapes":["gpu"]}}`))
	f.Add([]byte(`{"NAME":"x","slots":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := profile.Read(body)
		if err != nil {
			return
		}
		again, _ := json.Marshal(p)
		q, err := profile.Read(again)
		if err != nil || q.Name != p.Name || q.CloudConfig != p.CloudConfig || !slices.Equal(q.Checks, p.Checks) {
			t.Errorf("%q is read as %+v, and then as %+v, %v", body, p, q, err)
		}
	})
}
