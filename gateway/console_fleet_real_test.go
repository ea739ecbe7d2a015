//go:build real

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/view"
)

// TestConsoleFleet looks at the fleet in a real browser: with no node, 3, 40 of every kind and 10,000, in both sizes and colours. The
// pictures are in bin/console. Whatever the browser complains of fails the test.
func TestConsoleFleet(t *testing.T) {
	t.Parallel()
	c := newChromium(t)
	mixed := mixedNodes()
	for _, show := range []struct {
		name  string
		nodes []exhibit
		live  bool
		views map[string]string
		look  func(*chromium, *showcase)
	}{
		{"none", nil, false, map[string]string{"": ""}, nil},
		{"3", mixed[:3], true, map[string]string{"": ""}, nil},
		{"40", mixed, true, map[string]string{"": "", "-heat": "?view=heat", "-groups": "?group=tenant"}, lookAtForty},
		{"10000", manyNodes(10_000), true, map[string]string{"": "", "-heat": "?view=heat"}, lookAtMany},
	} {
		t.Run(show.name, func(t *testing.T) {
			s := newShowcase(t, show.nodes)
			c.t = t
			s.admit(c)
			for view, query := range show.views {
				s.picture(c, "fleet-"+show.name+view, "/ui/fleet"+query, show.live)
			}
			c.looks(1440, 900, "light")
			if show.look != nil {
				show.look(c, s)
			}
			if c.eval(`document.title === "taken"`) == true {
				t.Error("a node ran a script")
			}
			for _, said := range c.complaints() {
				t.Errorf("the browser says %s", said)
			}
			c.open("about:blank") // the stream of this gateway ends
		})
	}
	c.t = t
}

// picture keeps pictures of a page in both sizes and colours.
func (s *showcase) picture(c *chromium, name, path string, live bool) {
	c.t.Helper()
	for _, size := range [][2]int{{1440, 900}, {390, 844}} {
		for _, scheme := range []string{"light", "dark"} {
			c.looks(size[0], size[1], scheme)
			c.open(s.url + path)
			if live {
				c.see(`document.getElementById("fleet").dataset.live === "yes"`)
			}
			if c.eval(`document.documentElement.scrollWidth > innerWidth`) == true {
				c.t.Errorf("%s is wider than %d", name, size[0])
			}
			c.shot(fmt.Sprintf("%s-%s-%d", name, scheme, size[0]))
		}
	}
}

// lookAtForty filters, sorts, moves, selects and drains as a person would, and sees values change in place.
func lookAtForty(c *chromium, s *showcase) {
	t := c.t
	names := func() string {
		return fmt.Sprint(c.eval(`[...document.querySelectorAll("tr[data-id] a[data-open]")].map((a) => a.textContent).join(" ")`))
	}
	live := func() { t.Helper(); c.see(`document.getElementById("fleet").dataset.live === "yes"`) }
	c.open(s.url + "/ui/fleet")
	live()
	if n := c.eval(`document.querySelectorAll("tr[data-id]").length`); n != 40.0 {
		t.Errorf("%v rows", n)
	}
	inSight := `[...document.querySelectorAll("tr[data-id]")].filter((r) => r.getBoundingClientRect().bottom <= innerHeight).length`
	if n, _ := c.eval(inSight).(float64); n < 25 {
		t.Errorf("at 1440 x 900 %v nodes are in sight", n)
	}
	c.looks(390, 844, "light")
	if n, _ := c.eval(inSight).(float64); n < 8 {
		t.Errorf("at 390 x 844 %v nodes are in sight", n)
	}
	c.looks(1440, 900, "light")
	compareRows(c)

	for _, sort := range []string{"attention", "-attention", "name", "-name", "tenant", "state", "-status", "findings", "gpus", "utilization", "-memory", "temperature",
		"power", "price", "idle"} {
		c.open(s.url + "/ui/fleet?sort=" + sort)
		server := fmt.Sprint(c.eval(serverOrder))
		live()
		if got := names(); got != server {
			t.Errorf("by %s the browser orders\n%s\nand the gateway\n%s", sort, got, server)
		}
	}
	c.open(s.url + "/ui/fleet")
	live()
	c.eval(`document.querySelector("a[data-set='status=stale']").click()`)
	c.see(`document.querySelectorAll("tr[data-id]").length === 2 && location.search === "?status=stale"`)
	c.eval(`history.back()`)
	c.see(`document.querySelectorAll("tr[data-id]").length === 40`)
	c.press("/")
	c.press("tenant=desk\uE007")
	c.see(`location.search === "?selector=tenant%3Ddesk"`)
	live()
	if got := names(); got != "spark-1 spark-2" {
		t.Errorf("tenant=desk shows %s", got)
	}
	c.press("j")
	c.press("j")
	c.press("x")
	c.see(`document.querySelector("[data-selected]").textContent === "1 node selected:"`)
	c.press("k")
	c.press("x")
	c.see(`document.querySelector("[data-selected]").textContent === "2 nodes selected:"`)
	c.shot("fleet-selected-light-1440")
	c.eval(`document.querySelector("#actions button").click()`)
	c.see(`document.querySelector("h1").textContent === "Drain 2 nodes?"`)
	c.shot("fleet-sure-light-1440")
	c.eval(`document.querySelector("main form").requestSubmit()`)
	c.see(`location.search === "?selector=tenant%3Ddesk"`)
	live()
	c.see(`[...document.querySelectorAll("td.state")].every((cell) => cell.textContent.includes("drained"))`)

	c.open(s.url + "/ui/fleet?sort=utilization")
	live()
	before := names()
	quiet := mixedNodes()[0]
	for i := range quiet.hardware.GPUs {
		quiet.hardware.GPUs[i].UtilizationPercent = some(100.0)
	}
	s.beat(&quiet, time.Now())
	c.see(`document.querySelector("tr[data-id=id-h200-01] td.use .num").textContent === "100 %"`)
	c.see(`document.getElementById("news").textContent === "1 change: sort again"`)
	if names() != before {
		t.Error("the order changed by itself")
	}
	c.shot("fleet-news-light-1440")
	c.eval(`document.querySelector("#news button").click()`)
	c.see(`document.querySelector("tr[data-id] a[data-open]").textContent === "h200-01" && document.getElementById("news").hidden`)
	c.press("\uE00C")
	c.press("j")
	c.press("\uE007")
	c.see(`location.pathname === "/ui/nodes/h200-01"`)
	lookAtLoss(c, s)
}

// serverOrder is the order of the rows as the server sends them.
const serverOrder = `(() => {
  const request = new XMLHttpRequest();
  request.open("GET", location.href, false);
  request.send();
  return [...request.responseText.matchAll(/<tr data-id="id-([^"]+)"/g)].map((found) => found[1]).join(" ");
})()`

// compareRows has the browser read the server's page as a document, and compares row by row. What differs is looked at again: a node may
// have changed between the two.
func compareRows(c *chromium) {
	c.t.Helper()
	c.eval(`(() => {
  const shape = (node) => {
    if (node.nodeType === 3) return node.data.trim();
    const skip = ["tabindex", "aria-rowindex"].concat(node.localName === "time" ? ["title", "data-local"] : []);
    const attributes = [...node.attributes].filter((a) => !skip.includes(a.name)).map((a) => a.name + "=" +
      a.value.replace(/\s*\bflash\b/, "").trim()).filter((a) => a !== "class=").sort();
    const children = node.localName === "time" ? [] : [...node.childNodes].map(shape).filter(Boolean);
    return node.localName + "[" + attributes.join("|") + "](" + children.join(",") + ")";
  };
  const compare = (tries) => {
   const request = new XMLHttpRequest();
   request.responseType = "document";
   request.open("GET", location.href);
   request.onload = () => {
    const rows = new Map([...request.response.querySelectorAll("tr[data-id]")].map((row) => [row.dataset.id, shape(row)]));
    const own = [...document.querySelectorAll("tr[data-id]")];
    const different = own.filter((row) => rows.get(row.dataset.id) !== shape(row));
    if (different.length > 0 && tries > 1) {
      setTimeout(() => compare(tries - 1), 500);
      return;
    }
    window.compared = { rows: rows.size, different: different.map((row) => rows.get(row.dataset.id) + "  AND  " + shape(row)) };
   };
   request.send();
  };
  compare(20);
})()`)
	c.see(`window.compared !== undefined`)
	text, _ := json.Marshal(c.eval(`window.compared`))
	var compared struct {
		Rows      int
		Different []string
	}
	if err := json.Unmarshal(text, &compared); err != nil || compared.Rows != 40 {
		c.t.Errorf("compared %s, %v", text, err)
	}
	for _, row := range compared.Different {
		c.t.Errorf("the server and the browser draw a row differently: %s", row)
	}
}

// lookAtLoss takes the network away, sees the bar that says so, and sees it go when the network is back.
func lookAtLoss(c *chromium, s *showcase) {
	c.open(s.url + "/ui/fleet")
	c.see(`document.getElementById("fleet").dataset.live === "yes"`)
	offline := func(off bool) {
		c.call("POST", "/chromium/network_conditions", map[string]any{"network_conditions": map[string]any{"offline": off, "latency": 0,
			"throughput": -1}}, nil)
	}
	offline(true)
	s.leave(c.t) // the stream ends, and nothing else comes
	c.see(`!document.getElementById("lost").hidden && document.getElementById("lost").textContent.startsWith("Live values are lost since")`)
	c.shot("fleet-lost-light-1440")
	offline(false)
	c.see(`document.getElementById("lost").textContent.startsWith("You are logged out since")`)
	cookie, err := s.logins.Begin(c.t.Context(), s.who, login.Visitor{})
	if err != nil {
		c.t.Fatal(err)
	}
	s.cookie = cookie
	s.giveCookie(c)
	c.see(`document.getElementById("lost").hidden && document.getElementById("fleet").dataset.live === "yes"`)
	c.complaints() // that the network was away
}

// lookAtMany measures the page with 10,000 nodes that report every 30 s.
func lookAtMany(c *chromium, s *showcase) {
	t := c.t
	c.open("about:blank")
	alone := s.spend(10*time.Second, manyNodes(10_000))
	c.open(s.url + "/ui/fleet")
	c.see(`document.getElementById("fleet").dataset.live === "yes"`)
	times := c.eval(`(() => { const n = performance.getEntriesByType("navigation")[0];
		return "first byte " + Math.round(n.responseStart - n.requestStart) + " ms, drawn " +
		Math.round(performance.getEntriesByType("paint")[0].startTime) + " ms, usable " + Math.round(n.domContentLoadedEventEnd) + " ms" })()`)
	sent, _ := c.eval(`[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
		.reduce((sum, one) => sum + one.transferSize, 0)`).(float64)
	if t.Logf("the browser was sent %.2f MB", sent/1e6); sent < 1e5 || sent > 2e6 {
		t.Errorf("the page takes %.0f bytes", sent)
	}
	if n, _ := c.eval(`document.querySelectorAll("tr[data-id]").length`).(float64); n < 25 || n > 500 {
		t.Errorf("%v rows are drawn of 10,000", n)
	}
	c.eval(`(() => { window.long = []; new PerformanceObserver((list) => { for (const e of list.getEntries()) window.long.push(e.duration) })
		.observe({ type: "longtask" }) })()`)
	spent := s.spend(10*time.Second, manyNodes(10_000))
	t.Logf("10,000 nodes: %s; long tasks of 10 s while live: %v; gateway %.1f %% of a core, "+
		"%.1f %% without the page", times, c.eval(`JSON.stringify(window.long)`), spent, alone)
	c.eval(`scrollTo(0, document.documentElement.scrollHeight)`)
	c.see(`document.querySelector("tr[data-id=id-gpu-09999]") !== null`)
	c.shot("fleet-10000-end-light-1440")
}

// spend has the nodes report at their pace, and gives what this process needs for it, the open page included, in percent of a core.
func (s *showcase) spend(span time.Duration, nodes []exhibit) float64 {
	const pace = 30 // seconds
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	begun := time.Now()
	next := 0
	for time.Since(begun) < span {
		now := time.Now()
		var samples []view.Sample
		for range len(nodes) / pace {
			e := &nodes[next%len(nodes)]
			next++
			h := *e.hardware
			h.Probe.SampledAt = &now
			samples = append(samples, view.Sample{NodeID: e.id(), At: now, Interval: pace * time.Second, Hardware: &h,
				Agent: &wire.AgentInfo{Version: "1.4.0"}})
		}
		s.overview.Take(context.Background(), samples)
		time.Sleep(time.Second - time.Since(now))
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	used := time.Duration(after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano())
	return float64(used) / float64(time.Since(begun)) * 100
}
