package hardware_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/view/hardware"
)

// hgx is a machine with eight GPUs of a board, four on each NUMA node, as its driver shows them.
func hgx(device, name string) wire.Facts {
	f := wire.Facts{Vendor: "Dell Inc.", Product: "PowerEdge XE9680L"}
	for i := range 8 {
		bus := fmt.Sprintf("0000:%02x:00.0", 0x10*(i+1))
		f.PCI = append(f.PCI, wire.PCIDevice{
			Address: bus, Vendor: wire.PCIVendorNVIDIA, Device: device, Class: "030200", Driver: "nvidia", NUMA: new(i / 4),
			Switch: fmt.Sprintf("0000:%02x:01.0", 0x10*(i/2)),
		})
		f.Accelerators = append(f.Accelerators, wire.AcceleratorID{
			UUID: fmt.Sprintf("GPU-%d", i), Address: bus, Name: name, MemoryMiB: new(int64(81559)), Module: new(8 - i), Links: new(18),
		})
	}
	return f
}

func TestModels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ device, name, model, tag string }{
		{"2330", "NVIDIA H100 80GB HBM3", "h100-sxm", "gpu-nvidia-h100"},
		{"", "NVIDIA H100 80GB HBM3", "h100-sxm", "gpu-nvidia-h100"},
		{"", "NVIDIA H100 PCIe", "h100-pcie", "gpu-nvidia-h100"},
		{"2335", "", "h200-sxm", "gpu-nvidia-h200"},
		{"", "NVIDIA A100-SXM4-80GB", "a100-sxm-80g", "gpu-nvidia-a100"},
		{"", "A100-SXM4-80GB", "a100-sxm-80g", "gpu-nvidia-a100"},
		{"", "NVIDIA L40S", "l40s", "gpu-nvidia-l40s"},
		{"", "NVIDIA GeForce RTX 4080 SUPER", "rtx-4080-super", "gpu-nvidia-rtx-4080-super"},
		{"", "NVIDIA GeForce RTX 2080 SUPER", "rtx-2080-super", "gpu-nvidia-rtx-2080-super"},
		{"2684", "", "rtx-4090", "gpu-nvidia-rtx-4090"},
		{"", "NVIDIA GB10", "gb10", "gpu-nvidia-gb10"},
		{"2941", "NVIDIA GB200", "gb200", "gpu-nvidia-gb200"},
		{"", "AMD Instinct MI300X", "mi300x", "gpu-amd-mi300x"},
		{"", "AMD Radeon PRO W7900", "radeon-pro-w7900", "gpu-amd-radeon-pro-w7900"},
		{"abcd", "NVIDIA Z900 <Ultra>  512GB", "z900-ultra-512gb", "gpu-nvidia-z900-ultra-512gb"}, // nobody knows it
		{"abcd", "Z900 Ultra", "z900-ultra", "gpu-nvidia-z900-ultra"},
		{"abcd", "", "10de-abcd", "gpu-10de-abcd"},
		{"", "", "unknown", "gpu-unknown"},
		{"", "GPU " + strings.Repeat("long ", 40), "", ""},
	} {
		f := wire.Facts{Accelerators: []wire.AcceleratorID{{UUID: "GPU-1", Name: test.name, Address: "0000:01:00.0"}}}
		if test.device != "" {
			f.PCI = []wire.PCIDevice{{Address: "0000:01:00.0", Vendor: wire.PCIVendorNVIDIA, Device: test.device, Class: "030200"}}
		}
		gpus, tags := hardware.GPUs(f), hardware.Tags(f)
		if len(gpus) != 1 || len(tags) != 1 {
			t.Fatalf("%+v: %d GPUs and tags %+v", test, len(gpus), tags)
		}
		if test.model != "" && (gpus[0].Model != test.model || tags[0].Name != test.tag) {
			t.Errorf("%+v: model %s, tag %s", test, gpus[0].Model, tags[0].Name)
		}
		if len(gpus[0].Model) > wire.MaxLabelKey || len(tags[0].Name) > wire.MaxLabelKey || tags[0].From == "" {
			t.Errorf("%+v: model %q, tag %+v", test, gpus[0].Model, tags[0])
		}
	}
}

func TestGPUs(t *testing.T) {
	t.Parallel()
	f := hgx("2335", "NVIDIA H200")
	f.Accelerators[0].Address = "00000000:10:00.0" // as nvidia-smi writes it
	f.Accelerators[1].MIG = []wire.MIGInstance{{Profile: "1g.18gb", UUID: "MIG-1"}}
	gpus := hardware.GPUs(f)
	if len(gpus) != 8 {
		t.Fatalf("%d GPUs: %+v", len(gpus), gpus)
	}
	first := gpus[0]
	if first.Key() != "0000:10:00.0" || first.UUID != "GPU-0" || first.Model != "h200-sxm" || *first.MemoryMiB != 81559 || *first.NUMA != 0 ||
		first.Switch != "0000:00:01.0" || *first.Module != 8 || len(first.MIG) != 0 || len(gpus[1].MIG) != 1 {
		t.Errorf("the first is %+v, the second %+v", first, gpus[1])
	}
	if !slices.IsSortedFunc(gpus, func(a, b hardware.GPU) int { return strings.Compare(a.Key(), b.Key()) }) {
		t.Error("they are not in order")
	}
}

// TestWhichGPUsCount says which cards are there: never one of which nobody knows whether work can be given to it.
func TestWhichGPUsCount(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*wire.Facts)
		want   int
	}{
		"all":                     {func(*wire.Facts) {}, 8},
		"no bus, as in many pods": {func(f *wire.Facts) { f.PCI = nil }, 8},
		"the driver lost one":     {func(f *wire.Facts) { f.Accelerators = f.Accelerators[1:] }, 7},
		"no driver answers":       {func(f *wire.Facts) { f.Accelerators = nil }, 8},
		"a container has two of the host's eight": {func(f *wire.Facts) {
			f.Contained = true
			f.Accelerators = f.Accelerators[:2]
		}, 2},
		"a container whose driver is silent": {func(f *wire.Facts) {
			f.Contained = true
			f.Accelerators = nil
		}, 0},
		"two are passed on": {func(f *wire.Facts) {
			f.PCI[0].Driver, f.PCI[1].Driver = "vfio-pci", "vfio-pci"
			f.Accelerators = f.Accelerators[2:]
		}, 8},
		"a virtual function": {func(f *wire.Facts) {
			f.PCI[0].Virtual = true
			f.Accelerators = nil
		}, 7},
		"the screen of the board": {func(f *wire.Facts) {
			f.PCI = append(f.PCI, wire.PCIDevice{Address: "0000:03:00.0", Vendor: "1a03", Device: "2000", Class: "030000"})
		}, 8},
		"one twice": {func(f *wire.Facts) { f.Accelerators = append(f.Accelerators, f.Accelerators[3]) }, 8},
		"no address, and no UUID": {func(f *wire.Facts) {
			f.PCI = nil
			f.Accelerators[0].Address = ""
			f.Accelerators[1].Address, f.Accelerators[1].UUID = "", ""
		}, 7},
	} {
		f := hgx("2330", "NVIDIA H100 80GB HBM3")
		test.change(&f)
		if got := hardware.GPUs(f); len(got) != test.want {
			t.Errorf("%s: %d GPUs, want %d", name, len(got), test.want)
		}
	}
}

func TestUnifiedMemoryIsNotZero(t *testing.T) {
	t.Parallel()
	gpus := hardware.GPUs(wire.Facts{Accelerators: []wire.AcceleratorID{{UUID: "GPU-1", Name: "NVIDIA GB10"}}})
	if len(gpus) != 1 || gpus[0].MemoryMiB != nil || gpus[0].Key() != "GPU-1" || gpus[0].Model != "gb10" {
		t.Errorf("a GB10 is %+v", gpus)
	}
}

func TestTags(t *testing.T) {
	t.Parallel()
	f := hgx("2335", "NVIDIA H200")
	nic := wire.PCIDevice{Vendor: wire.PCIVendorMellanox, Class: "020000"}
	for i, device := range []string{"a2dc", "a2dc", "1021", "101e"} { // the last is a function of another
		nic.Address, nic.Device, nic.Virtual = fmt.Sprintf("0000:0%d:00.0", i), device, device == "101e"
		f.PCI = append(f.PCI, nic)
	}
	f.PCI = append(f.PCI, wire.PCIDevice{Address: "0000:05:00.0", Vendor: wire.PCIVendorNVIDIA, Device: "22a3", Class: "068000"})
	want := []string{
		"fabric-bf3: 2 x PCI 15b3:a2dc", "fabric-cx7: 1 x PCI 15b3:1021", "fabric-nvlink: 1 x PCI 10de:22a3, 8 x GPU with NVLinks",
		"gpu-nvidia-h200: 8 x PCI 10de:2335", "server-dell-xe9680l: DMI Dell Inc. PowerEdge XE9680L",
	}
	got := []string{}
	for _, tag := range hardware.Tags(f) {
		got = append(got, tag.Name+": "+tag.From)
	}
	if !slices.Equal(got, want) {
		t.Errorf("tags:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	f.Contained = true
	for _, tag := range hardware.Tags(f) {
		if tag.Name == "fabric-bf3" {
			t.Error("a container has the network cards of its host")
		}
	}
	if tags := hardware.Tags(wire.Facts{}); tags == nil || len(tags) != 0 {
		t.Errorf("nothing is known, and the tags are %#v", tags)
	}
}

func TestLinksOfABoardInASlotAreNoFabric(t *testing.T) {
	t.Parallel()
	for _, tag := range hardware.Tags(hgx("2331", "NVIDIA H100 PCIe")) {
		if strings.HasPrefix(tag.Name, "fabric") {
			t.Errorf("there may be no bridge, and the tag is %+v", tag)
		}
	}
}

func TestServers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ vendor, product, want string }{
		{"Dell Inc.", "PowerEdge XE9680L", "server-dell-xe9680l"},
		{"Supermicro", "SYS-821GE-TNHR", "server-supermicro-sys-821ge-tnhr"},
		{"NVIDIA", "NVIDIA DGX Spark", "server-nvidia-dgx-spark"},
		{"HPE", "ProLiant XD685", "server-hpe-xd685"},
		{"Lenovo", "ThinkSystem SR675 V3", "server-lenovo-sr675-v3"},
		{"QEMU", "Standard PC (Q35 + ICH9, 2009)", "server-qemu-standard-pc-q35-ich9-2009"},
		{"To Be Filled By O.E.M.", "To Be Filled By O.E.M.", ""},
		{"ASUSTeK COMPUTER INC.", "System Product Name", ""},
		{"Dell Inc.", "", ""},
		{"", "PowerEdge", ""},
		{"\x00\n", "\xff", ""},
		{"Dell Inc.", "PowerEdge", "server-dell-poweredge"},
	} {
		tags := hardware.Tags(wire.Facts{Vendor: test.vendor, Product: test.product})
		got := ""
		if len(tags) > 0 {
			got = tags[0].Name
		}
		if got != test.want || len(tags) > 1 {
			t.Errorf("%q %q: tags %+v, want %q", test.vendor, test.product, tags, test.want)
		}
	}
}

func TestIs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		model, asked string
		want         bool
	}{
		{"h100-sxm", "h100", true},
		{"h100-sxm", "H100", true},
		{"h100-pcie", "h100", true},
		{"h100-nvl", "h100", true},
		{"h200-nvl", "h200", true},
		{"h100-sxm", "h100-sxm", true},
		{"h100-sxm", "NVIDIA H100 80GB HBM3", true},
		{"h100-pcie", "NVIDIA H100 80GB HBM3", false},
		{"h100-sxm", "h100-pcie", false},
		{"h100-sxm", "h1000", false},
		{"h100-sxm", "h10", false},
		{"h100-sxm", "gh100", false},
		{"h100-sxm", "sxm", false},
		{"h100-sxm", "", false},
		{"h200-sxm", "h20", false},
		{"h20-sxm", "h20", true},
		{"gb200", "b200", false},
		{"a100-sxm-80g", "a100", true},
		{"a100-sxm-80g", "a100-80g", true},
		{"a100-sxm-80g", "a100-40g", false},
		{"rtx-4090", "4090", true},
		{"rtx-4090", "RTX 4090", true},
		{"rtx-4090", "GeForce RTX 4090", true},
		{"rtx-4080-super", "rtx-4080", false},
		{"rtx-4080-super", "rtx-4080-super", true},
		{"mi300x", "AMD Instinct MI300X", true},
		{"mi300x", "mi300x", true},
		{"z900-ultra", "NVIDIA Z900 Ultra", true},
		{"mixed", "h100", false},
		{"H100 SXM", "H100", true}, // a company's name
		{"RTX 6000Ada", "RTX 6000 Ada", true},
		{"a100-sxm-80g", "A100 SXM4 80GB", true},
		{"a100-sxm-80g", "A100 PCIE", false},
		{"quadro-rtx-6000", "RTX 6000 Ada", false},
		{"RTX 3090 Ti", "3090", false},
		{"rtx-pro-6000-blackwell-workstation-edition", "RTX PRO 6000", true},
		{"tesla-p100-pcie-16gb", "P100", true},
		{"", "", false},
	} {
		if got := hardware.Is(test.model, test.asked); got != test.want {
			t.Errorf("%q is %q: %v", test.model, test.asked, got)
		}
	}
}

// TestSpelling: what people ask a company for, against what drivers say of the machines that come. No spelling makes a good one another
// card.
func TestSpelling(t *testing.T) {
	t.Parallel()
	for driver, asked := range map[string][]string{
		"NVIDIA H100 80GB HBM3":          {"H100", "h100", "H100 SXM", "H100 SXM5", "H100_SXM", "H100 80GB"},
		"NVIDIA H100 PCIe":               {"H100", "H100 PCIE", "H100 80GB"},
		"NVIDIA H100 NVL":                {"H100", "H100 NVL"},
		"NVIDIA GeForce RTX 4090":        {"RTX 4090", "4090", "rtx4090", "RTX_4090", "GeForce RTX 4090"},
		"NVIDIA A100-SXM4-80GB":          {"A100", "A100 SXM4", "A100 80GB"},
		"NVIDIA H200":                    {"H200", "H200 SXM"},
		"NVIDIA L40S":                    {"L40S", "l40s"},
		"NVIDIA RTX 6000 Ada Generation": {"RTX 6000 Ada", "RTX 6000Ada", "6000 Ada"},
		"NVIDIA RTX A6000":               {"RTX A6000", "A6000"},
	} {
		model := hardware.GPUs(wire.Facts{Accelerators: []wire.AcceleratorID{{UUID: "GPU-1", Name: driver}}})[0].Model
		for _, one := range []string{"H100", "RTX 4090", "A100", "H200", "L40S", "L40", "RTX 6000 Ada", "RTX A6000", "RTX 4080", "RTX 6000"} {
			if got := hardware.Is(model, one); got != slices.Contains(asked, one) {
				t.Errorf("%s is %q: %v", driver, one, got)
			}
		}
		for _, one := range asked {
			if !hardware.Is(model, one) {
				t.Errorf("%s is not %q", driver, one)
			}
		}
	}
}

// FuzzName looks at what names of cards become: names of tags and models are used in selectors and paths.
func FuzzName(f *testing.F) {
	f.Add("NVIDIA H100 80GB HBM3", "10de", "2330", "Dell Inc.", "PowerEdge XE9680L")
	f.Add("", "\xff", "%", "-", "--")
	f.Fuzz(func(t *testing.T, name, vendor, device, maker, product string) {
		facts := wire.Facts{
			Vendor: maker, Product: product,
			PCI:          []wire.PCIDevice{{Address: "0000:01:00.0", Vendor: vendor, Device: device, Class: "030200"}},
			Accelerators: []wire.AcceleratorID{{UUID: "GPU-1", Address: "0000:01:00.0", Name: name}},
		}
		gpus, tags := hardware.GPUs(facts), hardware.Tags(facts)
		if len(gpus) != 1 || len(tags) == 0 || !hardware.Is(gpus[0].Model, gpus[0].Model) {
			t.Fatalf("GPUs %+v, tags %+v", gpus, tags)
		}
		for _, word := range []string{gpus[0].Model, tags[0].Name, tags[len(tags)-1].Name} {
			if wire.CheckLabelKey(word) != nil {
				t.Errorf("%q is no word", word)
			}
		}
	})
}

// TestTagFits: a tag without the form of the board fits each form, and a tag of another card or kind fits none.
func TestTagFits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tag, asked string
		want       bool
	}{{"gpu-nvidia-h200", "h200", true}, {"gpu-nvidia-h200", "h200-sxm", true}, {"gpu-h100-pcie", "h100", true}, {"gpu-nvidia-h100", "h200",
		false},
		{"gpu-nvidia-rtx-4080-super", "rtx-4080", false}, {"server-h200", "h200", false}, {"gpu-", "h200", false}, {"gpu-nvidia-h200", "",
			false}} {
		if got := hardware.TagFits(c.tag, c.asked); got != c.want {
			t.Errorf("%s for %q: %t", c.tag, c.asked, got)
		}
	}
}
