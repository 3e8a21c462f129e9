package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A run is disturbed if others use more CPU time than this during the run. The unit is the share of one core.
const (
	othersMax = 0.25 // other programs
	stolenMax = 0.15 // other machines on the same hardware
)

// machineUse is the CPU time that the machine has used.
type machineUse struct {
	at                 time.Time
	busy, stolen, ours time.Duration
	kernel             time.Duration // used by kernel threads, which write for us
}

// jiffy is the unit of /proc/stat.
const jiffy = 10 * time.Millisecond

// useNow reads the counters. The field ours includes all child processes that have ended.
func useNow() (machineUse, error) {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return machineUse{}, err
	}
	defer file.Close()
	line, err := bufio.NewReader(file).ReadString('\n')
	if err != nil {
		return machineUse{}, err
	}
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal
	if len(fields) < 9 {
		return machineUse{}, fmt.Errorf("/proc/stat begins with %q", line)
	}
	spent := func(i int) time.Duration {
		n, _ := strconv.ParseInt(fields[i], 10, 64) // the kernel's
		return time.Duration(n) * jiffy
	}
	use := machineUse{at: time.Now(), busy: spent(1) + spent(2) + spent(3), stolen: spent(8), kernel: kernelThreads()}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if err := syscall.Getrusage(who, &r); err != nil {
			return machineUse{}, err
		}
		use.ours += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return use, nil
}

// Positions of fields in /proc/PID/stat. Position 0 is the field after the process name, which is in parentheses.
const (
	statFlags, statUser, statSystem = 6, 11, 12
	kernelThread                    = 0x00200000 // PF_KTHREAD, a flag
)

// kernelThreads returns the CPU time of the present kernel threads.
func kernelThreads() (sum time.Duration) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) <= statSystem {
			continue
		}
		var spent [3]int64
		for i, field := range []int{statFlags, statUser, statSystem} {
			spent[i], _ = strconv.ParseInt(fields[field], 10, 64) // the kernel's
		}
		if spent[0]&kernelThread != 0 {
			sum += time.Duration(spent[1]+spent[2]) * jiffy
		}
	}
	return sum
}

// disturbance is the CPU time that others used during a run, in shares of one core.
type disturbance struct {
	Others float64 `json:"others"`
	Stolen float64 `json:"stolen"`
}

func (u machineUse) since(before machineUse) disturbance {
	took := u.at.Sub(before.at).Seconds()
	others := (u.busy - before.busy) - (u.ours - before.ours) - (u.kernel - before.kernel)
	return disturbance{max(0, others.Seconds()) / took, (u.stolen - before.stolen).Seconds() / took}
}

func (d disturbance) tooMuch() bool { return d.Others > othersMax || d.Stolen > stolenMax }
