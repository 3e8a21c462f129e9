package zoo

// absence lists the ids of known bugs that the zoo does not have: the library lacks the features that they would break,
// or they are still to be written.
type absence struct {
	ids     []string
	because string
}

var absences = []absence{
	{[]string{"P04"}, "it is B09: a start that does not finish an interrupted installation"},
	{[]string{"Q05–Q11"}, "there are no leases yet: every read is confirmed by a quorum"},
	{[]string{"C01–C04", "P06"}, "there are no sessions yet"},
	{[]string{"D04", "D07", "D10", "D16"}, "the store is bbolt: it has no segments, and its writes are transactions"},
	{[]string{"D17"}, "a node serves only once its log is loaded"},
	{[]string{"X04"}, "messages are one-way: no reply is paired with a request by its order"},
}
