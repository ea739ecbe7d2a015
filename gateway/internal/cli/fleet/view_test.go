package fleet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/cli/live"
	"muster/gateway/internal/cli/tty"
)

// press draws, presses keys, and draws again.
func press(v *view, keys ...tty.Key) (wish live.Wish) {
	size := tty.Size{Columns: 100, Rows: 12}
	v.Frame(size)
	for _, key := range keys {
		wish = v.Press(key)
		v.Frame(size)
	}
	return wish
}

func many(n int) []api.NodeRow {
	var nodes []api.NodeRow
	for i := range n {
		nodes = append(nodes, api.NodeRow{ID: fmt.Sprintf("id-%02d", i), Name: fmt.Sprintf("n-%02d", i), State: "active", Status: "online"})
	}
	return nodes
}

// TestMoves: the chosen node is always on the screen.
func TestMoves(t *testing.T) {
	for name, c := range map[string]struct {
		keys []tty.Key
		want int
	}{
		"none": {nil, 0}, "down": {[]tty.Key{'j', tty.Down}, 2}, "up": {[]tty.Key{'j', 'j', 'k'}, 1}, "above the first": {[]tty.Key{tty.Up}, 0},
		"end": {[]tty.Key{'G'}, 49}, "below the last": {[]tty.Key{tty.End, 'j'}, 49}, "home": {[]tty.Key{'G', tty.Home}, 0},
		"g": {[]tty.Key{'G', 'g'}, 0}, "page": {[]tty.Key{tty.PageDown}, 8}, "pages": {[]tty.Key{' ', ' ', tty.PageUp}, 8},
	} {
		v := viewOf(many(50))
		press(v, c.keys...)
		lines := v.Frame(tty.Size{Columns: 100, Rows: 12})
		if want := fmt.Sprintf("> n-%02d ", c.want); !strings.Contains(strings.Join(lines, "\n"), want) || v.at != c.want {
			t.Errorf("%s: row %d, want %d:\n%s", name, v.at, c.want, strings.Join(lines, "\n"))
		}
	}
}

// TestStaysChosen: the chosen node stays chosen when the order of the rows changes, and another takes its place when it goes.
func TestStaysChosen(t *testing.T) {
	v := viewOf(many(5))
	press(v, 'j', 'j')
	v.Take(live.News{Nodes: &api.StreamNodes{Nodes: []*api.NodeRow{{ID: "id-02", Name: "z"}}}})
	press(v)
	if v.chosen != "id-02" || v.at != 4 {
		t.Errorf("chosen: %s in row %d", v.chosen, v.at)
	}
	v.Take(live.News{Nodes: &api.StreamNodes{Gone: []string{"id-02"}}})
	press(v)
	if v.chosen != "id-04" || v.at != 3 {
		t.Errorf("after it has gone: %s in row %d", v.chosen, v.at)
	}
	v.Take(live.News{Fleet: &api.FleetView{}})
	press(v, tty.Enter, 'j')
	if v.at != 0 {
		t.Errorf("without nodes: row %d", v.at)
	}
}

// TestOrders: each order by s, back by S, round by r, and only the idle by i.
func TestOrders(t *testing.T) {
	v := viewOf(someFleet())
	for _, want := range append(api.Sorts()[1:], api.SortName) {
		if press(v, 's'); v.order != want {
			t.Errorf("got %s, want %s", v.order, want)
		}
	}
	if press(v, 'S'); v.order != api.SortAttention {
		t.Errorf("got %s", v.order)
	}
	if press(v, 'r'); v.order != "-"+api.SortAttention {
		t.Errorf("got %s", v.order)
	}
	if press(v, 'r'); v.order != api.SortAttention {
		t.Errorf("got %s", v.order)
	}
	if press(v, 'i'); len(v.picture(tty.Size{}).rows) != 1 {
		t.Errorf("%d nodes are idle", len(v.picture(tty.Size{}).rows))
	}
}

// TestDetail: Enter shows the GPUs of the chosen node, Esc goes back, and so does the end of the node.
func TestDetail(t *testing.T) {
	v := viewOf(someFleet())
	press(v, 'j', tty.Enter)
	if v.detail != "2" {
		t.Errorf("shown: %s", v.detail)
	}
	press(v, 'j', 'j', 'j', 'j')
	if v.offset != 2 {
		t.Errorf("of three GPUs, number %d is the first", v.offset)
	}
	if press(v, tty.Escape); v.detail != "" || v.chosen != "2" {
		t.Errorf("after Esc: %q, %s", v.detail, v.chosen)
	}
	press(v, tty.Enter)
	v.Take(live.News{Nodes: &api.StreamNodes{Gone: []string{"2"}}})
	if press(v); v.detail != "" || v.message == "" {
		t.Errorf("after the node has gone: %q, %q", v.detail, v.message)
	}
	if press(v, '?'); !v.help {
		t.Error("no help")
	}
	if press(v, 'q'); v.help {
		t.Error("help stays")
	}
}

// TestFilter: a filter is asked about, and holds when the gateway takes it.
func TestFilter(t *testing.T) {
	v := viewOf(someFleet())
	v.selector = "old"
	wish := press(v, '/', tty.CtrlU, 'q', '=', 'x', tty.Backspace, 'é', tty.Up, tty.Enter)
	if wish.Filter == nil || wish.Filter.Selector != "q=é" || v.selector != "old" || wish.Quit {
		t.Fatalf("got %+v, %s", wish, v.selector)
	}
	v.Answered(errors.New("no such term"))
	if v.message != "no such term" || v.selector != "old" {
		t.Errorf("refused: %q, %q", v.message, v.selector)
	}
	v.Answered(nil)
	if v.selector != "q=é" || v.message != "" {
		t.Errorf("taken: %q, %q", v.selector, v.message)
	}
	if wish := press(v, '/', 'x', tty.Escape); wish.Filter != nil || v.prompt != nil {
		t.Errorf("given up: %+v", wish)
	}
	for _, keys := range [][]tty.Key{{'q'}, {tty.Interrupt}, {'/', tty.Interrupt}, {'?', tty.Interrupt}} {
		if wish := press(viewOf(nil), keys...); !wish.Quit {
			t.Errorf("%v does not quit", keys)
		}
	}
}

// TestLook reads a terminal's environment.
func TestLook(t *testing.T) {
	for _, c := range []struct {
		env   map[string]string
		plain bool
		want  look
	}{
		{map[string]string{"LANG": "en_US.UTF-8"}, false, look{color: true, shade: true, utf8: true}},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "C"}, false, look{color: true, shade: true}},
		{map[string]string{"LC_CTYPE": "C.utf8", "NO_COLOR": "1"}, false, look{shade: true, utf8: true}},
		{map[string]string{"LANG": "C.UTF-8"}, true, look{utf8: true}},
		{nil, true, look{}},
	} {
		if got := lookOf(func(name string) string { return c.env[name] }, c.plain); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.env, got, c.want)
		}
	}
}
