//go:build real

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConsole drives a real browser as a person would: it logs in by the link, adds a node until it is green, runs a task, changes to dark,
// and looks at every page in both sizes. Whatever the browser complains of fails the test. The pictures are in bin/console.
func TestConsole(t *testing.T) {
	t.Parallel()
	c := newChromium(t)
	h := agentsHouse(t, carriedAgents(t))
	hostile := `"><script>document.title='taken'</script><img src=x onerror="document.title='taken'">`
	h.agent("gpu-1", h.token("--label", "note="+strings.ReplaceAll(hostile, ",", "")))
	h.muster("node", "wait", "gpu-1", "--timeout", "60s")
	link, _, _ := strings.Cut(h.muster("login"), "\n")
	c.looks(1440, 900, "light")
	c.open(link)
	c.see(`location.pathname === "/ui/fleet" && location.hash === ""`)
	c.see(`document.querySelector(".who").textContent === "operator"`)
	c.press("gt")
	c.see(`location.pathname === "/ui/tasks"`)
	c.press("?")
	c.see(`document.getElementById("keys").open`)
	c.shot("keys")
	c.eval(`document.getElementById("keys").close()`)

	c.open(h.url + "/ui/tasks/new?node=gpu-1&type=diag.collect")
	c.eval(`document.querySelector("form[method=post]").requestSubmit()`)
	c.see(`/^\/ui\/tasks\/.+/.test(location.pathname)`)
	task := c.eval(`location.pathname`).(string)
	c.see(`document.querySelector("#status .mark").className === "mark good"`)

	c.open(h.url + "/ui/add")
	c.eval(`(document.getElementById("name").value = "gpu-2", document.querySelector("main form").requestSubmit())`)
	c.see(`document.getElementById("joining") !== null`)
	c.shot("added-light-1440")
	command := c.eval(`document.getElementById("command").textContent`).(string)
	_, rest, _ := strings.Cut(command, "MUSTER_TOKEN=")
	token := strings.Trim(strings.Fields(rest)[0], `'"`)
	h.agent("gpu-2", token)
	c.see(`document.querySelector("#joining .mark").className === "mark good"`)
	c.shot("added-online-light-1440")

	address := filepath.Join(t.TempDir(), "url.txt")
	if err := os.WriteFile(address, []byte("http://127.0.0.1:1/hook\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.muster("alert", "receiver", "add", "ops", "--kind", "webhook", "--severity", "warn", "--file", address)
	h.muster("alert", "silence", "-l", "site=fra", "--reason", "the provider works on the network")
	h.muster("node", "gpus", "gpu-1", "9")
	c.open(h.url + "/ui/alerts")
	c.eval(`document.querySelector('form[action$="/receivers/ops/test"]').requestSubmit()`)
	c.see(`/nothing listens at 127.0.0.1:1/.test(document.body.textContent)`)

	pages := map[string]string{"alerts": "/ui/alerts", "fleet": "/ui/fleet", "node": "/ui/nodes/gpu-1", "tasks": "/ui/tasks", "task": task,
		"newtask": "/ui/tasks/new?node=gpu-1&type=workload.oci_launch", "sessions": "/ui/sessions",
		"allocations": "/ui/allocations", "slots": "/ui/slots", "skus": "/ui/skus", "providers": "/ui/providers",
		"releases": "/ui/releases", "tokens": "/ui/tokens?all=1", "accounts": "/ui/accounts",
		"events": "/ui/events?all=1", "topics": "/ui/help", "topic": "/ui/help/joining", "account": "/ui/account", "add": "/ui/add",
		"login": "/ui/login", "refused": "/ui/help/nothing"}
	for _, size := range []struct {
		name          string
		width, height int
	}{{"1440", 1440, 900}, {"390", 390, 844}} {
		for _, scheme := range []string{"light", "dark"} {
			c.looks(size.width, size.height, scheme)
			for name, path := range pages {
				for _, said := range c.complaints() {
					if !strings.Contains(said, "/ui/help/nothing") {
						t.Errorf("before %s: the browser says %s", name, said)
					}
				}
				c.open(h.url + path)
				if c.eval(`document.title === "taken"`) == true {
					t.Errorf("%s ran a script of a label", name)
				}
				if c.eval(`document.documentElement.scrollWidth > innerWidth`) == true {
					t.Errorf("%s at %s is wider than the window", name, size.name)
				}
				c.shot(name + "-" + scheme + "-" + size.name)
			}
		}
	}
	c.looks(1440, 900, "light")
	c.open(h.url + "/ui/fleet")
	c.eval(`document.getElementById("theme").click()`)
	c.open(h.url + "/ui/tasks")
	c.see(`document.documentElement.dataset.theme === "dark"`)
}
