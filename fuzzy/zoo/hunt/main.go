// Command hunt runs seeds of the simulator until one fails, in a build that package zoo has patched, and
// prints a zoo.Find as JSON.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coxswain/raft/fuzzy"
	"github.com/coxswain/raft/fuzzy/zoo"
)

func main() {
	profiles := flag.String("profiles", "", "of the simulator, each in turn")
	first := flag.Uint64("first", 0, "number of the first seed")
	skip := flag.Int("skip", 0, "so many of the seeds")
	seeds := flag.Int("seeds", 1, "at most")
	budget := flag.Duration("budget", time.Minute, "at most")
	hung := flag.Duration("hung", time.Minute, "that one seed may take, on a machine with much else to do, too")
	file := flag.String("case", "", "a case file to replay instead")
	flag.Parse()
	if *file != "" {
		replay(*file)
		return
	}

	find := zoo.Find{}
	over := time.Now().Add(*budget)
	names := strings.Split(*profiles, ",")
	for i := *skip; i < *skip+*seeds && !find.Killed && time.Now().Before(over); i++ {
		seed := fuzzy.Seed{Profile: names[i%len(names)], Number: *first + uint64(i/len(names))}
		find.Seed = seed.String()
		watch := time.AfterFunc(*hung, func() { end(find, zoo.Hung, "it does not come to an end") })
		result, err := fuzzy.Run(seed, nil)
		watch.Stop()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		find.Seeds++
		find.Virtual += time.Duration(result.Virtual)
		if err := find.Take(result.Failure); err != nil {
			fmt.Fprintf(os.Stderr, "seed %v: %v\n", seed, err)
			os.Exit(2)
		}
	}
	print(find)
}

// replay runs one case and prints a zoo.Replayed.
func replay(file string) {
	c, err := fuzzy.LoadCase(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	find := zoo.Find{}
	if err := find.Take(fuzzy.RunCase(&c, nil).Failure); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
		os.Exit(2)
	}
	replayed := zoo.Replayed{Rule: find.Rule, Text: find.Text, Story: c.Tell()}
	_ = json.NewEncoder(os.Stdout).Encode(replayed) // its reader notices if it is cut short
}

func end(find zoo.Find, rule, text string) {
	find.Seeds++
	find.Killed, find.Rule, find.Text = true, rule, text
	print(find)
	os.Exit(0)
}

func print(find zoo.Find) {
	_ = json.NewEncoder(os.Stdout).Encode(find) // its reader notices if it is cut short
}
