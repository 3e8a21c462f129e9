package fuzzy

import (
	"fmt"
	"strconv"
	"strings"
)

// SeedFormat is the version of the meaning of seeds. It is raised by every change that makes an old seed stand for another
// run.
const SeedFormat = 10

// Seed names one run.
type Seed struct {
	Profile string
	Number  uint64
}

// String returns the form that ParseSeed reads: "f10.swarm.2a".
func (s Seed) String() string { return fmt.Sprintf("f%d.%s.%x", SeedFormat, s.Profile, s.Number) }

// ParseSeed reads a seed, or the name of a directed scenario such as "scenario:figure-8-d". A number may follow the name:
// "scenario:figure-8-d.3". ParseSeed rejects a seed of another format version, because that seed would stand for another run
// here.
func ParseSeed(text string) (Seed, error) {
	if strings.HasPrefix(text, ScenarioPrefix) {
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		text = fmt.Sprintf("f%d.%s", SeedFormat, text)
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 || !strings.HasPrefix(parts[0], "f") {
		return Seed{}, fmt.Errorf("fuzzy: %q is not a seed; seeds look like f%d.swarm.2a", text, SeedFormat)
	}
	version, err := strconv.Atoi(parts[0][1:])
	if err != nil || parts[0] != fmt.Sprintf("f%d", version) {
		return Seed{}, fmt.Errorf("fuzzy: %q is not a seed; seeds look like f%d.swarm.2a", text, SeedFormat)
	}
	if version != SeedFormat {
		return Seed{}, fmt.Errorf("fuzzy: seed %q is of format %d, and this program draws format %d: check out the commit that found it",
			text, version, SeedFormat)
	}
	number, err := strconv.ParseUint(parts[2], 16, 64)
	if err != nil {
		return Seed{}, fmt.Errorf("fuzzy: seed %q: %q is not a hexadecimal number of 64 bits", text, parts[2])
	}
	s := Seed{parts[1], number}
	if s.Profile == ApplicationProfile {
		return s, nil
	}
	if _, err := Draw(s); err != nil {
		return Seed{}, err
	}
	return s, nil
}
