package hardware

// card is a line of the table: a kind of card, and what muster calls it.
type card struct {
	id    string // PCI vendor:device; empty: known by name alone
	name  string // as the driver names it, without the vendor
	model string // of a GPU
	tag   string
}

// cards is the one table of hardware. A GPU that is not in it is named after what its driver says. So a line is only needed where one
// model has several names, where the name should be shorter, or where a card is to be known without its driver.
var cards = [...]card{
	{"10de:2330", "H100 80GB HBM3", "h100-sxm", "gpu-nvidia-h100"},
	{"10de:2331", "H100 PCIe", "h100-pcie", "gpu-nvidia-h100"},
	{"10de:2321", "H100 NVL", "h100-nvl", "gpu-nvidia-h100"},
	{"10de:2324", "H800", "h800-sxm", "gpu-nvidia-h800"},
	{"10de:2322", "H800 PCIe", "h800-pcie", "gpu-nvidia-h800"},
	{"10de:2329", "H20", "h20-sxm", "gpu-nvidia-h20"},
	{"10de:2335", "H200", "h200-sxm", "gpu-nvidia-h200"},
	{"10de:233b", "H200 NVL", "h200-nvl", "gpu-nvidia-h200"},
	{"10de:2342", "GH200 480GB", "gh200", "gpu-nvidia-gh200"},
	{"10de:2342", "GH200 120GB", "gh200", "gpu-nvidia-gh200"},
	{"10de:2348", "GH200 144G HBM3e", "gh200-144g", "gpu-nvidia-gh200"},
	{"10de:2901", "B200", "b200-sxm", "gpu-nvidia-b200"},
	{"10de:2941", "GB200", "gb200", "gpu-nvidia-gb200"},
	{"10de:3182", "B300 SXM6 AC", "b300-sxm", "gpu-nvidia-b300"},
	{"10de:31c2", "GB300", "gb300", "gpu-nvidia-gb300"},
	{"10de:2e12", "GB10", "gb10", "gpu-nvidia-gb10"},
	{"10de:20b0", "A100-SXM4-40GB", "a100-sxm-40g", "gpu-nvidia-a100"},
	{"10de:20b2", "A100-SXM4-80GB", "a100-sxm-80g", "gpu-nvidia-a100"},
	{"10de:20f1", "A100-PCIE-40GB", "a100-pcie-40g", "gpu-nvidia-a100"},
	{"10de:20b5", "A100 80GB PCIe", "a100-pcie-80g", "gpu-nvidia-a100"},
	{"10de:20f3", "A800-SXM4-80GB", "a800-sxm-80g", "gpu-nvidia-a800"},
	{"10de:20b7", "A30", "a30", "gpu-nvidia-a30"},
	{"10de:2235", "A40", "a40", "gpu-nvidia-a40"},
	{"10de:2236", "A10", "a10", "gpu-nvidia-a10"},
	{"10de:26b5", "L40", "l40", "gpu-nvidia-l40"},
	{"10de:26b9", "L40S", "l40s", "gpu-nvidia-l40s"},
	{"10de:27b8", "L4", "l4", "gpu-nvidia-l4"},
	{"10de:1eb8", "Tesla T4", "t4", "gpu-nvidia-t4"},
	{"10de:1db1", "Tesla V100-SXM2-16GB", "v100-sxm-16g", "gpu-nvidia-v100"},
	{"10de:1db5", "Tesla V100-SXM2-32GB", "v100-sxm-32g", "gpu-nvidia-v100"},
	{"10de:2b85", "GeForce RTX 5090", "rtx-5090", "gpu-nvidia-rtx-5090"},
	{"10de:2684", "GeForce RTX 4090", "rtx-4090", "gpu-nvidia-rtx-4090"},
	{"10de:2204", "GeForce RTX 3090", "rtx-3090", "gpu-nvidia-rtx-3090"},
	{"10de:2230", "RTX A6000", "rtx-a6000", "gpu-nvidia-rtx-a6000"},
	{"10de:26b1", "RTX 6000 Ada Generation", "rtx-6000-ada", "gpu-nvidia-rtx-6000-ada"},
	{"10de:2bb5", "RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000", "gpu-nvidia-rtx-pro-6000"},
	{"1002:740f", "Instinct MI210", "mi210", "gpu-amd-mi210"},
	{"1002:74a1", "Instinct MI300X", "mi300x", "gpu-amd-mi300x"},
	{"1002:74a5", "Instinct MI325X", "mi325x", "gpu-amd-mi325x"},
	{"1002:75a0", "Instinct MI350X", "mi350x", "gpu-amd-mi350x"},
	{"1002:75a3", "Instinct MI355X", "mi355x", "gpu-amd-mi355x"},

	{"10de:1af1", "A100 NVSwitch", "", tagNVLink},
	{"10de:22a3", "H100 NVSwitch", "", tagNVLink},
	{"15b3:101d", "ConnectX-6 Dx", "", "fabric-cx6"},
	{"15b3:101b", "ConnectX-6", "", "fabric-cx6"},
	{"15b3:1021", "ConnectX-7", "", "fabric-cx7"},
	{"15b3:1023", "ConnectX-8", "", "fabric-cx8"},
	{"15b3:a2d6", "BlueField-2", "", "fabric-bf2"},
	{"15b3:a2dc", "BlueField-3", "", "fabric-bf3"},
	{"15b3:a2d9", "BlueField-3 Lx", "", "fabric-bf3"},
}

const tagNVLink = "fabric-nvlink"
