package sku_test

import (
	"slices"
	"strings"
	"testing"

	"muster/gateway/api"
	"muster/gateway/internal/placement/inventory/sku"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		model, shape string
		gpus         int
		part, want   string
	}{
		{"h100-sxm", api.ShapeGPU, 1, "", "h100-sxm-gpu"},
		{"h100-sxm", api.ShapeGPU, 1, "1g.10gb", "h100-sxm-mig-1g-10gb"},
		{"a100-sxm-80g", api.ShapeGPU, 1, "1g.10gb+me", "a100-sxm-80g-mig-1g-10gb-me"},
		{"h200-sxm", api.ShapeVM, 1, "", "h200-sxm-slice"},
		{"h200-sxm", api.ShapeVM, 2, "", "h200-sxm-slice-2g"},
		{"h200-sxm", api.ShapeNode, 8, "", "h200-sxm-baremetal-8g"},
		{"h200-sxm", api.ShapeNode, 8, sku.PartDivided, "h200-sxm-baremetal-8g-mig"},
		{"a100-sxm-80g", api.ShapeNode, 1, "", "a100-sxm-80g-baremetal-1g"},
		{"10de-abcd", api.ShapeGPU, 1, "", "10de-abcd-gpu"},
		{sku.ModelMixed, api.ShapeNode, 3, "", "mixed-baremetal-3g"},
	} {
		got := sku.Of(test.model, test.shape, test.gpus, test.part)
		if got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
		kind, ok := sku.Parse(got)
		if !ok || kind.Model != test.model || kind.Shape != test.shape || kind.GPUs != test.gpus || (kind.Part == "") != (test.part == "") {
			t.Errorf("%s is read as %+v, %v", got, kind, ok)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "-", "h100", "h100-sxm", "-gpu", "h100-baremetal", "h100-baremetal-g", "h100-baremetal-08g", "h100-slice-1g", "h100-slice-",
		"h100-mig", "h100-mig-", "-mig-1g", "h100-slice-2g-mig", "h100-mig-1G", "-baremetal-8g", "h100-baremetal-8",
	} {
		if kind, ok := sku.Parse(name); ok {
			t.Errorf("%q is read as %+v", name, kind)
		}
		if rules := sku.Rules(name); len(rules) != 1 || !strings.Contains(rules[0], "MODEL-gpu") {
			t.Errorf("%q: rules %q", name, rules)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"h100-sxm-gpu":              "one GPU of model h100-sxm; on the machine itself, beside others; a profile that gives slots of shape gpu",
		"h100-sxm-mig-1g-10gb":      "one part 1g-10gb of a divided GPU of model h100-sxm",
		"h200-sxm-slice-2g":         "2 GPUs of model h200-sxm; linked with each other, for one virtual machine",
		"h200-sxm-baremetal-8g":     "8 GPUs of model h200-sxm; all GPUs of the node",
		"h200-sxm-baremetal-8g-mig": "is divided",
	} {
		if got := strings.Join(sku.Rules(name), "; "); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q in it", name, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	all := []string{
		"h100-sxm-gpu", "h100-sxm-baremetal-8g", "h100-pcie-gpu", "h200-sxm-slice", "h200-sxm-slice-2g", "a100-sxm-80g-gpu", "rtx-4090-gpu",
		"h100-sxm-gpu", "l40s-gpu",
	}
	for _, test := range []struct {
		name string
		all  []string
		want []string
	}{
		{"h200-sxm-slice-4g", all, []string{"h200-sxm-slice-2g", "h200-sxm-slice"}},
		{"h100-sxm-baremetal-4g", all, []string{"h100-sxm-baremetal-8g", "h100-sxm-gpu"}},
		{"h100-sxm-slice", all, []string{"h100-sxm-gpu"}},
		{"h10-sxm-gpu", all, []string{"h100-sxm-gpu", "h100-pcie-gpu"}},
		{"h100", []string{"a100-sxm-80g", "l40s", "h200-sxm", "h100-pcie"}, []string{"h100-pcie", "h200-sxm"}},
		{"4090", []string{"h100-sxm", "rtx-4090", "rtx-4080"}, []string{"rtx-4090"}},
		{"anything", nil, nil},
	} {
		got := sku.Nearest(test.name, test.all)
		if len(got) > 3 || !slices.Equal(got[:min(len(got), len(test.want))], test.want) {
			t.Errorf("%s: nearest are %q, want %q first", test.name, got, test.want)
		}
	}
}

// FuzzParse proves that a name that is read is written the same, and that no name is too much for Nearest.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"h100-sxm-mig-1g-10gb", "h200-sxm-slice-2g", "h200-sxm-baremetal-8g-mig", "x-gpu", "-g", "g", "-mig"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if kind, ok := sku.Parse(name); ok && sku.Of(kind.Model, kind.Shape, kind.GPUs, kind.Part) != name {
			t.Errorf("%q is read as %+v", name, kind)
		}
		if len(sku.Rules(name)) == 0 || len(sku.Nearest(name, []string{"h100-sxm-gpu", name})) == 0 {
			t.Errorf("%q: nothing is said about it", name)
		}
		if near := sku.Nearest(name, []string{"h100-sxm-gpu", name}); near[0] != name {
			t.Errorf("nearest to %q is %q", name, near[0])
		}
	})
}
