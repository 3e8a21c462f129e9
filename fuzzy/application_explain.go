package fuzzy

import (
	"context"
	"strings"
)

// hazard is something that a run does to a state machine, and that the contract of raft.FSM allows.
type hazard uint

const (
	overwritesEntries hazard = 1 << iota
	overwritesAnswers
	appliesBatches
	writesLate
	restoresOver
	readsPieces
	restoresAtAll
	takesSnapshots // without which there are none to restore
)

// remedies lists hazards, each with a text. If a seed passes without a hazard, the hazard's text says what is wrong with the
// state machine.
var remedies = []struct {
	hazard hazard
	text   string
}{
	{overwritesEntries, "the seed passes if nobody overwrites the bytes of commands after Apply: the state machine keeps them, and must copy them"},
	{overwritesAnswers, "the seed passes if nobody changes an answer after Apply: the answer shares bytes with the state, and must be a copy"},
	{appliesBatches, "the seed passes if each Apply gets one command: answers or state depend on how commands are cut into batches"},
	{writesLate, "the seed passes if WriteTo runs before the next Apply: what Snapshot returns is not frozen"},
	{restoresOver, "the seed passes if Restore is only called on new state machines: it does not replace the whole state"},
	{readsPieces, "the seed passes if each Read of Restore returns all bytes: use io.ReadFull, since a reader may return fewer"},
	{restoresAtAll, "the seed passes if all commands are applied instead of each Restore: the snapshot does not hold the whole state"},
	{takesSnapshots | restoresAtAll, "the seed passes if no snapshot is taken: Snapshot, WriteTo or Close changes the state"},
}

// Explain returns what is known about the cause of a failure. It also returns the story of the smallest run that it finds
// with the same failure. It searches until the context ends.
func (a *Application) Explain(ctx context.Context, number uint64, failed *Failure) (causes, story []string) {
	if failed.Rule == "A4" {
		return nil, nil // the failure's text says it, and a single run cannot fail like this
	}
	c := a.newCase(number)
	for range repetitions {
		if again := c.run(edits{}, nil).Failure; again == nil || again.first() != failed.first() {
			return []string{"the seed does not fail in the same way every time: the state machine depends on something besides the log, " +
				"such as the time, a random number, or the order of a map"}, nil
		}
	}
	if failed.Rule != "A6" { // the text of A6 says it
		causes = a.causes(number)
	}
	shrunk, err := Shrink(ctx, c, ShrinkOptions{})
	if err != nil {
		return causes, nil
	}
	return causes, shrunk.Case.Story
}

// repetitions is the number of times that a failed seed is run again. One repetition is not enough: a map of two keys has the
// same order in every second run.
const repetitions = 4

// causes returns the texts of the hazards without which a seed passes.
func (a *Application) causes(number uint64) (causes []string) {
	for _, r := range remedies {
		if r.hazard&restoresAtAll != 0 && len(causes) > 0 {
			break // this hazard explains the failure
		}
		if a.passes(number, r.hazard) {
			causes = append(causes, r.text)
		}
	}
	return causes
}

// confirmations is the number of further seeds that must pass without a hazard, because a single seed may pass by chance.
const confirmations = 8

// passes reports whether a seed and the following ones pass without a hazard.
func (a *Application) passes(number uint64, without hazard) bool {
	spared := *a
	spared.spared = without
	for i := range uint64(1 + confirmations) {
		c := spared.newCase(number + i)
		if failed := c.run(edits{}, nil).Failure; failed != nil && strings.HasPrefix(failed.Rule, "A") {
			return false
		}
	}
	return true
}

// first returns the rule and the first line of the failure's text.
func (f *Failure) first() string {
	line, _, _ := strings.Cut(f.Text, "\n")
	return f.Rule + " " + line
}
