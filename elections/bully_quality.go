package elections

// bullyQuality ranks members by the quality of their hosts first.
var bullyQuality = &Algorithm{
	Name:  "bully-quality",
	Title: "Bully, quality before rank",
	Source: "The usual cure for the bully's endless re-election: a measure of the host's quality is part " +
		"of the rank; here in the three steps of Kordafshari et al., 2005",
	Assumes: "What the bully in three steps assumes, and a disk that keeps one number: how good the host " +
		"has been.",
	Guarantees: "While that holds, the best host that lives is the one leader, the highest rank of equal " +
		"ones, and a member that comes and goes displaces nobody once its quality is below that of the " +
		"leader; otherwise nothing: each part of a partition has a leader.",
	InCore: []*CorePart{coreMajority, coreStickiness, coreRank, coreTakeover, coreBackOff},
	Leaves: "Ranks that a host loses for ever: a back-off ends, and a member without priority displaces nobody, so " +
		"one that flaps costs an election only when it leads.",
	Choices: []string{
		"The quality is 100 at first (`--qualities`), and each restart of the process takes 10 from it, " +
			"down to 0; nothing restores it, since a run is short.",
		"Nobody knows the present quality of another: ELECTION, which carries the sender's, goes to all, " +
			"and only a better member answers, with its own.",
		"For the same reason the highest rank no longer leads at once: it asks, too, and ELECTED goes to all.",
		seatChoice,
	},
	Qualities: true,
	New:       func(o Options) Machine { return &qualityBully{threeStep{qualities: true, quality: o.Quality()}} },
}

// A host's quality ranges from QualityMin to QualityMax.
const (
	qualityRestart = 10 // subtracted at each restart
	qualityBytes   = 1  // of a quality in a message
)

// qualityMessage is a message of the bully in three steps with its sender's quality.
type qualityMessage struct {
	signal
	quality int
}

func (qualityMessage) Bytes() int { return HeaderBytes + qualityBytes }

// qualityBully is one member of the bully in three steps that compares qualities.
type qualityBully struct{ threeStep }

// Start begins an election, because an election starts at initialisation. If the process finds a quality on its disk, it has
// run before and failed. Start then lowers the quality by which the member is ranked.
func (b *qualityBully) Start(e *Env) {
	if kept, again := e.Stored().(int); again {
		b.quality = max(kept-qualityRestart, QualityMin)
	}
	e.Keep(b.quality)
	b.elect(e)
}
