package zoo

// absence lists the ids of known bugs that the zoo does not have. Either the library lacks the feature that the bug would
// break, or another mutant covers the bug.
type absence struct {
	ids     []string
	because string
}

var absences = []absence{
	{[]string{"P04"}, "it is B09: a start that does not finish an interrupted installation"},
	{[]string{"C01–C04", "P06"}, "there are no sessions yet"},
	{[]string{"D04"}, "it is U24: a segment is begun before the one before it is synced"},
	{[]string{"D07"}, "it is U19: the rest of an interrupted write follows what a later process has written"},
	{[]string{"D10"}, "it is U13: all uses of a file have the same salt"},
	{[]string{"D16"}, "a segment has its room before it is written to (U37), and a node ends when a write fails"},
	{[]string{"D17"}, "a node serves only once its log is loaded"},
	{[]string{"X04"}, "messages are one-way: no reply is paired with a request by its order"},
}
