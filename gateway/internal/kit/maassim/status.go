package maassim

import (
	"fmt"
	"slices"
	"time"
)

// Statuses that the simulator itself moves machines to.
const (
	fresh           = 0
	commissioning   = 1
	failedCommis    = 2
	ready           = 4
	deployed        = 6
	broken          = 8
	deploying       = 9
	allocated       = 10
	failedDeploy    = 11
	releasing       = 12
	failedReleasing = 13
	erasing         = 14
	failedErasing   = 15
	rescue          = 16
	enteringRescue  = 17
	testing         = 21
	failedTesting   = 22
)

// statusNames are MAAS's display names, by number.
var statusNames = [...]string{
	"New", "Commissioning", "Failed commissioning", "Missing", "Ready", "Reserved", "Deployed", "Retired", "Broken",
	"Deploying", "Allocated", "Failed deployment", "Releasing", "Releasing failed", "Disk erasing", "Failed disk erasing",
	"Rescue mode", "Entering rescue mode", "Failed to enter rescue mode", "Exiting rescue mode",
	"Failed to exit rescue mode", "Testing", "Failed testing",
}

// statusWords are the words of filters, by number.
var statusWords = [...]string{
	"new", "commissioning", "failed_commissioning", "missing", "ready", "reserved", "deployed", "retired", "broken",
	"deploying", "allocated", "failed_deployment", "releasing", "failed_releasing", "disk_erasing", "failed_disk_erasing",
	"rescue_mode", "entering_rescue_mode", "failed_entering_rescue_mode", "exiting_rescue_mode",
	"failed_exiting_rescue_mode", "testing", "failed_testing",
}

// transitions are what MAAS lets follow each status.
var transitions = [...][]int{
	{1, 3, 4, 7, 8, 17, 21},
	{0, 2, 3, 4, 7, 8, 21},
	{1, 3, 7, 8, 17, 21},
	{0, 1, 4, 8, 10, 17, 21},
	{1, 3, 5, 7, 8, 10, 17, 21},
	{3, 4, 7, 8, 10, 12, 14, 17, 21},
	{3, 4, 8, 10, 12, 14, 17, 21},
	{0, 3, 4, 8, 17, 21},
	{1, 4, 6, 12, 14, 17, 21},
	{3, 4, 6, 8, 10, 11, 12, 14},
	{3, 4, 7, 8, 9, 12, 14, 17, 21},
	{3, 4, 8, 10, 12, 14, 17, 21},
	{0, 3, 4, 5, 6, 8, 10, 11, 13, 15},
	{4, 8, 12, 14, 21},
	{4, 8, 12, 15},
	{4, 8, 10, 12, 14, 17, 21},
	{8, 19, 21},
	{4, 6, 8, 16, 18, 19},
	{8, 17, 19, 21},
	{0, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 15, 16, 18, 20, 22},
	{8, 19, 21},
	{0, 1, 3, 4, 5, 6, 7, 8, 10, 11, 13, 15, 18, 20, 22},
	{1, 3, 4, 6, 8, 17, 21},
}

// releasable are the statuses from which a release does something.
var releasable = []int{5, deployed, broken, deploying, allocated, failedDeploy, failedReleasing, failedErasing}

// move gives a machine another status. A transition that MAAS does not have is a fault of the simulator.
func (s *Sim) move(m *Machine, to int, at time.Time) {
	if !m.allows(to) {
		panic(m.invalid(to))
	}
	s.force(m, to, at)
}

func (m *Machine) allows(to int) bool {
	return m.Status == to || slices.Contains(transitions[m.Status], to)
}

// invalid is MAAS's refusal of a transition.
func (m *Machine) invalid(to int) string {
	return fmt.Sprintf("Invalid transition: %s -> %s.", statusNames[m.Status], statusNames[to])
}

// force is move for what people do to MAAS's database.
func (s *Sim) force(m *Machine, to int, at time.Time) {
	text := fmt.Sprintf("From '%s' to '%s'", statusNames[m.Status], statusNames[to])
	if to == allocated {
		text += " (to " + m.Owner + ")"
	}
	s.tell(m, "DEBUG", "Node changed status", text, at)
	m.previous, m.Status, m.Since = m.Status, to, at
}

// order has the machine's power control switch it. It is false where that does not answer.
func (s *Sim) order(m *Machine, to string) bool {
	if m.PowerType == "manual" {
		return true // a person does it
	}
	m.switching, m.switchAt = to, s.config.Now().Add(s.config.Power)
	return !m.BMCAway
}

// tick does what the clock says.
func (s *Sim) tick() {
	now := s.config.Now()
	for _, m := range s.machines {
		for range 10 { // what ends may begin what has ended by now too
			before := m.Status
			if s.step(m, now); before == m.Status {
				break
			}
		}
	}
	for _, t := range s.tags {
		s.recompute(t, now)
	}
	for nonce, at := range s.nonces {
		if now.Sub(at) > sweepNonces {
			delete(s.nonces, nonce)
		}
	}
}

// step does one step of a machine's life.
func (s *Sim) step(m *Machine, now time.Time) {
	s.powerStep(m, now)
	after := func(d time.Duration) bool { return !now.Before(m.Since.Add(d)) }
	begun, runs := m.begun()
	worked := func(d time.Duration) bool { return runs && !now.Before(begun.Add(d)) }
	switch m.Status {
	case commissioning:
		switch {
		case worked(s.config.Commission):
			s.commissioned(m, !m.Fails, begun.Add(s.config.Commission))
		case after(nodeTimeout):
			s.commissioned(m, false, m.Since.Add(nodeTimeout))
		}
	case deploying:
		switch {
		case s.config.OnBoot != nil && worked(s.config.Install):
			s.booted = append(s.booted, boot{userData: s.fetch(m, begun.Add(s.config.Install)), machine: m.copy()})
		case after(deployTimeout):
			m.Error = "time-out during deployment"
			s.move(m, failedDeploy, m.Since.Add(deployTimeout))
		}
	case erasing:
		if worked(s.config.Erase) {
			s.erased(m, begun.Add(s.config.Erase))
		}
	case releasing:
		switch {
		case m.Seen == off && m.switching == "":
			s.finish(m, now)
		case after(releaseTimeout):
			s.move(m, failedReleasing, m.Since.Add(releaseTimeout))
		}
	case enteringRescue:
		if worked(s.config.Commission) {
			s.move(m, rescue, begun.Add(s.config.Commission))
		}
	case testing:
		if after(nodeTimeout) {
			s.move(m, failedTesting, m.Since.Add(nodeTimeout))
		}
	}
}

// begun is since when a machine runs what MAAS gave it for its status; false: it does not.
func (m *Machine) begun() (time.Time, bool) {
	if m.Hangs || m.Power != on || m.switching != "" {
		return time.Time{}, false
	}
	if m.PowerType == "manual" {
		return m.Since, true
	}
	return m.onAt, !m.onAt.Before(m.Since)
}

// powerStep ends a switching that is due, and has MAAS look at the power from time to time.
func (s *Sim) powerStep(m *Machine, now time.Time) {
	if m.switching != "" && !now.Before(m.switchAt) {
		switch {
		case !m.BMCAway:
			m.Power, m.Seen, m.seenAt = m.switching, m.switching, m.switchAt
			if m.switching == on {
				m.onAt = m.switchAt
			}
		case m.Status == deploying:
			m.Error = "Failed to power on the machine"
			s.move(m, failedDeploy, m.switchAt)
		}
		m.switching = ""
	}
	if now.Sub(m.seenAt) >= pollPower {
		s.look(m, now)
	}
}

// look has MAAS ask the machine's power control.
func (s *Sim) look(m *Machine, now time.Time) {
	m.seenAt = now
	switch {
	case m.PowerType == "manual":
		m.Seen = "unknown"
	case m.BMCAway:
		m.Seen = "error"
	default:
		m.Seen = m.Power
	}
}

// commissioned ends a commissioning. The machine is nobody's afterwards.
func (s *Sim) commissioned(m *Machine, passed bool, at time.Time) {
	to := failedCommis
	if passed {
		to = ready
	}
	m.Passed, m.Owner = passed, ""
	s.move(m, to, at)
	s.order(m, off)
}

// fetch gives the user data to the installed system.
func (s *Sim) fetch(m *Machine, at time.Time) []byte {
	if m.Status == deploying {
		s.move(m, deployed, at)
	}
	return m.userData()
}

// erased ends an erasure.
func (s *Sim) erased(m *Machine, at time.Time) {
	if m.Fails {
		s.move(m, failedErasing, at)
		return
	}
	m.Erased = m.toErase
	s.move(m, releasing, at)
	s.order(m, off)
}

// finish ends a release: everything that was of the owner goes.
func (s *Sim) finish(m *Machine, at time.Time) {
	to := fresh
	if m.Passed {
		to = ready
	}
	s.move(m, to, at)
	m.Owner, m.OwnerData, m.AgentName, m.OSystem, m.Series, m.UserData, m.Error = "", nil, "", "", "", "", ""
	m.Ephemeral, m.HWSync, m.Locked = false, false, false
}
