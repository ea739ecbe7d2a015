package picture

import (
	"math"
	"strconv"
	"strings"
)

// whole rounds as a browser does.
func whole(v float64) string { return strconv.FormatFloat(math.Floor(v+0.5), 'f', 0, 64) }

// tenth has one digit after the point.
func tenth(v float64) string { return strconv.FormatFloat(math.Floor(v*10+0.5)/10, 'f', 1, 64) }

// manyMiB are written as TiB.
const manyMiB = 10 << 20

// usedText is a size in the unit of the whole that it is a part of.
func usedText(mib, of int64) string {
	if of < manyMiB {
		return gibText(mib)
	}
	return tebibytes(mib)
}

// gibText is a size of memory in three digits or so.
func gibText(mib int64) string {
	gib := float64(mib) / 1024
	switch {
	case mib < 1024:
		return strconv.FormatInt(mib, 10) + " MiB"
	case gib < 100:
		return tenth(gib) + " GiB"
	case mib < manyMiB:
		return grouped(whole(gib)) + " GiB"
	}
	return tebibytes(mib)
}

func tebibytes(mib int64) string { return groupedPoint(tenth(float64(mib)/(1<<20))) + " TiB" }

func wattText(watts float64) string {
	switch {
	case watts < 1000:
		return whole(watts) + " W"
	case watts < 1e6:
		return tenth(watts/1000) + " kW"
	}
	return tenth(watts/1e6) + " MW"
}

// grouped puts commas into a whole number.
func grouped(digits string) string {
	text := ""
	for len(digits) > 3 {
		text = "," + digits[len(digits)-3:] + text
		digits = digits[:len(digits)-3]
	}
	return digits + text
}

// Many writes a number for people.
func Many(n int) string { return grouped(strconv.Itoa(n)) }

// groupedPoint is grouped for a number that has a point.
func groupedPoint(text string) string {
	digits, rest, _ := strings.Cut(text, ".")
	return grouped(digits) + "." + rest
}

// hundredth has two digits after the point, as money has.
func hundredth(v float64) string {
	return groupedPoint(strconv.FormatFloat(math.Floor(v*100+0.5)/100, 'f', 2, 64))
}
