// Package sku names kinds of slots.
//
// A SKU is a function of what a slot is: the model of its GPUs, its shape and its size. It is computed whenever it is asked for. No SKU is
// stored, and no SKU decides anything by itself.
package sku

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"muster/gateway/api"
)

// What stands for the model of a slot whose GPUs are of several models, and for the part of a node with a divided GPU.
const (
	ModelMixed  = "mixed"
	PartDivided = "mig"
)

// Kind is what a SKU's name says.
type Kind struct {
	Model string
	Shape string // of the Shapes of slots
	GPUs  int    // of one slot
	Part  string // of a divided GPU, such as 1g-10gb; of a node PartDivided, if a GPU of it is divided; empty: whole GPUs
}

// Of names the kind of a slot: h100-sxm-gpu, h100-sxm-mig-1g-10gb, h200-sxm-slice, h200-sxm-slice-2g, h200-sxm-baremetal-8g. The part of
// a divided GPU is its profile, such as 1g.10gb.
func Of(model, shape string, gpus int, part string) string {
	switch {
	case shape == api.ShapeNode && part != "":
		return fmt.Sprintf("%s-baremetal-%dg-mig", model, gpus)
	case shape == api.ShapeNode:
		return fmt.Sprintf("%s-baremetal-%dg", model, gpus)
	case shape == api.ShapeVM && gpus == 1:
		return model + "-slice"
	case shape == api.ShapeVM:
		return fmt.Sprintf("%s-slice-%dg", model, gpus)
	case part != "":
		return model + "-mig-" + spell(part)
	}
	return model + "-gpu"
}

// spell writes a profile of MIG with dashes alone.
func spell(part string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(part), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-")
}

// Parse reads the name of a SKU. It returns false for a name that Of would not write.
func Parse(name string) (Kind, bool) {
	kind := Kind{Shape: api.ShapeGPU, GPUs: 1}
	rest, divided := strings.CutSuffix(name, "-mig")
	at := strings.LastIndex(rest, "-")
	size, isSized := strings.CutSuffix(rest[max(at, 0):], "g")
	gpus, _ := strconv.Atoi(strings.TrimPrefix(size, "-"))
	switch {
	case isSized && strings.HasSuffix(rest[:max(at, 0)], "-baremetal"):
		kind.Model, kind.Shape, kind.GPUs = strings.TrimSuffix(rest[:at], "-baremetal"), api.ShapeNode, gpus
		if divided {
			kind.Part = PartDivided
		}
	case isSized && strings.HasSuffix(rest[:max(at, 0)], "-slice"):
		kind.Model, kind.Shape, kind.GPUs = strings.TrimSuffix(rest[:at], "-slice"), api.ShapeVM, gpus
	case strings.HasSuffix(name, "-slice"):
		kind.Model, kind.Shape = strings.TrimSuffix(name, "-slice"), api.ShapeVM
	case strings.HasSuffix(name, "-gpu"):
		kind.Model = strings.TrimSuffix(name, "-gpu")
	default:
		at := max(strings.LastIndex(name, "-mig-"), 0)
		kind.Model, kind.Part = name[:at], strings.TrimPrefix(name[at:], "-mig-")
	}
	return kind, kind.Model != "" && Of(kind.Model, kind.Shape, kind.GPUs, kind.Part) == name
}

// Rules says what a slot of this name is, in one line for each fact.
func Rules(name string) []string {
	kind, ok := Parse(name)
	if !ok {
		return []string{"a SKU's name is MODEL-gpu, MODEL-mig-PROFILE, MODEL-slice, MODEL-slice-Ng or MODEL-baremetal-Ng"}
	}
	what := fmt.Sprintf("%d GPUs", kind.GPUs)
	switch {
	case kind.Shape == api.ShapeGPU && kind.Part != "":
		what = "one part " + kind.Part + " of a divided GPU"
	case kind.GPUs == 1:
		what = "one GPU"
	}
	rules := []string{what + " of model " + kind.Model}
	switch kind.Shape {
	case api.ShapeNode:
		rules = append(rules, "all GPUs of the node, and nothing else on it", "a profile that gives slots of shape node")
	case api.ShapeVM:
		rules = append(rules, "linked with each other, for one virtual machine", "a profile that gives slots of shape vm and of this size")
	default:
		rules = append(rules, "on the machine itself, beside others", "a profile that gives slots of shape gpu")
	}
	if kind.Shape == api.ShapeNode && kind.Part != "" {
		rules = append(rules, "one GPU or more is divided")
	}
	return rules
}

// mostNearest is how many names Nearest gives.
const mostNearest = 3

// Nearest returns the names that are most like a name that does not exist, at most three. The names may be those of models too.
func Nearest(name string, all []string) []string {
	names := slices.Compact(slices.Sorted(slices.Values(all)))
	far := map[string]int{}
	for _, other := range names {
		far[other] = distance(name, other)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(far[a], far[b]) })
	return names[:min(len(names), mostNearest)]
}

// distance counts what differs: the chip weighs most, then its board, then the shape, then the size. Letters decide among the rest.
func distance(a, b string) int {
	x, _ := Parse(a)
	y, _ := Parse(b)
	x.Model, y.Model = cmp.Or(x.Model, a), cmp.Or(y.Model, b)
	far := min(letters(a, b), 99)
	if x.Model != y.Model {
		far += 200 + 100*min(letters(chip(x.Model), chip(y.Model)), 9)
	}
	if x.Shape != y.Shape {
		far += 200
	}
	return far + min(max(x.GPUs-y.GPUs, y.GPUs-x.GPUs), 19)*10
}

// chip is the part of a model that says most: h100 of h100-sxm, 4090 of rtx-4090.
func chip(model string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(model, "rtx-"), "-")
	return first
}

// longest is up to where letters looks at a name, in bytes: what somebody asks for may be long.
const longest = 80

// letters is how many letters have to change for a to become b (Levenshtein).
func letters(a, b string) int {
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before, row[j+1] = row[j+1], min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
