package elections

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/coxswain/raft"
)

// ruleRunesMax is the number of characters for which a row of a diagram has room, beside another diagram.
const ruleRunesMax = 62

// speaker is a word by which the member that acts speaks of itself.
var speaker = regexp.MustCompile(`\b(I|me|my|My|mine|myself|We)\b`)

// In all variants the member that acts says the rule itself, in one sentence that fits into a row.
func TestRules_AreSaidInOneVoice(t *testing.T) {
	sentences := rulesInSource(t)
	for _, sentence := range raftRules {
		sentences = append(sentences, sentence)
	}
	for _, body := range []raft.Body{
		raft.PreVoteRequest{}, raft.PreVoteReply{}, raft.VoteRequest{}, raft.VoteReply{}, raft.Heartbeat{}, raft.HeartbeatReply{},
		raft.AppendRequest{}, raft.AppendReply{}, raft.AppendConflict{}, nil,
	} {
		sentences = append(sentences, raftReceived(body))
	}
	require.Greater(t, len(sentences), 100)
	for _, sentence := range sentences {
		assert.Regexp(t, speaker, sentence)
		assert.LessOrEqual(t, utf8.RuneCountInString(sentence), ruleRunesMax, sentence)
		assert.Equal(t, len(sentence)-1, strings.Index(sentence, "."), "one sentence: %s", sentence)
	}
}

// rulesInSource is what the algorithms give to Rule as a constant.
func rulesInSource(t *testing.T) (sentences []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	call := regexp.MustCompile(`\.Rule\("(.*)"\)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range call.FindAllSubmatch(text, -1) {
			sentences = append(sentences, string(found[1]))
		}
	}
	return sentences
}
