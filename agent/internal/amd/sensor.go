package amd

import (
	"cmp"
	"strconv"
	"strings"

	"muster/agent/internal/host"
	"muster/agent/wire"
)

// readSensors reads temperatures, power and fan. Their units are those of the kernel's hwmon: thousandths of a degree, millionths of a
// watt.
func readSensors(d folder, g *wire.GPU) {
	heat := map[string]*float64{}
	for _, at := range [...]string{"temp1", "temp2", "temp3"} {
		heat[d.Text(at+"_label")] = d.scaled(at+"_input", 1000, maxCelsius)
	}
	g.TemperatureCelsius = cmp.Or(heat["edge"], heat["junction"]) // boards for servers have the second alone
	g.MemoryTemperatureCelsius = heat["mem"]
	const micro = 1e6
	g.PowerWatts = cmp.Or(d.scaled("power1_average", micro, maxWatts), d.scaled("power1_input", micro, maxWatts))
	g.PowerLimitWatts = positive(d.scaled("power1_cap", micro, maxWatts))
	g.PowerMaxLimitWatts = positive(d.scaled("power1_cap_max", micro, maxWatts))
	const full = 255
	g.FanPercent = d.scaled("pwm1", full/100.0, maxPercent)
	const hertz = 1e6
	for _, at := range [...]string{"freq1", "freq2"} {
		switch clock := whole(d.scaled(at+"_input", hertz, maxMHz)); d.Text(at + "_label") {
		case "sclk":
			clocks(g).SMMHz = clock
		case "mclk":
			clocks(g).MemoryMHz = clock
		}
	}
}

// readClocks reads the clocks that the sensors did not say. No clock at all is no group of them.
func readClocks(d folder, g *wire.GPU) {
	c := clocks(g)
	c.SMMHz = cmp.Or(c.SMMHz, current(d.Text("pp_dpm_sclk")))
	c.MemoryMHz = cmp.Or(c.MemoryMHz, current(d.Text("pp_dpm_mclk")))
	if c.SMMHz == nil && c.MemoryMHz == nil {
		g.Clocks = nil
	}
}

func clocks(g *wire.GPU) *wire.Clocks {
	if g.Clocks == nil {
		g.Clocks = &wire.Clocks{}
	}
	return g.Clocks
}

// current finds the level that a star marks, as in "1: 1440Mhz *". It gives MHz.
func current(levels string) *int64 {
	for line := range strings.Lines(levels) {
		level, marked := strings.CutSuffix(strings.TrimSpace(line), "*")
		_, speed, ok := strings.Cut(level, ":")
		speed = strings.ToLower(strings.TrimSpace(speed))
		if !marked || !ok || !strings.HasSuffix(speed, "mhz") {
			continue
		}
		n, ok := parseNumber(strings.TrimSpace(strings.TrimSuffix(speed, "mhz")), maxMHz)
		if !ok {
			return nil
		}
		return new(int64(n))
	}
	return nil
}

// readLink reads the PCIe link.
func readLink(d folder, g *wire.GPU) {
	link := wire.PCIe{
		Generation: generation(d.Text("current_link_speed")), GenerationMax: generation(d.Text("max_link_speed")),
		Width: lanes(d, "current_link_width"), WidthMax: lanes(d, "max_link_width"),
	}
	if link != (wire.PCIe{}) {
		g.PCIe = &link
	}
}

// generation reads a speed such as "16.0 GT/s PCIe".
func generation(speed string) *int {
	rate, _, _ := strings.Cut(speed, " GT/s")
	for i, known := range [...]string{"2.5", "5", "8", "16", "32", "64"} {
		if strings.TrimSuffix(rate, ".0") == known {
			return new(i + 1)
		}
	}
	return nil
}

func lanes(d folder, name string) *int {
	const most = 32
	n, ok := d.number(name, most)
	if !ok || n == 0 {
		return nil
	}
	return new(int(n))
}

// readErrors adds up the errors that the blocks of the device have counted since the driver was loaded. It is nil if none counts.
func readErrors(d folder) *wire.ECC {
	var sum wire.ECC
	for _, file := range d.within("ras/*_err_count") {
		fixed, broken := parseErrors(host.Tree("").Text(file))
		sum.CorrectedVolatile = plus(sum.CorrectedVolatile, fixed)
		sum.UncorrectedVolatile = plus(sum.UncorrectedVolatile, broken)
	}
	if sum == (wire.ECC{}) {
		return nil
	}
	sum.Enabled = new(true)
	return &sum
}

// parseErrors reads "ue: 0" and "ce: 0", uncorrected and corrected errors.
func parseErrors(text string) (fixed, broken *int64) {
	for line := range strings.Lines(text) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, err := strconv.ParseInt(strings.TrimSpace(count), 10, 48)
		if err != nil || n < 0 {
			continue
		}
		switch name {
		case "ue":
			broken = &n
		case "ce":
			fixed = &n
		}
	}
	return fixed, broken
}

func plus(sum, more *int64) *int64 {
	if sum == nil || more == nil {
		if sum == nil {
			return more
		}
		return sum
	}
	return new(*sum + *more)
}

// positive drops a limit of 0, which is none.
func positive(value *float64) *float64 {
	if value != nil && *value == 0 {
		return nil
	}
	return value
}

func whole(value *float64) *int64 {
	if value == nil {
		return nil
	}
	return new(int64(*value))
}
