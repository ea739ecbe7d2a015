package placement_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/help"
	"muster/gateway/internal/cli/scripted"
	"muster/gateway/internal/kit"
)

// lists has something in every list.
func lists(t *testing.T) *scripted.Gateway {
	g := scripted.New(t, commands.All())
	g.On("GET", "slots", slotsOf())
	g.On("GET", "slot-rules", api.SlotRuleList{Rules: []api.SlotRule{
		{Name: "rented", Selector: "provider=vast_ai,a-long-key/of-a-label=a-long-value-of-a-label,tier=spot", CreatedAt: g.Now,
			CreatedBy: "account:ops"}, {Name: "lab", Selector: "tier=lab", Shape: api.ShapeGPU, CreatedAt: g.Now}}})
	g.On("GET", "allocations", api.AllocationList{Allocations: []api.Allocation{waitingOne(), allocatedOne(), releasingOne()}, Total: 3})
	g.On("GET", "skus", api.SKUList{SKUs: []api.SKU{explainedOne().SKU,
		{Name: "h200-sxm-slice", Shape: api.ShapeVM, Model: "h200-sxm", GPUs: 1}}})
	g.On("GET", "skus/h100-sxm-baremetal-8g", explainedOne())
	eight := 8
	g.On("GET", "quotas", api.QuotaList{Quotas: []api.Quota{{Tenant: "research", GPUs: &eight, Used: 9}, {Tenant: "lab", Used: 1}}})
	g.On("GET", "profiles", api.ProfileList{Profiles: []api.Profile{{Name: api.ProfileSliceVM, BuiltIn: true, Nodes: 3,
		About:  "KVM, IOMMU, VFIO, Open vSwitch, libvirt: a host that is ready for virtual machines",
		Checks: []string{wire.CheckKVM, wire.CheckIOMMU}, Slots: api.ProfileSlots{Shapes: []string{api.ShapeVM}, Sizes: []int{1, 2, 4}}},
		{Name: "lab", UpdatedAt: noon(), UpdatedBy: "account:ops", Acceptance: true, Erase: true,
			CloudConfig: "#cloud-config\npackages: [a]"}}})
	return g
}

// TestListsFit: no row of a list is wider than the terminal. Elsewhere, and with -o wide, everything is there.
func TestListsFit(t *testing.T) {
	t.Parallel()
	g := lists(t)
	for _, command := range []string{"slot ls", "slot rules", "alloc ls", "sku ls", "sku explain h100-sxm-baremetal-8g", "quota ls",
		"profile ls"} {
		name := strings.Join(strings.Fields(command)[:2], "-")
		for _, g.Screen = range []int{40, 80, 120} {
			code, out, errs := g.Muster(strings.Fields(command)...)
			if code != 0 {
				t.Fatalf("%s: %d %s", command, code, errs)
			}
			for line := range strings.Lines(out) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > g.Screen {
					t.Errorf("%s on %d columns has a row of %d: %s", command, g.Screen, n, line)
				}
			}
			if strings.Contains(out, "\x1b") {
				t.Errorf("%s sends an escape of a gateway to the terminal", command)
			}
			if g.Screen > 40 {
				kit.Golden(t, fmt.Sprintf("%s-%d.golden", name, g.Screen), out)
			}
		}
		g.Screen = 80
		_, wide, _ := g.Muster(append(strings.Fields(command), "-o", "wide")...)
		g.Screen = 0
		_, same, _ := g.Muster(append(strings.Fields(command), "-o", "wide")...)
		if strings.Contains(wide, "…") || name != "sku-explain" && wide != same {
			t.Errorf("%s -o wide depends on the screen:\n%s", command, wide)
		}
		code, raw, _ := g.Muster(append(strings.Fields(command), "-o", "json")...)
		if code != 0 || !strings.HasPrefix(raw, "{") || strings.Count(raw, "\n") != 1 {
			t.Errorf("%s -o json: %d %s", command, code, raw)
		}
	}
	_, wide, _ := g.Muster("slot", "ls", "-o", "wide")
	if !strings.Contains(wide, "kill -9 4711") || !strings.Contains(wide, "0000:19:00.0=GPU-5ca1ab1e") {
		t.Errorf("the wide list has no next step, or no GPUs:\n%s", wide)
	}
	_, wide, _ = g.Muster("profile", "ls", "-o", "wide")
	if words := strings.Join(strings.Fields(wide), " "); !strings.Contains(words, "ACCEPTANCE ERASE RESTART ") ||
		!strings.Contains(words, " yes yes no 2026") {
		t.Errorf("the wide list of profiles does not say what is erased:\n%s", wide)
	}
}

// TestPages: a list has all pages, or as many things as were asked for, and then says how many there are.
func TestPages(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	slots := slotsOf().Slots
	pages := func() {
		g.On("GET", "slots", api.SlotList{Slots: slots[:3], Next: "c1", Total: 7}, api.SlotList{Slots: slots[3:], Total: 7})
	}
	pages()
	code, out, _ := g.Muster("slot", "ls", "-l", "tier=spot", "--state", "approved", "--sku", "h100-sxm-gpu")
	if asked := g.Requests(); code != 0 || !strings.Contains(out, "7 slots: ") || len(asked) != 2 || asked[0] !=
		"GET slots?limit=1000&selector=tier%3Dspot&sku=h100-sxm-gpu&state=approved" || !strings.Contains(asked[1], "cursor=c1") {
		t.Errorf("%d %s\n%q", code, out, asked)
	}
	pages()
	_, out, _ = g.Muster("slot", "ls", "--limit", "3")
	if asked := g.Requests(); len(asked) != 1 || !strings.Contains(asked[0], "limit=3") || !strings.Contains(out, "there are 7: --limit N") {
		t.Errorf("%s\n%q", out, asked)
	}
	g.On("GET", "allocations", api.AllocationList{Allocations: []api.Allocation{}, Next: "", Total: 0})
	_, out, errs := g.Muster("alloc", "ls", "--owner", "ada", "--node", "gpu-1", "--tenant", "lab")
	if asked := g.Requests(); asked[0] != "GET allocations?limit=100&node=gpu-1&owner=ada&tenant=lab" ||
		!strings.HasSuffix(out, "0 allocations\n") || !strings.Contains(errs, "muster alloc create --gpu MODEL --count N makes one") {
		t.Errorf("%s%s\n%q", out, errs, asked)
	}
	g.On("GET", "slots", api.SlotList{})
	for args, says := range map[string]string{"slot ls": "muster node check NAME shows", "slot ls -l tier=x": "no node has what -l asks for"} {
		if code, _, errs := g.Muster(strings.Fields(args)...); code != 0 || !strings.Contains(errs, says) {
			t.Errorf("%s: %d %s", args, code, errs)
		}
	}
}

// TestShown: one thing is shown with all that is known of it, and with what to do next.
func TestShown(t *testing.T) {
	t.Parallel()
	g := lists(t)
	blocked := releasingOne()
	g.On("GET", "allocations/"+allocation, waitingOne(), allocatedOne(), blocked)
	var all string
	for range 3 {
		code, out, errs := g.Muster("alloc", "show", allocation)
		if code != 0 {
			t.Fatalf("%d %s", code, errs)
		}
		all += out + "\n"
	}
	kit.Golden(t, "alloc-show.golden", all)
	g.On("GET", "profiles/lab", api.Profile{
		Name: "lab", UpdatedAt: noon(), UpdatedBy: "account:ops", Erase: true,
		CloudConfig: "#cloud-config\npackages: [a]", Checks: []string{wire.CheckGPUs},
		Slots: api.ProfileSlots{Shapes: []string{api.ShapeGPU, api.ShapeNode}}})
	_, out, _ := g.Muster("profile", "show", "lab")
	kit.Golden(t, "profile-show.golden", out)
}

// TestHelpTables: the page has each check and each state of a slot in a table.
func TestHelpTables(t *testing.T) {
	t.Parallel()
	page := help.Text("placement")
	for _, name := range append(append(wire.HostChecks(), wire.AcceptChecks()...), api.SlotStates()...) {
		if !strings.Contains(page, "\n| `"+name+"` | ") {
			t.Errorf("the page has no row of %s", name)
		}
	}
	for _, name := range []string{api.ProfileContainer, api.ProfileSliceVM, api.ProfileBareMetal, api.ShapeGPU, api.ShapeVM, api.ShapeNode} {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("the page does not name %s", name)
		}
	}
}
