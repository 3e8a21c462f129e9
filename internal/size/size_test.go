package size_test

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft/internal/size"
)

func TestFormat_IsShort(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 512: "512 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 99 << 10: "99.0 KiB", 412 << 20: "412 MiB",
		1 << 30: "1.0 GiB", 5000 << 30: "5000 GiB",
	} {
		assert.Equal(t, want, size.Format(bytes))
	}
}

func TestParse_TakesUnits(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "4096": 4096, "7B": 7, "64KiB": 64 << 10, " 16 MiB ": 16 << 20, "1GiB": 1 << 30} {
		got, err := size.Parse(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "x", "-1", "1.5GiB", "1MB", "1mib", "MiB", "99999999999GiB", "9223372036854775808", "1 2"} {
		_, err := size.Parse(text)
		assert.ErrorContains(t, err, "as in 4096", text)
	}
}

func TestVar_ShowsItsDefaultWithItsUnit(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	tail, none := 16<<20, 0
	size.Var(flags, &tail, "tail", "the tail")
	size.Var(flags, &none, "none", "none")
	assert.Contains(t, flags.FlagUsages(), "--tail bytes   the tail (default 16MiB)")
	assert.NotContains(t, flags.FlagUsages(), "(default 0")
	require.NoError(t, flags.Parse([]string{"--tail", "1KiB"}))
	assert.Equal(t, 1024, tail)
	assert.Error(t, flags.Parse([]string{"--tail", "much"}))
}
