package main

const (
	two        = "12,12"
	twoSpare   = "12,12,12"
	three      = "123,123,123"
	threeSpare = "123,123,123,123"
	four       = "1234,1234,1234,1234"
)

// cases are the rules as they are.
var cases = []kase{
	{name: "two", lists: two, seeds: two, wipes: 4, lies: 2, maxLog: 2, vers: 2},
	{name: "two and a spare", lists: twoSpare, seeds: three, wipes: 3, maxLog: 4, vers: 1},
	{name: "two and a spare, lies", lists: twoSpare, seeds: three, wipes: 2, lies: 2, maxLog: 3, vers: 1},
	{name: "two and a spare that one seed reaches", lists: twoSpare, seeds: "1,13,1", wipes: 3, maxLog: 4, vers: 1},
	{name: "two and a spare that no seed reaches", lists: twoSpare, seeds: "1,1,1", wipes: 3, maxLog: 4, vers: 1},
	{name: "two and two spares", lists: "12,12,12,12", seeds: "13,14,1,1", wipes: 2, maxLog: 3, vers: 0},
	{name: "three, nothing fails", lists: three, seeds: "3,1,2", maxLog: 3, vers: 2},
	{name: "two and a spare, nothing fails", lists: twoSpare, seeds: "2,3,1", maxLog: 5, vers: 2},
	{name: "three and a spare, nothing fails", lists: threeSpare, seeds: "3,1,4,2", maxLog: 4, vers: 2},
	{name: "four, nothing fails", lists: four, seeds: "2,3,4,1", maxLog: 3, vers: 2},
	{name: "three", lists: three, seeds: three, wipes: 3, lies: 1, maxLog: 2, vers: 1},
	{name: "three, half of the seeds", lists: three, seeds: "2,3,3", wipes: 3, maxLog: 2, vers: 1},
	{name: "three, one without an address", lists: three, seeds: "2,1,3", wipes: 1, maxLog: 2, vers: 1, finds: never},
	{name: "three, unequal lists", lists: "123,123,23", seeds: three, wipes: 1, maxLog: 2, vers: 1, finds: never},
	{name: "three, one restarts with another list", lists: threeSpare, alt: ",,34,34", seeds: four, wipes: 1, maxLog: 2, vers: 0},
	{name: "three and a spare", lists: threeSpare, seeds: four, wipes: 2, maxLog: 3, vers: 1},
	{name: "three and a spare, three wipes", lists: threeSpare, seeds: "14,14,14,1", wipes: 3, maxLog: 3, vers: 0},
	{name: "four", lists: four, seeds: four, wipes: 2, maxLog: 2, vers: 1},
}

// mutants are the rules with one of them broken.
var mutants = []kase{
	{broken: "expect", name: "two of four", lists: ",,,", seeds: four, expect: 2, maxLog: 2, finds: "S1"},
	{broken: "expect", name: "three of four", lists: ",,,", seeds: four, expect: 3, wipes: 2, maxLog: 2, finds: "S1"},
	{broken: "spare", lists: twoSpare, seeds: three, maxLog: 2, finds: "S1"},
	{broken: "majority", lists: three, seeds: three, wipes: 1, maxLog: 2, finds: "S1"},
	{broken: "nohold", lists: three, seeds: three, wipes: 2, maxLog: 2, finds: "S1"},
	{broken: "noterm0", lists: three, seeds: three, wipes: 2, maxLog: 2, finds: "S"},
	{broken: "lateredo", lists: three, seeds: three, wipes: 1, maxLog: 2, vers: 1, finds: "S"},
	{broken: "noredo", lists: two, seeds: two, wipes: 1, maxLog: 2, vers: 1, finds: "stuck for good: own entry 1"},
	{broken: "anyid", lists: twoSpare, seeds: three, wipes: 1, maxLog: 2, finds: "S1"},
	{broken: "noinc", lists: three, seeds: three, wipes: 3, maxLog: 2, vers: 1, finds: "S"},
	{broken: "anylist", lists: "12,123,123", seeds: three, maxLog: 2, finds: "S5"},
	{broken: "nolatch", lists: twoSpare, seeds: "123,12,12", wipes: 2, maxLog: 3, finds: "S4"},
	{broken: "toldanswers", lists: twoSpare, seeds: "12,123,12", wipes: 2, maxLog: 3, finds: "S4"},
	{broken: "eager", lists: twoSpare, seeds: three, wipes: 2, maxLog: 3, finds: "S4"},
	{broken: "whocounts", lists: twoSpare, seeds: "12,123,12", wipes: 2, maxLog: 3, finds: "S4"},
	{broken: "told0", lists: three, seeds: three, wipes: 1, maxLog: 2, vers: 1, finds: "stuck for good: own entry 1"},
	{broken: "latchheld", lists: two, seeds: two, wipes: 2, maxLog: 2, vers: 1, finds: more},
	{broken: "rumour", lists: two, seeds: two, lies: 1, maxLog: 2, vers: 1, finds: "stuck for good: all uninitialized"},
	{broken: "durable", lists: two, seeds: two, lies: 1, maxLog: 2, vers: 1, finds: "stuck for good: all uninitialized"},
	{broken: "refusehold", lists: three, seeds: three, wipes: 2, lies: 1, maxLog: 2, finds: more},
	{broken: "stale", lists: three, seeds: three, wipes: 3, maxLog: 2, vers: 1, finds: more},
}
