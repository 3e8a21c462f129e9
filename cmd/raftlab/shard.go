package main

import (
	"fmt"
	"regexp"
	"strconv"
)

// shardsMax is the largest number of shards of a campaign.
const shardsMax = 4096

// part is a range of the seeds of a campaign, which are numbered from 0. The zero value is no part.
type part struct {
	From int `json:"from"`
	To   int `json:"to"` // after the last seed
	Of   int `json:"of"` // seeds of the campaign
}

var shardText = regexp.MustCompile(`^([0-9]{1,6})/([0-9]{1,6})$`)

// parseShard returns the range of --shard, such as "3/16". The shards of a campaign are its ranges of equal size, so that each
// shard runs all profiles.
func parseShard(text string, seeds int) (part, error) {
	numbers := shardText.FindStringSubmatch(text)
	if numbers == nil {
		return part{}, fmt.Errorf("--shard %q: it takes a number and the number of shards, such as 3/16", text)
	}
	n, _ := strconv.Atoi(numbers[1]) // at most six digits
	of, _ := strconv.Atoi(numbers[2])
	switch {
	case of < 1 || of > shardsMax:
		return part{}, fmt.Errorf("--shard %s: there can be 1 to %d shards", text, shardsMax)
	case n < 1 || n > of:
		return part{}, fmt.Errorf("--shard %s: the shards are 1/%d to %d/%d", text, of, of, of)
	case of > seeds:
		return part{}, fmt.Errorf("--shard %s: %d seeds are too few for %d shards", text, seeds, of)
	}
	return part{From: (n - 1) * seeds / of, To: n * seeds / of, Of: seeds}, nil
}

func (p part) seeds() int { return p.To - p.From }

func (p part) String() string { return fmt.Sprintf("seeds %d to %d of %d", p.From, p.To-1, p.Of) }
