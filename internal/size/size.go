// Package size parses and formats numbers of bytes with their unit.
package size

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// units are in descending order.
var units = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// Format formats a number of bytes with three or four digits: "512 B", "1.5 MiB", "412 MiB".
func Format(bytes int64) string {
	for _, u := range units {
		if bytes < u.bytes && u.bytes > 1 {
			continue
		}
		if value := float64(bytes) / float64(u.bytes); u.bytes > 1 && value < 100 {
			return fmt.Sprintf("%.1f %s", value, u.name)
		}
		return fmt.Sprintf("%d %s", bytes/u.bytes, u.name)
	}
	return "" // every number has the last unit
}

// Parse parses a whole number of bytes with or without a unit: "4096", "64KiB", "16 MiB", "1GiB".
func Parse(text string) (int, error) {
	digits, factor := strings.TrimSpace(text), int64(1)
	for _, u := range units {
		if before, found := strings.CutSuffix(digits, u.name); found {
			digits, factor = strings.TrimSpace(before), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt/factor {
		return 0, fmt.Errorf("%q is not a number of bytes; write it as in 4096, 64KiB, 16MiB or 1GiB", text)
	}
	return int(n * factor), nil
}

// Var adds a flag that takes a number of bytes. *at holds its default.
func Var(flags *pflag.FlagSet, at *int, name, usage string) { flags.Var((*value)(at), name, usage) }

type value int

func (v *value) String() string {
	for _, u := range units {
		if n := int64(*v); n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return "0"
}

func (v *value) Set(text string) error {
	n, err := Parse(text)
	*v = value(n)
	return err
}

// Type returns the name of the type. From this name, usage.Flag derives a description of the values.
func (v *value) Type() string { return "bytes" }
