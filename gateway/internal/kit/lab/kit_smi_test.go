//go:build real

package lab

// nvidiaSMI stands in for the driver's tool on a box: one GPU, in the shapes that the real one prints.
const nvidiaSMI = `#!/bin/sh
known="index uuid name pci.bus_id driver_version mig.mode.current memory.total memory.used utilization.gpu temperature.gpu power.draw"
fields=
for a; do
	case $a in
	--help-query-gpu) for f in $known; do echo "\"$f\""; done; exit 0 ;;
	--query-gpu=*) fields=${a#*=} ;;
	esac
done
row=
for f in $(echo "$fields" | tr , ' '); do
	case $f in
	index) v=0 ;;
	uuid) v=GPU-00000001-aaaa-bbbb-cccc-0123456789ab ;;
	name) v="NVIDIA H100 80GB HBM3" ;;
	pci.bus_id) v=00000000:01:00.0 ;;
	driver_version) v=590.48.01 ;;
	mig.mode.current) v=Disabled ;;
	memory.total) v=81559 ;;
	memory.used) v=39233 ;;
	utilization.gpu) v=99 ;;
	*) v="[N/A]" ;;
	esac
	row="$row${row:+, }$v"
done
echo "$row"
`

// GPU is the name of the GPU that a box with AddGPU has.
const GPU = "NVIDIA H100 80GB HBM3"

// AddGPU gives the box an nvidia-smi that shows one GPU.
func (b *Box) AddGPU() { b.Write("/usr/bin/nvidia-smi", nvidiaSMI, 0o755) }
