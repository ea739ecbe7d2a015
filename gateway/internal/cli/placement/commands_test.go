package placement_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestRequests: what each command sends, and what it says.
func TestRequests(t *testing.T) {
	t.Parallel()
	profile := write(t, "lab.json", `{"name":"lab","checks":["gpus"]}`)
	sixteen := 16
	extended := allocatedOne()
	released := api.Allocation{ID: "b", State: api.AllocationReleased}
	for args, c := range map[string]struct {
		method, path string
		answer       any
		sent, says   string
	}{
		"profile push " + profile: {"POST", "profiles", api.Profile{Name: "lab", Checks: []string{"gpus"}, Nodes: 1,
			Slots: api.ProfileSlots{Shapes: []string{"gpu"}}}, `POST profiles {"name":"lab","checks":["gpus"]}`,
			"lab: 1 check, slots: gpu\nmuster profile assign lab NODE... gives it to nodes; 1 node has it now.\n"},
		"profile rm lab --yes": {"DELETE", "profiles/lab", api.Done{ID: "lab"}, "DELETE profiles/lab", "lab is removed.\n"},
		"profile assign container gpu-1": {"POST", "profiles-assign", api.Assigned{Nodes: []api.AssignedNode{
			{Node: "gpu-1", Before: "lab", Profile: "container", Task: "t1"}}}, `POST profiles-assign {"nodes":["gpu-1"],"profile":"container"}`,
			"gpu-1: container, before lab; task t1 looks whether the node is as it asks\n"},
		"profile assign none gpu-1 gpu-2": {"POST", "profiles-assign", api.Assigned{Nodes: []api.AssignedNode{{Node: "gpu-1", Before: "lab"},
			{Node: "gpu-2"}}}, `POST profiles-assign {"nodes":["gpu-1","gpu-2"],"profile":""}`,
			"gpu-1: none, before lab\ngpu-2: none, as before\n"},
		"profile assign container gpu-1 -o json": {"POST", "profiles-assign", api.Assigned{Nodes: []api.AssignedNode{}},
			`POST profiles-assign {"nodes":["gpu-1"],"profile":"container"}`, `{"nodes":[]}` + "\n"},
		"slot approve sl-1 sl-2": {"POST", "slots/decide", api.SlotsDecided{Slots: slotsOf().Slots[:2], Changed: 1},
			`POST slots/decide {"slots":["sl-1","sl-2"]}`, "1 slot approved, 1 as before\n"},
		"slot disable sl-1 --reason loud": {"POST", "slots/decide", api.SlotsDecided{Slots: slotsOf().Slots[:1], Changed: 1},
			`POST slots/decide {"slots":["sl-1"],"disable":true,"reason":"loud"}`, "1 slot disabled\n"},
		"slot approve -l a=b --shape gpu --dry-run": {"POST", "slots/decide", api.SlotsDecided{Slots: slotsOf().Slots[:2], Changed: 2},
			`POST slots/decide {"selector":"a=b","shape":"gpu","dry_run":true}`, "2 slots to be approved\n"},
		"slot approve --node gpu-1 -o json": {"POST", "slots/decide", api.SlotsDecided{Slots: []api.Slot{}},
			`POST slots/decide {"node":"gpu-1","dry_run":true}`, `{"slots":[],"changed":0}` + "\n"},
		"slot rule-rm rented -y": {"DELETE", "slot-rules/rented", api.Done{}, "DELETE slot-rules/rented", "rented approves no more."},
		"alloc extend " + allocation + " --for 2h": {"POST", "allocations/" + allocation + "/extend", extended,
			"POST allocations/" + allocation + `/extend {"seconds":7200}`, allocation + " ends at 2026-11-21T12:00:00Z, in 2h.\n"},
		"alloc release a": {"POST", "allocations/a/release", releasingOne(), "POST allocations/a/release",
			"a: releasing; its GPUs are free for others when they are clean\n"},
		"alloc release b":            {"POST", "allocations/b/release", released, "POST allocations/b/release", "b: released\n"},
		"alloc release b -o json":    {"POST", "allocations/b/release", released, "POST allocations/b/release", `{"id":"b",`},
		"sku explain x --tenant lab": {"GET", "skus/x", api.SKUExplained{SKU: api.SKU{Name: "x"}}, "GET skus/x?tenant=lab", "0 qualify\n"},
		"quota set lab 16": {"PUT", "quotas/lab", api.Quota{Tenant: "lab", GPUs: &sixteen, Used: 17}, `PUT quotas/lab {"gpus":16}`,
			"lab: at most 16 GPUs at once, 17 in use; it keeps what it has, and gets no more\n"},
		"quota rm lab -y": {"PUT", "quotas/lab", api.Quota{}, `PUT quotas/lab {"gpus":null}`, "lab has no quota any more.\n"},
	} {
		g := scripted.New(t, commands.All())
		g.On(c.method, c.path, c.answer)
		code, out, errs := g.Muster(strings.Fields(args)...)
		asked := g.Requests()
		if code != 0 || !strings.Contains(out, c.says) || len(asked) == 0 || asked[len(asked)-1] != c.sent {
			t.Errorf("%s: code %d\n%s%s\n%q, want %q", args, code, out, errs, asked, c.sent)
		}
	}
}

// TestRefused: what is used wrongly is not sent, and what the gateway refuses is said with its hint.
func TestRefused(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	private := write(t, "key", "-----BEGIN OPENSSH PRIVATE KEY-----\n")
	empty := write(t, "empty.pub", "# none\n")
	text := write(t, "profile.yaml", "name: lab\n")
	none := &wire.ErrorDetail{Code: wire.CodeBadRequest, Message: "no node has such GPUs", Hint: "the nearest is h100-sxm-gpu"}
	g.On("POST", "allocations", none)
	g.On("POST", "profiles-assign", api.Assigned{Nodes: []api.AssignedNode{{Node: "gpu-1", Refused: "it has allocations"}}})
	for args, c := range map[string]struct {
		code int
		says string
	}{
		"alloc create":                                            {2, "a SKU or GPUs?"},
		"alloc create --sku a --gpu b":                            {2, "a SKU or GPUs?"},
		"alloc create --gpu h100 --count 0":                       {2, "a whole number from 1"},
		"alloc create --gpu h100 --max-price 0":                   {2, "write a price such as 4.50"},
		"alloc create --gpu h100 --max-price NaN":                 {2, "write a price such as 4.50"},
		"alloc create --gpu h100 --max-price Inf":                 {2, "write a price such as 4.50"},
		"alloc create --gpu h100 --priority high":                 {2, "write a whole number from -100 to 100"},
		"alloc create --gpu h100 --ttl soon":                      {2, "is no duration"},
		"alloc create --gpu h100 --user ada":                      {2, "needs a public key"},
		"alloc create --gpu h100 --sudo":                          {2, "add --user NAME"},
		"alloc create --gpu h100 --user ada --ssh-key " + private: {2, "is a private key"},
		"alloc create --gpu h100 --user ada --ssh-key " + empty:   {2, "holds no key"},
		"alloc create --gpu h100 --user ada --ssh-key /none":      {1, "no such file"},
		"alloc create --gpu h100 --launch /none":                  {1, "no such file"},
		"alloc create --gpu h100 --launch " + empty:               {2, "one JSON object"},
		"alloc create --gpu h100 --tenant lab":                    {1, "the nearest is h100-sxm-gpu"},
		"alloc create --gpu h100":                                 {1, "no node has such GPUs"},
		"alloc extend a":                                          {2, "for how much longer?"},
		"alloc extend a --for 1500ms":                             {2, "no number of whole seconds"},
		"alloc ls --state open":                                   {2, "one of waiting, allocated, releasing, released"},
		"alloc show a":                                            {1, "there is no allocations/a"},
		"alloc release a b":                                       {1, "there is no allocations/b/release"},
		"slot ls --state free":                                    {2, "one of proposed, approved"},
		"slot approve":                                            {2, "which slots?"},
		"slot approve sl-1 -l a=b":                                {2, "either named or selected"},
		"slot approve sl-1 --keep x":                              {2, "add -l SELECTOR"},
		"slot rule-rm rented":                                     {2, "add --yes"},
		"profile push " + text:                                    {1, "is no JSON"},
		"profile push /none":                                      {1, "no such file"},
		"profile assign container":                                {2, "which nodes?"},
		"profile assign container gpu-1":                          {1, "gpu-1: it has allocations"},
		"profile rm lab":                                          {2, "add --yes"},
		"quota set lab many":                                      {2, "is no number of GPUs"},
		"quota set lab":                                           {2, "needs TENANT N"},
		"quota rm lab":                                            {2, "add --yes"},
		"node check gpu-1 -- dcgmi diag":                          {2, "no image is named"},
		"node check gpu-1 --image a":                              {2, "add --accept"},
		"node check gpu-1":                                        {1, "there is no nodes/gpu-1/check"},
		"node check":                                              {2, "needs NAME"},
	} {
		code, out, errs := g.Muster(strings.Fields(args)...)
		if code != c.code || out != "" || !strings.Contains(strings.Join(strings.Fields(errs), " "), c.says) {
			t.Errorf("%s: code %d\n%s%s", args, code, out, errs)
		}
		for _, asked := range g.Requests() {
			if c.code == 2 && !strings.HasPrefix(asked, "GET tenants") {
				t.Errorf("%s: %s was sent", args, asked)
			}
		}
	}
}

// TestApproveMany: what a selector names is shown and asked about, and only what was shown is approved.
func TestApproveMany(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	plan := api.SlotsDecided{Slots: slotsOf().Slots[:3], Changed: 2}
	g.On("POST", "slots/decide", plan)
	g.On("PUT", "slot-rules/rented", api.SlotRule{Name: "rented", Selector: "a=b", Shape: "gpu"})
	const asks = `POST slots/decide {"selector":"a=b","shape":"gpu","dry_run":true}`
	const does = `POST slots/decide {"slots":["sl-0000000000000000","sl-0000000000000001","sl-0000000000000002"]}`
	const keeps = `PUT slot-rules/rented {"selector":"a=b","shape":"gpu"}`
	for _, c := range []struct {
		persons     bool
		stdin, more string
		code        int
		says        string
		asked       []string
	}{
		{false, "", "", 2, "to approve 2 slots needs a yes", []string{asks}},
		{true, "n\n", "", 1, "2 slots of 3 nodes: gpu-0, gpu-1, gpu-2\napprove 2 slots? [y/N] muster: nothing was done", []string{asks}},
		{true, "y\n", "", 0, "approve 2 slots? [y/N] ", []string{asks, does}},
		{false, "", " --yes", 0, "2 slots of 3 nodes", []string{asks, does}},
		{false, "", " --yes --keep rented", 0, "muster slot rule-rm rented ends it.", []string{asks, does, keeps}},
		{false, "", " --dry-run --keep rented", 0, "", []string{asks}},
	} {
		g.Persons, g.Stdin = c.persons, c.stdin
		code, _, errs := g.Muster(strings.Fields("slot approve -l a=b --shape gpu" + c.more)...)
		if asked := strings.Join(g.Requests(), "\n"); code != c.code || !strings.Contains(errs, c.says) || asked != strings.Join(c.asked, "\n") {
			t.Errorf("%q%s: code %d %s\n%s", c.stdin, c.more, code, errs, asked)
		}
	}
	g.On("POST", "slots/decide", api.SlotsDecided{Slots: slotsOf().Slots[:3]})
	if code, out, _ := g.Muster("slot", "approve", "-l", "a=b"); code != 0 || !strings.HasSuffix(out, "0 slots approved, 3 as before\n") {
		t.Errorf("nothing is left to approve: %d %s", code, out)
	}
}

// TestExamples: what help teaches is a command as it can be given.
func TestExamples(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	pipe := regexp.MustCompile(` \|.*`)
	for _, c := range commands.All() {
		group, _, _ := strings.Cut(c.Name, " ")
		if !strings.Contains(" profile slot sku alloc quota ", " "+group+" ") && c.Name != "node check" {
			continue
		}
		if c.Summary == "" || c.Text == "" || len(c.Examples) == 0 {
			t.Errorf("help of %s teaches nothing", c.Name)
		}
		for _, example := range c.Examples {
			words := strings.Fields(strings.NewReplacer("~/.ssh/id_ed25519.pub", "-", "'", "").Replace(pipe.ReplaceAllString(example, "")))
			g.Stdin = "ssh-ed25519 AAAA ada\n"
			if strings.Contains(example, "--reason") {
				words = words[1:4]
			} else {
				words = words[1:]
			}
			if code, _, errs := g.Muster(words...); code == 2 && !strings.Contains(errs, "needs a yes") {
				t.Errorf("%s: %s", example, errs)
			}
		}
	}
}
